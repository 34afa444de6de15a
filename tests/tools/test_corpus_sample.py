# SPDX-License-Identifier: Apache-2.0
"""A seeded sample of small real models means the same after conversion."""

from __future__ import annotations

import json
import random

import pytest

from tools.corpus import convert as corpus
from tools.corpus.conversion_child import newest_of_runtime
from tools.corpus.corpus_tables import report
from tools.corpus.model import DEFECTS, Settings, models_of
from tools.lib import children

TARGETS = (21, 18, 13)
SAMPLE, SEED, NODES = 12, 7, 120


def small_models() -> list[str]:
    """The models of the sample, by name; none where there is no corpus."""
    manifest = corpus.DEFAULT / "manifest.json"
    if not manifest.exists():
        return []
    entries = json.loads(manifest.read_text())
    small = sorted(entry["id"] for entry in entries if entry["node_count"] <= NODES)
    return sorted(random.Random(SEED).sample(small, min(SAMPLE, len(small))))


@pytest.mark.skipif(not small_models(), reason=f"no corpus at {corpus.DEFAULT}")
@pytest.mark.parametrize("target", TARGETS)
def test_a_sample_is_equal_or_refused(target: int) -> None:
    models = models_of(corpus.DEFAULT, small_models(), None, 0)
    probed = children.run(newest_of_runtime, seconds=60)
    settings = Settings(seconds=60, newest=probed.value)
    verdicts = corpus.run(models, [target], settings, jobs=2)
    assert len(verdicts) == len(small_models())
    assert not [v for v in verdicts if v.status in DEFECTS], report(verdicts, [target])

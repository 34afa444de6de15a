# SPDX-License-Identifier: Apache-2.0
"""The table of runtimes of a batch counts what `opshift targets` shows for each of its models."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from opshift import check
from opshift.cli.entry import main
from opshift.opsets import targets
from opshift.zoo import migrate
from opshift.zoo.summary import COUNTS
from zoos import ERF, SOFTMAX, model

from tools.corpus.replay import CORPUS

SAMPLE = 30 if "OPSHIFT_PROPERTIES" in os.environ else 8  # models
SEED, NODES = 16, 200
FEW = ("onnxruntime==0.4", "onnxruntime==1.10", "tensorrt==8.4", "openvino==2022.1", "rknn")


def corpus_models() -> list[str]:
    """Returns the models of the sample by name; none if there is no corpus."""
    manifest = CORPUS / "manifest.json"
    if not manifest.exists():
        return []
    entries = json.loads(manifest.read_text())
    small = sorted(entry["id"] for entry in entries if entry["node_count"] <= NODES)
    return sorted(random.Random(SEED).sample(small, min(SAMPLE, len(small))))


def told(*words):
    done = CliRunner().invoke(main, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def assert_same_table(folder: Path, names: tuple[str, ...]) -> None:
    """A batch, and `opshift targets` for each of its models, count the same."""
    paths = sorted(folder.rglob("*.onnx"))
    expected: dict[str, Counter[str]] = {}
    for path in paths:
        for fit in told("targets", path, *names)["fits"]:
            counts = expected.setdefault(fit["target"], Counter())
            counts.update(models=1, now=int(fit["now"] is True), after=int(fit["after"] is True))
            counts.update(not_known=int(fit["after"] is None))
    chosen = [word for name in names or ("all",) for word in ("--runtimes", name)]
    look = ("--at-least", 1, "--dry-run", "--workers", 1, "--max-failures", len(paths))
    batch = told("batch", folder, *look, *chosen)
    assert batch["runtimes"] == [
        {"target": target, **{key: counts[key] for key in COUNTS}}
        for target, counts in expected.items()
    ]
    assert {counts["models"] for counts in expected.values()} == {len(paths)}


def test_every_runtime_is_asked_about_a_small_zoo(tmp_path):
    onnx.save(model(SOFTMAX, 12), tmp_path / "softmax.onnx")
    onnx.save(model(ERF, 13), tmp_path / "erf.onnx")
    assert_same_table(tmp_path, ())
    rows = migrate(tmp_path, None, 13, runtimes=["all"]).as_dict()["runtimes"]
    named = {row["target"].partition("==")[0] for row in rows}
    assert named == {row.name for row in targets.table()} - {"onnx"}


@pytest.mark.skipif(not corpus_models(), reason=f"no corpus at {CORPUS}")
def test_models_of_the_corpus_are_counted_as_targets_shows_them(tmp_path):
    for name in corpus_models():
        shutil.copytree(CORPUS / name, tmp_path / name)
        for path in tmp_path.joinpath(name).rglob("*.onnx"):
            if check(path).fails(strict=False):  # one imports no domain of its operators
                path.unlink()
    assert_same_table(tmp_path, FEW)

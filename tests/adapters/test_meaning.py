# SPDX-License-Identifier: Apache-2.0
"""The examples cover attributes and optional inputs; variants of a sample compute the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from opshift.opsets import schemas
from opshift.testing.meaning import gaps
from opshift.testing.surveys import reasons, subjects, varied

from tools.author import edges
from tools.author.edges import PACKAGE

REASONS = Path(__file__).with_name("gaps.toml")
MOST = 31
"""The number of gaps may fall; lower it when it does."""


@pytest.fixture(autouse=True)
def newest_onnx() -> None:
    if (schemas.latest("") or 0) < 27:
        pytest.skip("the installed onnx is older than some examples")


def test_every_gap_has_a_reason_and_every_reason_a_gap() -> None:
    found, known = gaps(PACKAGE), reasons(REASONS)
    assert sorted(found) == sorted(known)
    assert len(found) <= MOST


def test_variants_of_a_sample_are_refused_or_convert() -> None:
    """The variants state every attribute, optional input and output, singly and together."""
    sample = random.Random(5).sample(subjects(PACKAGE), 20)
    done = varied(sample, compare=False)
    assert done.unexplained(reasons(edges.REASONS)) == []
    assert sum(done.ran.values()) > 8 * len(sample)


def test_variants_of_a_sample_are_refused_or_compute_the_same() -> None:
    pytest.importorskip("onnxruntime", "1.27")
    sample = random.Random(3).sample(subjects(PACKAGE), 8)
    done = varied(sample)
    assert done.unexplained(reasons(edges.REASONS)) == []
    assert sum(done.ran.values()) > 3 * len(sample)

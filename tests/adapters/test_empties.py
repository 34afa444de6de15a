# SPDX-License-Identifier: Apache-2.0
"""Law: if a model runs on tensors without elements, so does its result, with equal shapes."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from opshift.opsets import schemas
from opshift.testing.empties import empties
from opshift.testing.surveys import emptied, pattern, reasons, subjects
from text_models import model

from tools.author.edges import PACKAGE, REASONS_OF_EMPTIES

ONCE_BROKEN = (
    r"bitwise_18_17.* int64|det_11_10|deform_conv_19_18|split_17_18|col2im_18_17|dft_17_16"
)
ENDED_IN_A_BUG = "attention_23_22 Attention three axes|in_signed_integers Sub/Div powers of two"


def test_a_sample_of_examples_without_elements() -> None:
    pytest.importorskip("onnxruntime", "1.27")
    if (schemas.latest("") or 0) < 27:
        pytest.skip("the installed onnx is older than some examples")
    every = subjects(PACKAGE)
    sample = random.Random(7).sample(every, 15)
    sample += [one for one in every if re.search(ONCE_BROKEN, one.name)][::12]
    sample += [one for one in every if re.search(ENDED_IN_A_BUG, one.name)]
    done = emptied(sample)
    assert done.unexplained(reasons(REASONS_OF_EMPTIES)) == []
    assert sum(done.ran.values()) > 2 * len(sample)


def test_every_reason_is_about_examples() -> None:
    names = "\n".join(subject.name for subject in subjects(PACKAGE))
    parts = [part.partition("[")[0].strip() for part in reasons(REASONS_OF_EMPTIES)]
    assert [part for part in parts if not pattern(part).search(names)] == []


def test_dimensions_of_one_size_are_emptied_together() -> None:
    before = model("(float[N,3] a, float[3] b) => (float[N,3] y) { y = Add(a, b) }", 13)
    given = {"a": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}
    found = {name: inputs for name, _, inputs in empties(before, given)}
    assert list(found) == [
        f"{places} {manner}" for places in ("a.0", "a.1 b.0") for manner in ("computed", "declared")
    ]
    assert [value.shape for value in found["a.1 b.0 declared"].values()] == [(2, 0), (0,)]


def test_dimensions_of_a_single_tensor_are_also_emptied_alone() -> None:
    before = model("(float[3,3] a) => (float[3,3] y) { y = Neg(a) }", 13)
    names = [name for name, _, _ in empties(before, {"a": np.ones((3, 3), np.float32)})]
    assert names[::2] == ["a.0 a.1 computed", "a.0 computed", "a.1 computed"]

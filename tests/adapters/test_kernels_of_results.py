# SPDX-License-Identifier: Apache-2.0
"""Law: some release of onnxruntime has a kernel for each node that an adapter writes."""

from __future__ import annotations

import os
import random

import pytest
from kernels_of_results import PACKAGE, findings, unexplained, without_kernel
from newest_onnx import IS_OLDER
from opshift import convert_version
from opshift.opsets import kernels, schemas, targets
from opshift.testing.surveys import subjects
from opshift_adapters.elementwise.comparison import NO_KERNEL
from text_models import model

SAMPLE = int(os.environ.get("OPSHIFT_KERNELS", "4"))


@pytest.fixture(autouse=True)
def newest_onnx() -> None:
    if IS_OLDER:
        pytest.skip("the installed onnx is older than the table")


def test_every_node_that_a_sample_of_examples_writes_has_a_kernel() -> None:
    every = subjects(PACKAGE)
    sample = random.Random(2).sample(every, min(SAMPLE, len(every)))
    assert unexplained(findings(sample)) == []


@pytest.mark.parametrize(
    ("opset", "text"),
    [
        (14, "(bool[N,4] x) => (bool[N,4] y) { y = Trilu<upper = 0>(x) }"),
        (13, "(float n) => (float[K] y) <float a = {0}, float d = {1}> { y = Range(a, n, d) }"),
        (13, "(double n) => (double[K] y) <double a = {0}, double d = {1}> { y = Range(a, n, d) }"),
        (12, "(double[N] x, double l) => (double[N] y) { y = Clip(x, l) }"),
        (8, "(double[N] x) => (double[N] y) { y = Clip<min = -0.5>(x) }"),
    ],
)
def test_an_operator_without_a_kernel_is_not_written(opset: int, text: str) -> None:
    for target in range(7, opset):
        after = convert_version(model(text, opset, ir=7), target)
        assert without_kernel(after) == []


def test_the_types_that_where_lacks_are_those_of_the_table() -> None:
    missing = targets.some_release().no_kernels(("", "Where"), 9)
    assert missing is not None
    numbers = {schemas.element_number(types[-1]) for types in missing.choices}
    assert numbers == set(NO_KERNEL)


def test_only_releases_that_know_a_version_count() -> None:
    """Opset 13 added Abs of bfloat16, so releases that read only lower opsets do not count."""
    table = kernels.shipped()["onnxruntime"]
    assert ("bfloat16",) in table.lacks["", "Abs"][13].choices
    assert table.releases[0] < "1.6"
    missing = targets.some_release().no_kernels(("", "Abs"), 13)
    assert missing is not None
    assert ("bfloat16",) in missing.choices
    less = targets.some_release().no_kernels(("", "Less"), 7)
    assert less is None or not less.choices

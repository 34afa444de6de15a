# SPDX-License-Identifier: Apache-2.0
"""The check of written forms, which `test_examples.py` applies to every result, finds mistakes."""

from __future__ import annotations

import pytest
from text_models import model

from tools.lib import written_forms

COUNTS = "(int64[3] x) => (int64[3] y) { y = Identity(x) }"
FLOATS = "(float[3] x) => (float[3] y) { y = Identity(x) }"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (COUNTS, "(int64[3] x) => (int64[1] y) { y = ReduceSum(x) }", ["ReduceSum of integers"]),
        (COUNTS, "(int64[3] x) => (float[1] y) { f = Cast<to=1>(x) y = ReduceSum(f) }", []),
        (FLOATS, "(float[3] x) => (float[3] y) { i = Cast<to=6>(x) y = Cast<to=1>(i) }", []),
            (FLOATS, "(float[3] x) => (bool[3] y) { i = Cast<to=6>(x) y = Cast<to=9>(i) }", ["merged"]),
        (FLOATS, "(float[3] x) => (bool[3] y) { w = Floor(x) i = Cast<to=6>(w) y = Cast<to=9>(i) }", []),
        (FLOATS, "(float[3] x) => (float[3] y) { i = Cast<to=9>(x) y = Cast<to=1>(i) }", []),
        (FLOATS, "(float[3] x) => (float[3] y) { h = Cast<to=10>(x) y = Cast<to=1>(h) }", ["merged"]),
        (FLOATS, "(float[3] x) => (float[3] y) { d = Cast<to=11>(x) y = Cast<to=1>(d) }", []),
        (
            FLOATS,
            """(float[3] x) => (float[3] y) <int64 n = {2}> {
                y = Loop(n, "", x) <body = b (int64 i, bool c, float[3] s) => (bool k, float[3] t)
                    { k = Identity(c) t = Identity(s) }>
            }""",
            ["no condition"],
        ),
    ],
)  # fmt: skip
def test_a_form_that_old_runtimes_compute_differently_is_named(
    before: str, after: str, told: list[str]
) -> None:
    objections = written_forms.objections(model(before, 13), model(after, 13))
    assert len(objections) == len(told)
    assert all(part in sentence for part, sentence in zip(told, objections, strict=True))


@pytest.mark.parametrize(
    ("opset", "node", "told"),
    [
        (10, "Concat<axis=-1>(x, x)", ["Concat 10 does not count axis from the end"]),
        (10, "Unsqueeze<axes=[-1]>(x)", ["Unsqueeze 10 does not count axes from the end"]),
        (10, "Gather<axis=-1>(x, i)", []),
        (10, "Concat<axis=1>(x, x)", []),
        (11, "Concat<axis=-1>(x, x)", []),
    ],
)
def test_an_axis_that_is_counted_from_the_end_too_early_is_named(
    opset: int, node: str, told: list[str]
) -> None:
    graph = "(float[2,3] x, int64[1] i) => (float[a,b] y) { y = %s }"
    plain = model(graph % "Identity(x)", opset)
    written = model(graph % node, opset)
    assert written_forms.objections(plain, written) == told
    assert written_forms.objections(written, written) == []

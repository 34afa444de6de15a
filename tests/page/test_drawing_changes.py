# SPDX-License-Identifier: Apache-2.0
"""Pairs of drawings: differences are marked, and the title describes them in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser
from opshift.look import drawn
from opshift.page.drawing import ADDED, REMOVED, Box, Drawing
from opshift.page.drawing_changes import VARIES, marked, title

OPS, NAMES, VALUES = st.sampled_from("ABC"), st.sampled_from("xyz"), st.sampled_from("012")


@st.composite
def boxes(draw):
    holds = draw(st.dictionaries(NAMES, VALUES, max_size=3))
    inputs = frozenset(name for name in holds if draw(st.booleans()))
    return Box(draw(OPS), tuple(holds.items()), inputs)


DRAWINGS = st.lists(boxes(), min_size=1, max_size=5).map(lambda found: Drawing(tuple(found)))


def unsigned(drawing):
    return replace(drawing, boxes=tuple(replace(box, sign="", signs=()) for box in drawing.boxes))


@given(DRAWINGS, DRAWINGS)
def test_what_is_left_without_a_sign_is_in_both_drawings(before, after):
    left, right = marked(before, after)
    assert (unsigned(left), unsigned(right)) == (before, after)
    assert {box.sign for box in left.boxes} <= {"", REMOVED}
    assert {box.sign for box in right.boxes} <= {"", ADDED}
    stays = [Counter(box.op for box in side.boxes if not box.sign) for side in (left, right)]
    assert stays[0] == stays[1]
    alone = [Counter(box.op for box in side.boxes if box.sign) for side in (left, right)]
    assert not alone[0] & alone[1]
    same = [
        Counter(
            (box.op, name, value)
            for box in side.boxes
            for (name, value), sign in zip(box.holds, box.signs, strict=False)
            if not sign
        )
        for side in (left, right)
    ]
    assert same[0] == same[1]


@given(DRAWINGS)
def test_equal_drawings_have_no_sign(drawing):
    left, right = marked(drawing, drawing)
    assert left == right
    assert not [box for box in left.boxes if box.sign or any(box.signs)]
    assert left.svg().count(ADDED) == 0


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ([Box("Gemm")], [Box("Gemm", (("C", "[0, 0]"),), frozenset("C"))], "Gemm: zero C added"),
        ([Box("S", (("a", "0"),))], [Box("S", (("a", "0"),), frozenset("a"))], "S: a became an input"),
        ([Box("S", (("a", "0"),), frozenset("a"))], [Box("S", (("a", "0"),))], "S: a became an attribute"),
        ([Box("S", (("a", "1"),))], [Box("S", (("a", "2"),))], "S: a changed from 1 to 2"),
        ([Box("S", (("a", "1"),))], [Box("S", (("a", VARIES),))], "S: a changed"),
        ([Box("S", (("a", "0"),))], [Box("S")], "S: a 0 removed"),
        ([Box("S")], [Box("T"), Box("S"), Box("T")], "S: T \N{MULTIPLICATION SIGN}2 added"),
        ([Box("S"), Box("R")], [Box("S")], "S: R removed"),
        ([Box("Mish")], [Box("Softplus"), Box("Mul")], "Mish \N{RIGHTWARDS ARROW} Softplus, Mul"),
        ([Box("S")], [Box("S")], "S: other inputs"),
    ],
)  # fmt: skip
def test_the_title_says_what_changed(before, after, shown):
    assert title(Drawing(tuple(before)), Drawing(tuple(after))) == shown


def test_a_rewritten_place_is_marked_from_the_models():
    from opshift import convert_version

    text = "(float[3,4] a, float[4,4] b) => (float[3,4] y) { y = Gemm(a, b) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 11]> g {text}')
    (form,) = drawn.forms(model, convert_version(model, 10))
    page = form.pair().html()
    assert "Gemm: zero C added" in page
    assert f"{ADDED} C = [0, 0, 0, 0]" in page

# SPDX-License-Identifier: Apache-2.0
"""Drawings: boxes do not overlap, lines go down, and names are escaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from opshift.page.drawing import BOXES, Box, Drawing
from opshift.page.markup import LONGEST, marked, repeated, shortened, words
from opshift.page.page_parts import SHOWN, NameList
from opshift.text import Line, Role

EVIL = "</svg><script>alert(1)</script>\"'&\u202e\udcff\n"


@st.composite
def drawings(draw):
    """A graph in which every box reads inputs or boxes before it."""
    count, inputs = draw(st.integers(1, BOXES)), draw(st.integers(0, 4))
    names = [draw(st.text(max_size=40)) for _ in range(inputs)]
    boxes, wires = [], []
    for number in range(count):
        holds = draw(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=30)), max_size=8))
        boxes.append(Box(draw(st.text(min_size=1, max_size=30)), tuple(holds)))
        for _ in range(draw(st.integers(0, 3))):
            if number and draw(st.booleans()):
                wires.append(((True, draw(st.integers(0, number - 1))), number))
            elif inputs:
                wires.append(((False, draw(st.integers(0, inputs - 1))), number))
    ends = tuple(
        (f"out{i}", draw(st.integers(0, count - 1))) for i in range(draw(st.integers(1, 3)))
    )
    return Drawing(tuple(boxes), tuple(names), tuple(wires), ends)


def rectangles(svg):
    root = ElementTree.fromstring(svg)
    return [
        tuple(float(one.get(k)) for k in ("x", "y", "width", "height")) for one in root.iter("rect")
    ]


@given(drawings())
def test_boxes_lie_apart_and_inside_and_wires_go_down(drawing):
    svg = drawing.svg()
    found = rectangles(svg)
    assert len(found) == len(drawing.boxes) + len(drawing.inputs) + len(drawing.outputs)
    wide, tall = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
    for number, (x, y, w, h) in enumerate(found):
        assert -1 <= x <= x + w <= wide + 1
        assert 0 <= y <= y + h <= tall + 1
        for other_x, other_y, other_w, other_h in found[:number]:
            beside = x >= other_x + other_w or other_x >= x + w
            assert beside or y >= other_y + other_h or other_y >= y + h
    for start, end in re.findall(r'd="M[\d.-]+ ([\d.]+)C.*? ([\d.]+)"', svg):
        assert float(end) > float(start)


@given(drawings())
def test_a_drawing_has_one_wire_for_each_value_that_is_read(drawing):
    assert drawing.svg().count('class="wire"') == len(drawing.wires) + len(drawing.outputs)


def test_a_drawing_that_is_too_large_counts_its_operators():
    boxes = tuple(Box("Add" if i % 3 else "Mul") for i in range(BOXES + 3))
    svg = Drawing(boxes, ("x",), (((False, 0), 5),), (("y", 9),)).svg()
    assert f"{BOXES + 3} nodes" in svg
    assert "Add = 18" in svg
    assert len(rectangles(svg)) == 3


def test_names_stay_text():
    svg = Drawing((Box(EVIL, ((EVIL, EVIL),)),), (EVIL,), (((False, 0), 0),), ((EVIL, 0),)).svg()
    assert "<script" not in svg
    assert "\u202e" not in svg
    assert {one.tag for one in ElementTree.fromstring(svg).iter()} <= {
        "svg",
        "g",
        "rect",
        "text",
        "path",
        "title",
    }


@given(st.text(), st.sampled_from(Role))
def test_words_are_escaped_once_and_never_broken(text, role):
    html = marked(Line(text, role))
    bare = re.sub(r"<wbr>|</?span[^<>]*>|&nbsp;", "", html)
    assert "<" not in bare
    assert ">" not in bare
    for piece in re.split(r"<wbr>| |&nbsp;", re.sub(r'<span class="long".*?</span>', "", html)):
        shown = re.sub(r"<[^<>]*>|&\w+;|&#x27;", "_", piece)
        assert len(shown) <= LONGEST * 11  # a control character is written as up to ten letters
    assert "&amp;lt;" not in words("<")


def test_a_short_text_is_one_line_and_a_short_end_after_code_is_not():
    assert words("12 Nov 2026") == "<span class=whole>12 Nov 2026</span>"
    assert words("use `a` and save it.") == "use <code>a</code> and save it."


def test_a_long_word_is_hidden_at_its_end_and_told_when_pointed_at():
    word = "a" * 60
    assert f'title="{word}"' in words(word)
    assert "<wbr>" not in words(word)
    assert words("/model/encoder/layer/weight").count("<wbr>") == 4


def test_a_part_of_a_name_stays_whole_where_a_stronger_separator_leaves_room():
    adapter = words("opshift_adapters.linear.einsum.einsum_12_11")
    assert adapter.split("<wbr>") == ["opshift_adapters.", "linear.", "einsum.", "einsum_12_11"]
    assert words("/tmp/some/where/model.onnx:").endswith("<wbr>model.onnx:")
    assert words("a_node_without_any_other_separator").count("<wbr>") == 5
    assert words("opshift_adapters.elementwise.arithmetic:74").endswith("<wbr>arithmetic:74")


def test_names_are_shortened_at_their_parts():
    assert shortened("/layers/0/attention/Squeeze_output_0", 18) == "…Squeeze_output_0"
    assert shortened("stages.1.blocks.0.norm.weight", 18) == "…0.norm.weight"
    assert shortened("short", 18) == "short"
    assert len(shortened("x" * 99, 18)) == 18
    assert repeated(["Add", "Mul", "Add"]) == "Add \N{MULTIPLICATION SIGN}2, Mul"
    assert repeated([]) == "nothing"


def test_a_list_of_names_ends_with_the_number_of_those_left_out():
    assert "more" not in NameList("n", ["x"] * SHOWN).html()
    assert NameList("n", ["x"] * (SHOWN + 1234)).html().count("<li>") == SHOWN + 1
    assert "and 1,234 more" in NameList("n", ["x"] * (SHOWN + 1234)).html()

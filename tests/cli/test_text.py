# SPDX-License-Identifier: Apache-2.0
"""Output on a terminal or a page has no control characters from names in a model."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opshift.cli import entry
from opshift.errors import LeftoverWarning
from opshift.text import (
    Line,
    Role,
    Shown,
    coloured,
    columns,
    counted,
    cut,
    folded,
    notebook,
    plain,
    printable,
    size,
    table,
)

OURS = re.compile(r"\x1b\[(?:\d+;?)*m")  # the colours that this module writes itself


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=4), st.booleans())
def test_only_the_ends_of_its_own_lines_are_not_printable(texts, colours):
    lines = [Line(text, Role.BAD) for text in texts]
    shown = OURS.sub("", coloured(lines)) if colours else plain(lines)
    assert len(shown.split("\n")) == len(lines)
    assert all(line.isprintable() for line in shown.split("\n"))
    assert plain([Line(line) for line in shown.split("\n")]) == shown  # once is enough


@given(st.text(st.characters(codec="utf-8")))
def test_a_page_holds_no_markup_of_a_name(text):
    inside = notebook([Line(text)]).removeprefix("<pre>").removesuffix("</pre>")
    assert "<" not in inside
    assert inside.isprintable()


@given(st.lists(st.text("abc", min_size=1, max_size=12), min_size=1), st.integers(40, 90))
def test_a_long_line_is_folded_between_its_words(words, width):
    text = "  " + " ".join(words)
    lines = folded(text, width).split("\n")
    assert " ".join(line.strip() for line in lines) == text.strip()
    assert all(len(line) <= width for line in lines)
    assert all(line.startswith(" " * 6) for line in lines[1:])
    assert folded(text, 0) == text


@given(st.text(st.characters(codec="utf-8")).map(printable), st.integers(8, 60))
def test_a_cut_text_fits_its_line(text, width):
    shown = cut(text, width)
    assert columns(shown) <= width
    assert shown == text or (shown.endswith("...") and text.startswith(shown[:-3]))


def test_a_table_is_lined_up_after_escaping():
    lines = list(table(("name", "n"), [("a\nb", "1"), ("ccccc", "2")]))
    assert [line.text.rindex(last) for line, last in zip(lines, "n12", strict=True)] == [7, 7, 7]
    assert printable("a\nb") == "a\\nb"


@pytest.mark.parametrize(
    ("octets", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (534_120, "534 KB"), (1_536_000, "1.54 MB"),
     (999_600, "1 MB"), (2_000_000_000_000_000, "2000 TB")],
)  # fmt: skip
def test_sizes(octets, shown):
    assert size(octets) == shown


def test_numbers():
    assert [counted(n, "node") for n in (0, 1, 2, 12345)] == [
        "0 nodes", "1 node", "2 nodes", "12,345 nodes"
    ]  # fmt: skip


def test_an_outcome_shows_itself_everywhere():
    class Outcome(Shown):
        __slots__ = ()

        def lines(self):
            yield Line("Done: <x>.", Role.GOOD)
            yield Line("more", more=True)

    assert repr(Outcome()) == "<Outcome: Done: <x>.>"
    assert str(Outcome()) == "Done: <x>."
    assert "Done: &lt;x&gt;." in Outcome()._repr_html_()


def test_a_warning_shows_no_control_character(capsys):
    entry._show_warning(pytest.fail, LeftoverWarning("a\x1b[31m.data"), LeftoverWarning)
    assert capsys.readouterr().err == "warning: a\\x1b[31m.data\n"

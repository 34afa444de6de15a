# SPDX-License-Identifier: Apache-2.0
"""The table with one row for each runtime shows the same answers as the row of each release."""

from __future__ import annotations

import pytest
from opshift.look import reach
from opshift.look.accepts import Fit
from opshift.text import plain


def fits(runtime: str, **answers: str) -> list[Fit]:
    """Releases 1.0, 1.1 … of a runtime; a letter for each: y, n or ?."""
    words = {"y": "yes", "n": "no", "?": "not known"}
    return [
        Fit(f"{runtime}==1.{at}", words[now], words[after], ("too old",), ())
        for at, (now, after) in enumerate(zip(answers["now"], answers["after"], strict=True))
    ]


@pytest.mark.parametrize(
    ("now", "after", "shown"),
    [
        ("nny", "yyy", ["edge", "1.2+", "1.0+"]),
        ("yny", "nyn", ["edge", "1.0, 1.2+", "1.1"]),
        ("yynn", "yyyn", ["edge", "1.0..1.1", "1.0..1.2"]),
        ("nn", "nn", ["edge", "no", "no"]),
        ("n?", "??", ["edge", "not known (1.1+)", "not known (1.0+)"]),
        ("?y", "yy", ["edge", "1.1+, not known (1.0)", "1.0+"]),
    ],
)
def test_releases_become_ranges(now, after, shown):
    row = plain(reach.lines(fits("edge", now=now, after=after))).splitlines()[-1]
    assert [cell.strip() for cell in row.split("  ") if cell.strip()][:3] == shown


def test_the_first_line_names_what_runs_for_certain():
    both = fits("edge", now="ny", after="yy") + fits("other", now="?", after="?")
    first = plain(reach.lines(both)).splitlines()[0]
    assert first == "Runs now in edge 1.1+; after a conversion in edge 1.0+."
    none = plain(reach.lines(fits("edge", now="n", after="?"))).splitlines()[0]
    assert none.startswith("Runs now in none of the measured runtimes; after a conversion in no")


@pytest.mark.parametrize(
    ("reasons", "blockers", "unknown", "first"),
    [
        ((), (), (), ""),
        (("a",), (), (), "now: a"),
        (("a", "b"), (), ("u",), "now: a; 1 more reason"),
        (("a",), ("b", "c", "d"), ("u",), "after conversion: b; 2 more reasons"),
        ((), ("b",), ("u", "v"), "after conversion: b"),
        ((), (), ("u", "v"), "not known: u; 1 more unknown fact"),
    ],
)
def test_the_first_reason_is_that_of_a_conversion(reasons, blockers, unknown, first):
    assert Fit("edge==1.0", "no", "no", reasons, blockers, unknown).first == first


@pytest.mark.parametrize(("after", "has_reason"), [("ny", False), ("yn", True)])
def test_the_newest_release_gives_the_reason(after, has_reason):
    row = plain(reach.lines(fits("edge", now="nn", after=after))).splitlines()[-1]
    assert row.rstrip().endswith("now: too old") is has_reason


def test_releases_with_one_answer_are_written_by_their_ends():
    several = [
        Fit("edge==1.0..1.2, 1.4", "yes", "yes", (), ()),
        Fit("edge==1.5", "no", "yes", ("too new",), ()),
    ]
    row = plain(reach.lines(several)).splitlines()[-1]
    assert row.split() == ["edge", "1.0..1.4", "1.0+"]


def test_a_runtime_without_releases_has_an_answer_alone():
    row = plain(reach.lines([Fit("device", "yes", "not known", (), (), ("its kernels",))]))
    assert row.splitlines()[-1].split("  ")[0] == "device"
    assert row.splitlines()[0].startswith("Runs now in device; after")
    assert [cell.strip() for cell in row.splitlines()[-1].split("  ") if cell.strip()][1:] == [
        "yes", "not known", "not known: its kernels",
    ]  # fmt: skip

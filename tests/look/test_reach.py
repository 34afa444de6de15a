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

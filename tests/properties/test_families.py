"""The laws per operator family: made-up attributes, shapes, types and surroundings."""

from __future__ import annotations

import effort  # noqa: F401 - sets how many examples are tried
import pytest
from families import FAMILIES
from families.holding import Tally, cases, hold
from hypothesis import given


@pytest.mark.parametrize("name", FAMILIES)
def test_there_and_back(name):
    tally = Tally()

    @given(cases(FAMILIES[name], tally))
    def law(case):
        hold(case, tally)

    law()
    ends = tally.counts
    discarded = sum(count for end, count in ends.items() if end.startswith("discarded"))
    assert discarded * 3 < ends["drawn"], f"too few are legal: {ends}"
    assert ends["down equal"] or not ends["down refused"], f"never goes down: {tally.refusals}"
    print(name, dict(ends))

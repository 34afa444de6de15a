# SPDX-License-Identifier: Apache-2.0
"""The laws per operator: made-up attributes, shapes, types and surroundings.

Each operator has a budget of its own, so that a family of many operators tries none of them less.
"""

from __future__ import annotations

import effort
import pytest
from families import FAMILIES
from families.holding import Tally, cases, hold, known
from hypothesis import given, settings


@pytest.mark.parametrize("name", FAMILIES)
def test_there_and_back(name: str) -> None:
    """No other test varies what a single operator is given; the examples are what people chose."""
    family = FAMILIES[name]
    if not known(family):
        pytest.skip("this onnx has none of them")
    tally = Tally()
    for key in known(family):
        alone = {key: family[key]}

        @effort.seeded
        @settings(max_examples=effort.PER_OPERATOR)
        @given(cases(alone, tally))
        def law(case):
            hold(case, tally)

        before = tally.counts["tried"]
        law()
        assert tally.counts["tried"] > before, f"no legal use of {key[1]} was made up"
    ends = tally.counts
    discarded = sum(count for end, count in ends.items() if end.startswith("discarded"))
    least = 3 if effort.wanted else 2
    assert discarded * least < ends["drawn"], f"too few are legal: {ends}"
    assert ends["down equal"] or not ends["down refused"], f"never goes down: {tally.refusals}"
    print(name, dict(ends))

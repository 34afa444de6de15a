# SPDX-License-Identifier: Apache-2.0
"""Laws for each operator: random attributes, shapes, types and scopes.

Each operator has its own budget, so the size of a family does not matter.
"""

from __future__ import annotations

import effort
import pytest
from families import FAMILIES
from families.holding import Tally, cases, hold, known
from hypothesis import given, settings


@pytest.mark.parametrize("name", FAMILIES)
def test_there_and_back(name: str) -> None:
    """Only this test varies the attributes and inputs of each operator."""
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

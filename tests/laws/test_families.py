# SPDX-License-Identifier: Apache-2.0
"""The laws per operator family: made-up attributes, shapes, types and surroundings."""

from __future__ import annotations

import effort  # noqa: F401 - sets how many examples are tried
import pytest
from families import FAMILIES
from families.holding import Tally, cases, hold, known
from hypothesis import given, settings


@pytest.mark.parametrize("name", FAMILIES)
def test_there_and_back(name):
    if not known(FAMILIES[name]):
        pytest.skip("this onnx has none of them")
    tally = Tally()

    @settings(max_examples=2 * settings().max_examples)
    @given(cases(FAMILIES[name], tally))
    def law(case):
        hold(case, tally)

    law()
    ends = tally.counts
    discarded = sum(count for end, count in ends.items() if end.startswith("discarded"))
    assert discarded * 3 < ends["drawn"], f"too few are legal: {ends}"
    assert ends["down equal"] or not ends["down refused"], f"never goes down: {tally.refusals}"
    print(name, dict(ends))

# SPDX-License-Identifier: Apache-2.0
"""No change of an adapter or of the engine makes the result of an example longer."""

from __future__ import annotations

import pytest
from opshift.opsets import schemas

from tools.author import lengths


def test_no_result_of_an_example_is_longer_than_recorded() -> None:
    if (schemas.latest("") or 0) < 28:
        pytest.skip("the table is of a newer onnx")
    told = list(lengths.objections(lengths.recorded(), lengths.measured()))
    assert told == [], "after new examples, run: python -m tools.author lengths"


def test_what_is_longer_or_not_recorded_is_told() -> None:
    known = {"a": [1, 3], "b": [2]}
    assert list(lengths.objections(known, {"a": [1, 2], "b": [2]})) == []
    assert list(lengths.objections(known, {"a": [2, 3], "c": [1]})) == [
        "a: 2 3 nodes, 1 3 recorded", "c: 1 results, 0 recorded",
    ]  # fmt: skip

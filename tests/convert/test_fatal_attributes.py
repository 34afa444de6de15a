# SPDX-License-Identifier: Apache-2.0
"""No command passes an attribute to onnx's inference that would end the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from onnx import ModelProto
from opshift import InvalidModel, check, convert_version, lowest_versions, plan
from opshift.verify import verify
from text_models import model

NORMALIZED = "(float[2,3] x, float[3] s) => (float y) { y = LayerNormalization<axis=AT>(x, s) }"
GATHERED = "(float[2,3] x, int64[2,1] i) => (float y) { y = GatherND<batch_dims=AT>(x, i) }"
VERBS: dict[str, Callable[[ModelProto], Any]] = {
    "convert down": lambda m: convert_version(m, 13),
    "convert up": lambda m: convert_version(m, 18),
    "plan": lambda m: plan(m, 13),
    "lowest": lowest_versions,
    "verify": lambda m: verify(m, m),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("text", "number"),
    [(NORMALIZED, 2**31), (NORMALIZED, 2**63 - 1), (GATHERED, -5), (GATHERED, -(2**31) - 1)],
)
@pytest.mark.parametrize("rank", ["", "[a,b]"])
def test_the_model_is_invalid(verb: str, text: str, number: int, rank: str) -> None:
    broken = model(text.replace("AT", str(number)).replace("(float y)", f"(float{rank} y)"), 17)
    with pytest.raises(InvalidModel, match=f"is {number}, but must lie between"):
        VERBS[verb](broken)
    assert any("must lie between" in finding.text for finding in check(broken).found)

# SPDX-License-Identifier: Apache-2.0
"""A later opset infers ranks that the model did not have: the classes are followed with them."""

from __future__ import annotations

import pytest
from opshift.author import registry
from opshift.convert.quotient import conversion
from opshift.convert.request import Request
from opshift.opsets import schemas
from text_models import model

# Below opset 14, onnx infers no rank from the length of a computed shape.
WEIGHTS = ", ".join(["1"] * 36)
SHAPED = "(float[n,8,8] x) => (int64 y) <int64[3] b = {2, 4, 4}, float[2,2,3,3] w = {WEIGHTS}>"


def by_classes(text: str) -> conversion.ClassAnswer:
    """What the classes of a model from opset 13 tell of it at opset 18."""
    head = SHAPED.replace("WEIGHTS", WEIGHTS)
    data = model(
        f"{head} {{ t = Abs(b) r = Reshape(x, t) {text} y = Size(z) }}", 13
    ).SerializeToString()
    return conversion.convert(data, Request(18), registry.default())


def test_ranks_of_a_later_opset_need_no_look_at_the_whole_result(monkeypatch):
    monkeypatch.setattr(conversion, "proves", lambda *_: pytest.fail("the result was read"))
    found = by_classes("a = Relu(r) h = Transpose<perm = [0, 2, 1]>(a) z = MatMul(r, h)")
    assert found.result is not None


@pytest.mark.skipif(
    (schemas.latest("") or 0) < 24, reason="onnx 1.17 infers no rank from the length of a shape"
)
@pytest.mark.parametrize(
    "text",
    [
        "z = Conv(r, w)",  # of a tensor of rank 3, which only opset 18 knows
        "a = Relu(r) c = Neg(a) z = Conv(c, w)",
    ],
)
def test_what_the_later_ranks_contradict_is_not_converted_by_classes(text):
    found = by_classes(text)
    assert found.result is None
    assert found.why == "an objection to the result"


def test_without_a_contradiction_the_same_operators_are():
    text = "u = Constant<value = int64[1] {0}>() q = Unsqueeze(r, u) z = Conv(q, w)"
    assert by_classes(text).why == ""

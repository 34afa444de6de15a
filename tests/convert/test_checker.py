# SPDX-License-Identifier: Apache-2.0
"""What the full check objects to, and what it lets pass."""

from opshift.author import registry
from opshift.convert.legal import checker
from text_models import model

UNTYPED = '(int8[2] x) => (float[1,2] y) { a = Cast<to="FLOAT">(x) y = Unsqueeze<axes=[0]>(a) }'
WRONG = '(int8[2] x) => (int8[1,2] y) { z = Cast<to="FLOAT">(x) w = Unsqueeze<axes=[0]>(z) y = Unsqueeze<axes=[0, 1]>(x) }'

BODY = """(int64 n, float[2] x) => (float[2] y) { y = Loop(n, "", x) <
    body = b (int64 i, bool k, float[2] p) => (o, q) { o = Identity(k) q = Cast<to="FLOAT">(p) }> }"""


def test_inference_that_knows_too_little_is_no_objection() -> None:
    assert checker.whole(model(UNTYPED, opset=5, ir=3), registry.default(), full=True) is None


def test_a_contradiction_is_an_objection_even_beside_missing_types() -> None:
    assert "differ in rank" in (
        checker.whole(model(WRONG, opset=5, ir=3), registry.default(), full=True) or ""
    )


def test_a_body_whose_types_are_not_known_is_no_objection() -> None:
    assert checker.whole(model(BODY, opset=5, ir=3), registry.default(), full=True) is None

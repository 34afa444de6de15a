# SPDX-License-Identifier: Apache-2.0
"""The inputs of a function get types that all its nodes accept together."""

from __future__ import annotations

import pytest
from onnx import FunctionProto
from opshift.convert.legal.guessed_types import guesses
from text_models import model

FLOAT, INTEGER, STRING, BOOL = ["float"], ["int64"], ["string"], ["bool"]


def function(
    inputs: str, outputs: str, body: str, imports: str = '"": 13, "own": 1'
) -> FunctionProto:
    text = f"""(float[2] x) => (float[2] y) {{ y = Neg(x) }}
        <domain: "f", opset_import: [{imports}]> F ({inputs}) => ({outputs}) {{ {body} }}"""
    return model(text, 13, more=', "f": 1').functions[0]


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("a", "b = Neg(a)", [["float"], ["int64"]]),
        ("a", "b = Identity(a)", [["float"], ["int64"]]),
        ("a", "b = own.Op(a)", [["float"], ["int64"]]),
        ("a", "b = Not(a)", [BOOL, BOOL]),
        ("a", "b = StringNormalizer(a)", [STRING, STRING]),
        ("a", "c = Exp(a) b = Identity(c)", [["float"], ["float16"]]),
        ("a", "c = Not(a) b = Exp(a)", []),
        ("a, s", "b = Reshape(a, s)", [["float", "int64"], ["int64", "int64"]]),
        ("a, c", "d = Identity(c) b = Add(a, d) e = Exp(c)", [["float"] * 2, ["float16"] * 2]),
        ("a, c, d", "b = Where(a, c, d)", [["bool", "float", "float"], ["bool", "int64", "int64"]]),
        ("a, c", "b = BitShift<direction=\"LEFT\">(a, c)", [["uint8"] * 2, ["uint8"] * 2]),
        ("a", 'b = Clip(a, "", "") c = Not(d)', [["float"], ["int64"]]),
        ("a, unread", "b = Not(a)", [["bool", "float"], ["bool", "int64"]]),
    ],
)  # fmt: skip
def test_values_of_one_variable_have_one_type_that_every_node_accepts(inputs, body, expected):
    assert list(guesses(function(inputs, "b", body))) == expected


@pytest.mark.parametrize(
    ("constant", "kind"),
    [
        ("value = int32[1] {1}", "int32"), ("value = double[1] {1}", "double"),
        ("value_int = 1", "int64"), ("value_floats = [1.0]", "float"), ('value_string = "a"', None),
    ],
)  # fmt: skip
def test_a_constant_has_the_type_of_its_attribute(constant, kind):
    body = f"k = Constant<{constant}>() b = Add(a, k)"
    assert list(guesses(function("a", "b", body))) == ([[kind]] * 2 if kind else [])


def test_a_string_constant_is_a_string():
    body = 'k = Constant<value_string = "a">() b = Equal(a, k)'
    assert list(guesses(function("a", "b", body, '"": 19'))) == [STRING, STRING]


def test_equal_constants_have_the_type_of_their_value():
    body = "c = ConstantOfShape<value = int32[1] {1}>(s) b = Add(a, c)"
    assert list(guesses(function("a, s", "b", body))) == [["int32", "int64"]] * 2
    body = "c = Pad<value = 1.0, pads = [0, 0]>(s) b = Add(a, c)"
    assert next(guesses(function("a, s", "b", body, '"": 2'))) == ["float", "float"]


def test_a_constant_without_an_output_has_no_type():
    made = function("a", "b", "k = Constant<value = int32[1] {1}>() b = Neg(a)")
    del made.node[0].output[:]
    assert list(guesses(made)) == [FLOAT, INTEGER]


def test_inputs_that_are_left_out_or_too_many_bind_nothing():
    body = """b = Exp(a) c = Clip(a, "", a) d = BitShift<direction = "LEFT">(e, e)
        f = Clip(e, "", e) g = Not(h, a)"""
    assert next(guesses(function("a, e, h", "b", body))) == ["float", "uint8", "bool"]


def test_variadic_values_of_several_types_do_not_bind_each_other():
    body = """b = If(a) <then_branch = t () => (p) { p = Neg(c) },
        else_branch = e () => (q) { q = Not(d) }>"""
    assert next(guesses(function("a, c, d", "b", body))) == ["bool", "float", "bool"]
    body = """n, c, f = Loop(n0, c0, a, s) <body = b (i, g, x, y) => (o, p, q) { o = Identity(g) p = Exp(x) q = Not(y) }>
        b = Exp(a) z = Not(s)"""
    assert next(guesses(function("n0, c0, a, s", "b", body))) == [
        "int64",
        "bool",
        "float",
        "bool",
    ]


def test_operators_that_the_function_does_not_import_decide_nothing():
    assert list(guesses(function("a", "b", "b = Not(a)", '"own": 1'))) == [FLOAT, INTEGER]

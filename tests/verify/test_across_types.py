# SPDX-License-Identifier: Apache-2.0
"""Verification of models with different element types: three numbers, and the tolerance."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from opshift import convert_version
from opshift.cli.entry import main
from opshift.testing.model_text import parse_model
from opshift.verify import verify

pytestmark = pytest.mark.usefixtures("models_run_here")

PRODUCT = (
    '<ir_version: 8, opset_import: ["" : 18]> g (float16[2,16] x) => (float16[2,2] y)'
    " { w = Constant<value = float[1] {0.3}>() v = Cast<to=10>(w) s = Constant<value = int64[2]"
    " {16, 2}>() m = Expand(v, s) a = MatMul(x, m) y = Tanh(a) }"
)
NUMBERS = re.compile(r"A is (\S+) from .+, B is (\S+) from it, and A and B are (\S+) apart")


def numbers(notes) -> list[float]:
    (found,) = filter(None, map(NUMBERS.search, notes))
    return [float(group) for group in found.groups()]


@pytest.mark.parametrize("keep", [False, True])
def test_the_wider_model_is_nearer_to_double(keep):
    source = parse_model(PRODUCT)
    wide = convert_version(source, types={"float16": "float"}, keep_io_types=keep)
    verification = verify(source, wide, in_double=True, isolated=False)
    assert verification.equal
    before, after, apart = numbers(verification.notes)
    assert after <= before < 0.01
    assert apart <= before + after + 1e-9


def test_another_number_is_a_difference_in_any_type():
    source = parse_model(PRODUCT)
    converted = convert_version(
        parse_model(PRODUCT.replace("0.3", "0.4")), types={"float16": "float"}
    )
    verification = verify(source, converted, in_double=True, isolated=False)
    assert verification.different
    assert numbers(verification.notes)[2] > 0.01


def test_integers_of_two_types_are_compared_exactly():
    text = (
        '<ir_version: 8, opset_import: ["" : 18]> g (int64[2] x) => (int64[2] y) {{ y = {op}(x) }}'
    )
    narrow = parse_model(text.format(op="Neg").replace("int64", "int32"))
    for op, equal in (("Neg", True), ("Abs", False)):
        verification = verify(
            parse_model(text.format(op=op)), narrow, in_double=True, isolated=False
        )
        assert verification.equal == equal


def test_another_type_is_a_difference_if_the_caller_says_so():
    source = parse_model(PRODUCT)
    wide = convert_version(source, types={"float16": "float"})
    inputs = {"x": np.ones((2, 16), np.float16)}
    assert not verify(source, wide, inputs, in_double=False, isolated=False).equal


LAYER = (
    '<ir_version: 10, opset_import: ["" : 21]> g (KIND[N,4] x) => (KIND[N,2] y) {'
    " v = Constant<value = float[4,2] {0.1, 2, -3, 4, 0.7, 6, 7, -8}>() w = Cast<to=NUMBER>(v)"
    " z = MatMul(x, w) s = Shape(z) y = Reshape(z, s) }"
)
CHANGES = ["bfloat16=float", "float16=float", "float=double", "double=float", "float=float16"]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_two_files_of_other_types_and_sizes_need_no_option(tmp_path, change, keep):
    start, to = change.split("=")
    number = str(onnx.TensorProto.DataType.Value(start.upper()))
    source = parse_model(LAYER.replace("KIND", start).replace("NUMBER", number))
    sizes = ({}, {"dim": {"N": 5}}, {"shape": {"x": (7, 4)}})
    for number, option in enumerate(sizes[:1] if keep else sizes):
        converted = convert_version(source, 20, types={start: to}, keep_io_types=keep, **option)
        verification = verify(source, converted, isolated=False)
        assert verification.equal, str(verification)
        if not keep:
            assert len(numbers(verification.notes)) == 3
            assert f"inputs and outputs differ in type: 'x' is {start} in A and {to} in B" in str(
                verification
            )
        size = (2, 5, 7)[number]
        assert f"={size}" in str(verification) or number
        converted.graph.node[1].CopyFrom(onnx.helper.make_node("Neg", ["x"], ["w"]))
        assert not verify(source, converted, isolated=False).equal


def test_weights_of_another_type_are_found_behind_an_equal_interface():
    text = LAYER.replace("KIND", "float").replace("NUMBER", "1")
    source = parse_model(text)
    narrow = convert_version(source, types={"float": "float16"}, keep_io_types=True)
    verification = verify(source, narrow, isolated=False)
    assert verification.equal
    assert len(numbers(verification.notes)) == 3
    assert "changed for callers" not in str(verification)


def test_a_conversion_of_types_states_the_numbers(tmp_path):
    onnx.save(parse_model(PRODUCT), tmp_path / "in.onnx")
    words = ["convert", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx")]
    done = CliRunner().invoke(main, [*words, "--types", "float16=float", "--verify"])
    assert done.exit_code == 0, done.output
    assert len(numbers([done.output])) == 3


def test_a_model_without_its_rounding_to_float8_is_equal():
    text = (
        '<ir_version: 9, opset_import: ["" : 19]> g (float[64] x) => (float[64] y)'
        " { q = Cast<to=17>(x) y = Cast<to=1>(q) }"
    )
    source = parse_model(text)
    wide = convert_version(source, types={"float8*": "float"})
    assert verify(source, wide, in_double=True, isolated=False).equal
    proto = parse_model(
        text.replace("Cast<to=1>(q)", "Cast<to=1>(r)").replace("y =", "r = Neg(q) y =")
    )
    assert not verify(source, proto, in_double=True, isolated=False).equal


QUOTIENT = (
    '<ir_version: 10, opset_import: ["" : 21]> g (float[4,16] x) => (float[4,4] y)'
    " <float s = {0.25}> { i = Constant<value = int64[2] {16, 4}>() e = Constant<value = float[1] {1}>()"
    " w = Expand(e, i) q = QuantizeLinear<output_dtype = 19>(x, s) d = DequantizeLinear(q, s)"
    " y = MatMul(d, w) }"
)


def test_a_difference_by_the_rounding_of_the_source_alone_is_none():
    source = parse_model(QUOTIENT)
    wide = convert_version(source, types={"float8*": "float"})
    verification = verify(source, wide, in_double=True, isolated=False)
    assert verification.equal, str(verification)
    assert any("B is nearer to the result in double" in row.detail for row in verification.rows)


def test_a_wrong_scale_is_a_difference_although_the_source_rounds():
    source = parse_model(QUOTIENT)
    proto = parse_model(QUOTIENT.replace("DequantizeLinear(q, s)", "DequantizeLinear(q, e)"))
    wide = convert_version(proto, types={"float8*": "float"})
    assert verify(source, wide, in_double=True, isolated=False).different

# SPDX-License-Identifier: Apache-2.0
"""Generated inputs match their declaration, and differences are described in one sentence."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import parser
from onnx.reference.ops import op_elu
from opshift import convert_version
from opshift.verify.oracle import (
    OracleError,
    compare,
    engines,
    evaluate,
    make_inputs,
    trust,
)

HEADER = '<ir_version: 10, opset_import: ["" : 13]> g '


def test_inputs_follow_the_declaration() -> None:
    text = "(float[n,3] x, int8[n] i, string[m] s, seq(bool[2]) q, bfloat16[2] w)"
    text += " => (float[n,3] y) { y = Neg(x) }"
    parsed = parser.parse_model(HEADER + text)
    made = make_inputs(parsed)
    assert made["x"].shape[0] == made["i"].shape[0] != made["s"].shape[0]
    assert made["x"].dtype == np.float32
    assert made["s"].dtype == object
    assert [item.dtype for item in made["q"]] == [bool] * 3
    assert made["w"].dtype == ml_dtypes.bfloat16
    assert {np.sign(v) for v in made["x"].ravel()} >= {-1.0, 1.0}
    assert compare(list(made.values()), list(make_inputs(parsed).values())) is None
    assert compare([made["x"]], [make_inputs(parsed, seed=1)["x"]]) is not None
    assert make_inputs(parsed, overrides={"i": [7, 8]})["i"].dtype == np.int8


F = np.float32


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (np.array([1, 2], F), np.array([1, 2], F), None),
        (np.array([np.nan], F), np.array([np.nan], F), None),
        (np.array([0.0], F), np.array([-0.0], F), None),
        (np.array([np.inf], F), np.array([-np.inf], F), "inf expected, -inf given"),
        (np.array([1], F), np.array([1], np.float64), "tensor(float) expected, tensor(double)"),
        (np.array([1], F), np.array([[1]], F), "shape [1] expected, [1, 1] given"),
        (np.array([1, 2, 4], F), np.array([1, 2, 5], F), "first at [2]: 4.0 expected, 5.0 given"),
        (np.array([1], F), np.nextafter(np.array([1], F), F(2)), "max ulp 1"),
        (np.array(["a"], object), np.array(["b"], object), "a expected, b given"),
        ([np.array([1])], [np.array([1]), np.array([2])], "length 1 expected, 2 given"),
        ([np.array([1])], [np.array([2])], "output 0[0]: 1 of 1 elements differ"),
        ({"a": 1.0}, {"b": 1.0}, "keys ['a'] expected, ['b'] given"),
        ({"a": 1.0}, {"a": 2.0}, "output 0['a']"),
        (None, None, None),
        (None, np.array([1]), "nothing expected"),
        (np.array([1 + 1j]), np.array([1 + 2j]), "1 of 2 elements differ"),
    ],
)
def test_compare(one: Any, other: Any, says: str | None) -> None:
    found = compare([one], [other])
    assert found is None if says is None else says in (found or "")


def test_compare_tolerates_what_it_is_told_to() -> None:
    array = np.array([1, -1], F)
    near = np.nextafter(array, F(0))
    assert compare([array], [near], ulp=1) is None
    assert compare([array], [near], rtol=1e-6) is None
    assert compare([array], [near], atol=1e-9) is not None
    tiny = np.array([1e-45], F)
    assert compare([tiny], [-tiny], ulp=2) is None
    assert compare([tiny], [-tiny], ulp=1) is not None
    assert compare([np.array([0.0], F)], [np.array([-0.0], F)], signed_zero=True) is not None
    assert compare([array], [array, array]) == "1 outputs expected, 2 given"


@pytest.mark.skipif(trust.OLD, reason="the reference of an older onnx takes no empty tensor there")
def test_a_reference_that_writes_into_its_inputs_changes_no_initializer() -> None:
    """onnx's LogSoftmax overwrites its input if the input is empty."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g () => (float[0] y) <float[0] x = {}>'
        " { y = LogSoftmax <axis = 0> (x) }"
    )
    (found,) = evaluate(model, {})
    assert found.shape == (0,)


WIDE = 33_026  # the fewest products of 255 and 255 whose sum has more than 31 bits


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("(uint8[1,K] a, uint8[K,1] b) => (int32[1,1] y) { y = MatMulInteger(a, b) }", WIDE),
        ("(uint8[1,K,1] a, uint8[1,K,1] b) => (int32[1,1,1] y) { y = ConvInteger(a, b) }", WIDE),
        ("(uint8[1,K] a, uint8[K,1] b) => (uint8[1,1] y) SCALES { y = QLinearMatMul(a, p, i, b, p, i, s, k) }", WIDE),
        ("(uint8[1,K,1] a, uint8[1,K,1] b) => (uint8[1,1,1] y) SCALES { y = QLinearConv(a, p, i, b, p, i, s, k) }", WIDE),
        ("(uint8[1,K,1] a, uint8[1,K,1] b) => (uint8[1,1,1] y) SCALES { y = QLinearConv(a, p, i, b, p, i, s, k, c) }", 2),
    ],
)  # fmt: skip
def test_sums_of_products_wrap_around_in_32_bits(text: str, size: int) -> None:
    """onnxruntime does the same, before the conversion and below opset 10."""
    ort = pytest.importorskip("onnxruntime")
    scales = (
        "<float p={0.001}, float s={30.0}, uint8 i={0}, uint8 k={128}, int32[1] c={2147483647}>"
    )
    text = text.replace("K", str(size)).replace("SCALES", scales)
    model = parser.parse_model(f'<ir_version: 5, opset_import: ["": 10]> g {text}')
    dims = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.input]
    fed = {name: np.full(shape, 255, np.uint8) for name, shape in zip("ab", dims, strict=True)}
    expected = ort.InferenceSession(model.SerializeToString()).run(None, fed)
    for one in (model, convert_version(model, 9)):
        assert compare(expected, evaluate(one, fed)) is None
    assert np.all(expected[0] < 128)


def test_a_reference_that_ignores_an_attribute_computes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(op_elu.Elu, "_run", lambda self, x: (x,))
    for cached in (trust.judge, engines._instance, engines._implementation):
        cached.cache_clear()
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Elu(x) }'
    )
    with pytest.raises(OracleError, match="reference of Elu-6 does not read 'alpha'"):
        evaluate(model, {"x": np.ones(2, np.float32)})
    assert not engines.has_reference("", "Elu", 6)


def test_an_operator_without_any_engine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(trust.BODY, ("", "Gelu"))
    trust.judge.cache_clear()
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { y = Gelu(x) }'
    )
    with pytest.raises(OracleError, match="onnx's reference does not implement Gelu-20"):
        evaluate(model, {"x": np.ones(2, np.float32)})
    trust.judge.cache_clear()

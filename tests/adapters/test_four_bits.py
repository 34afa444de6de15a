# SPDX-License-Identifier: Apache-2.0
"""4-bit weights convert to opsets and runtimes that lack 4-bit types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from opshift import accepts, convert
from opshift.opsets.elements import T

ROWS, COLUMNS, BLOCK = 64, 96, 32
SHAPES = {0: (ROWS // BLOCK, COLUMNS), 1: (ROWS, COLUMNS // BLOCK)}


def quantized(kind: str, axis: int, *, zero: bool) -> ModelProto:
    """Returns a model with a product of 4-bit weights in blocks."""
    rng, narrow = np.random.default_rng(axis), np.dtype(getattr(ml_dtypes, kind))
    low, high = T[kind.upper()].element.limits
    codes = rng.integers(low, high, (ROWS, COLUMNS), endpoint=True).astype(narrow)
    points = rng.integers(low, high, SHAPES[axis], endpoint=True).astype(narrow)
    scales = rng.random(SHAPES[axis]).astype(np.float32)
    tensors = {"w": codes, "s": scales, **({"z": points} if zero else {})}
    nodes = [
        helper.make_node("DequantizeLinear", [*tensors], ["d"], axis=axis, block_size=BLOCK),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, T.FLOAT, [2, size])
        for name, size in (("x", ROWS), ("y", COLUMNS))
    )
    weights = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.parametrize("target", ["onnxruntime==1.17", "onnxruntime==1.10", 11])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_blocks_become_codes_of_eight_bits(
    kind: str, axis: int, zero: bool, target: object
) -> None:
    before = quantized(kind, axis, zero=zero)
    after = convert(before, target).model
    stored = {tensor.name: tensor.data_type for tensor in after.graph.initializer}
    assert stored["w"] == T[kind.upper()].element.replacement
    values = {"x": np.random.default_rng(7).normal(size=(2, ROWS)).astype(np.float32)}
    (wanted,), (found,) = (ReferenceEvaluator(one).run(None, values) for one in (before, after))
    np.testing.assert_array_equal(found, wanted)


def test_a_type_of_a_later_ir_version_is_not_read() -> None:
    """A file may state an IR version that lacks one of its element types."""
    weight = helper.make_tensor("w", T.INT4, [4], [1, 2, 3, -4])
    y = helper.make_tensor_value_info("y", T.FLOAT, [4])
    cast = helper.make_node("Cast", ["w"], ["y"], to=T.FLOAT)
    graph = helper.make_graph([cast], "g", [], [y], [weight])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)])
    answer = accepts(model, "onnxruntime==1.17")
    assert answer.answer == "no"
    assert "does not read int4, which IR 10 introduced" in str(answer.reasons)

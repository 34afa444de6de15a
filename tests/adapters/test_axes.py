# SPDX-License-Identifier: Apache-2.0
"""Law: results list `axes` in ascending order without negative numbers, and compute the same."""

import numpy as np
import opshift
import pytest
from onnx import helper, numpy_helper, parser
from opshift_adapters.normalize.reduce import MOST

runtime = pytest.importorskip("onnxruntime")

OPERATORS = [*MOST.split(), "ReduceSum", "Squeeze", "Unsqueeze", "Slice", "Pad"]
TEXT = '<ir_version: 8, opset_import: ["" : {opset}]> g (float[2,1,3,1] x) => (float y) {{ y = {op}(x{others}) }}'


def model(op, axes, opset):
    """A model with one node; each list of entries for the axes has different entries."""
    count, others = len(axes), {}
    if op == "Slice":
        others = {"s": np.arange(count) % 2, "e": np.arange(count) + 2}
    if op == "Pad":
        others = {"p": np.arange(2 * count), "v": np.array(1, np.float32)}
    as_input = op in ("Slice", "Pad") or opset >= 18
    names = [*others, "a"] if as_input else []
    text = TEXT.format(op=op, opset=opset, others="".join(f", {name}" for name in names))
    proto = parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    if as_input:
        others["a"] = np.array(axes)
    else:
        proto.graph.node[0].attribute.append(helper.make_attribute("axes", axes))
    proto.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in others.items())
    return proto


def output(found, x):
    session = runtime.InferenceSession(
        found.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


def axes_of(proto):
    (node,) = proto.graph.node
    values = {tensor.name: tensor for tensor in proto.graph.initializer}
    for attribute in node.attribute:
        if attribute.name == "axes":
            return list(attribute.ints)
    return numpy_helper.to_array(values[node.input[4 if len(node.input) > 4 else -1]]).tolist()


@pytest.mark.parametrize("op", OPERATORS)
def test_axes_ascend_from_the_front(op):
    rng = np.random.default_rng(OPERATORS.index(op))
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3, 1)
    for _ in range(4):
        if op == "Squeeze":
            axes = rng.permutation([1, 3])
        else:
            axes = rng.permutation(4)[: rng.integers(1, 4)]
        rank = 4 + len(axes) * (op == "Unsqueeze")
        axes = [int(axis - rank * rng.integers(2)) for axis in axes]
        old = 18 if op in ("Pad", "Slice") else 12
        for opset, goal in ((old, old + 1), (20, 19)):
            source = model(op, axes, opset)
            result = opshift.convert_version(source, goal)
            assert axes_of(result) == sorted(axis % rank for axis in axes)
            np.testing.assert_array_equal(output(source, x), output(result, x))


def test_no_axes_are_kept():
    source = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[2,3] x) => (float[2,3] y)'
        " <int64[0] s = {}, int64[0] a = {}> { y = Slice(x, s, s, a) }"
    )
    assert axes_of(opshift.convert_version(source, 12)) == []


@pytest.mark.parametrize("target", [14, "opencv==4.11"])
def test_one_inserted_axis_may_be_a_scalar(target):
    """onnx's own tests pass `axes` as a scalar, and onnxruntime runs these models."""
    text = "(float[2,3] x) => (float[2,3,1] y) <int64 a = {-1}> { b = Neg(x) y = Unsqueeze(b, a) }"
    source = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = opshift.convert_version(source, target)
    np.testing.assert_array_equal(output(source, x), output(result, x))

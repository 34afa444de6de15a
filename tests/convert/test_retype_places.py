# SPDX-License-Identifier: Apache-2.0
"""`--types` changes each place that contains a type, and onnxruntime computes the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import SparseTensorProto, helper, numpy_helper
from opshift import convert
from opshift.testing.model_text import parse_model

ort = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("models_run_here")

LOOP = (
    "(float[3] x) => (float[3] y, float[T,3] z) { n = Constant<value = int64 {3}>()"
    " t = Constant<value = bool {1}>() y, z = Loop(n, t, x) <body = b (int64 i, bool c, float[3] a)"
    " => (bool d, float[3] e, float[3] f) { d = Identity(c) h = Constant<value = float {0.5}>()"
    " g = Cast<to = 1>(i) s = Mul(a, h) e = Add(s, g) f = Neg(e) }> }"
)
PLACES = {
    "numbers in attributes": "(float[3] x) => (float[3] y) { a = Constant<value_float = 0.1>()"
    " b = Constant<value_floats = [0.1, 3.0, 2.0]>() c = Mul(x, a) y = Add(c, b) }",
    "inputs that are left out": "(float[1,1,2,2] x) => (float[1,1,4,4] y) <float hi = {1}>"
    " { s = Constant<value = float[4] {1, 1, 2, 2}>() c = Clip(x, , hi) y = Resize(c, , s) }",
    "a default that a caller may replace": "(float[3] x, float[3] w) => (float[3] y)"
    " <float[3] w = {1, 2, 3}> { y = Mul(x, w) }",
    "types that nodes name": "(float[3,3] x) => (float[3,3] y) { e = EyeLike<dtype = 11>(x)"
    " f = CastLike(e, x) r = RandomNormalLike(x) z = Constant<value = float {0}>() n = Mul(r, z)"
    " i = ArgMax<axis = 0>(x) j = Cast<to = 1>(i) a = Add(f, x) b = Add(a, n) y = Add(b, j) }",
    "loop": LOOP,
    "scan": "(float[2] s, float[3,2] x) => (float[2] y, float[3,2] z) { y, z = Scan<"
    "num_scan_inputs = 1, body = b (float[2] a, float[2] i) => (float[2] o, float[2] p)"
    " { o = Add(a, i) p = Identity(o) }>(s, x) }",
    "branches": "(float[2] x) => (float[2] y) { n = ReduceSum<keepdims = 0>(x)"
    " z = Constant<value = float {0}>() c = Greater(n, z) y = If(c) <then_branch = t () =>"
    " (float[2] a) <float k = {0.3}> { a = Mul(x, k) }, else_branch = e () => (float[2] b)"
    " { b = Neg(x) }> }",
    "sequences": "(float[4] x) => (float[2] y) { s = SplitToSequence<axis = 0>(x)"
    " i = Constant<value = int64 {1}>() j = Constant<value = int64 {2}>() a = SequenceAt(s, i)"
    " b = SequenceAt(s, j) y = Concat<axis = 0>(a, b) }",
    "optionals": "(float[2] x) => (float[2] y) { o = Optional(x) h = OptionalHasElement(o)"
    " e = OptionalGetElement(o) f = Cast<to = 1>(h) y = Add(e, f) }",
    "codes of weights": "(float[4] x) => (float[4] y) <float s = {0.1}, uint8 z = {128},"
    " uint8[4] w = {1, 200, 130, 4}> { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"
    " e = DequantizeLinear(w, s, z) y = Mul(d, e) }",
    "the lowest number": "(float[1,3] x) => (float[1,3] y) <float lo = {-3.4028234e38}>"
    " { z = Constant<value = float {0}>() m = Greater(x, z) w = Where(m, x, lo) y = Softmax(w) }",
}
TYPES = {"double": np.float64, "float16": np.float16, "float": np.float32}


def model(text: str) -> onnx.ModelProto:
    return parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}')


def sparse() -> SparseTensorProto:
    values, places = np.array([2.5], "f4"), np.array([1])
    return SparseTensorProto(
        dims=[3], values=numpy_helper.from_array(values, "w"),
        indices=numpy_helper.from_array(places, "w_places"),
    )  # fmt: skip


def sparse_initializer() -> onnx.ModelProto:
    proto = model("(float[3] x) => (float[3] y) { y = Add(x, w) }")
    proto.graph.sparse_initializer.append(sparse())
    return proto


def sparse_constant() -> onnx.ModelProto:
    proto = model("(float[3] x) => (float[3] y) { w = Neg(x) y = Add(x, w) }")
    proto.graph.node[0].CopyFrom(helper.make_node("Constant", [], ["w"], sparse_value=sparse()))
    return proto


def odd_weights() -> onnx.ModelProto:
    """Infinities, NaN, and numbers at the limits of float16."""
    proto = model("(float[7] x) => (float[7] y) { y = Mul(x, w) }")
    ends = np.array([np.nan, np.inf, -np.inf, 65504, 65519.99, 6.1e-5, 1e-42], "f4")
    proto.graph.initializer.append(numpy_helper.from_array(ends, "w"))
    return proto


def tree() -> onnx.ModelProto:
    """Returns a tree with a tensor of thresholds, which must have the type of the input."""
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2],
        target_ids=[0, 0],
        nodes_values_as_tensor=numpy_helper.from_array(np.array([0.1, 0, 0], "f4")),
        target_weights_as_tensor=numpy_helper.from_array(np.array([1.5, 2.5], "f4")),
    )  # fmt: skip
    proto = model("(float[2,3] x) => (float[2,1] y) { y = Neg(x) }")
    proto.graph.node[0].CopyFrom(node)
    proto.opset_import.add(domain="ai.onnx.ml", version=3)
    return proto


MADE = {one.__name__: one for one in (sparse_initializer, sparse_constant, odd_weights, tree)}


def ran(proto: onnx.ModelProto, kind: str) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    random, feeds = np.random.default_rng(0), {}
    for argument in session.get_inputs():
        feeds[argument.name] = (
            random.integers(-4, 4, argument.shape).astype(TYPES[argument.type[7:-1]]) / 4
        )
    assert {argument.type for argument in session.get_inputs()} == {f"tensor({kind})"}
    return session.run(None, feeds)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("to", ["double", "float16"])
@pytest.mark.parametrize("name", [*PLACES, *MADE])
def test_numbers_stay_as_near_as_the_type_allows(name, to, keep):
    source = MADE[name]() if name in MADE else model(PLACES[name])
    result = convert(source, types={"float": to}, keep_io_types=keep)
    assert result.report.changed or keep
    if keep:
        ends = ("input", "output")
        for end in ends:
            kept = (getattr(proto.graph, end) for proto in (source, result.model))
            assert len({tuple(str(info) for info in infos) for infos in kept}) == 1
    try:
        actual = ran(result.model, "float" if keep else to)
    except ort.capi.onnxruntime_pybind11_state.NotImplemented as lack:
        pytest.skip(f"onnxruntime has no such kernel: {lack}")
    near = 1e-6 if to == "double" else 5e-3
    for expected, value in zip(ran(source, "float"), actual, strict=True):
        np.testing.assert_allclose(value.astype("f8"), expected.astype("f8"), near, near)


def test_the_graphs_of_training_change_with_the_weights():
    source = model("(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }")
    training = source.training_info.add()
    training.initialization.CopyFrom(
        model("() => (float[3] v) { v = Constant<value = float[3] {4, 5, 6}>() }").graph
    )
    training.algorithm.CopyFrom(model("() => (float[3] n) { n = Neg(w) }").graph)
    training.initialization_binding.add(key="w", value="v")
    training.update_binding.add(key="w", value="n")
    found = convert(source, types={"float": "double"}).model.training_info[0]
    for graph in (found.initialization, found.algorithm):
        assert graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    assert found.initialization.node[0].attribute[0].t.data_type == onnx.TensorProto.DOUBLE

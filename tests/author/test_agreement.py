# SPDX-License-Identifier: Apache-2.0
"""Declared types are proven only if each node infers them from the inputs of the model."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from opshift.author import agreement
from opshift.author.agreement import is_proven
from opshift.author.registry import installed
from text_models import model

TYPES = {"y": ("float", [2, 3])}


def values(types):
    kinds = {"float": 1, "int64": 7, "bool": 9}
    return [helper.make_tensor_value_info(name, kinds[k], d) for name, (k, d) in types.items()]


@pytest.mark.parametrize(
    ("text", "types", "proven"),
    [
        ("(float[2,3] x) => (float[2,3] y) { y = Relu(x) }", {"y": ("float", [2, 3])}, True),
        ("(float[2,3] x) => (float[2,3] y) { y = Relu(x) }", {"y": ("float", ["n", 3])}, True),
        ("(float[2,3] x) => (float[2,3] y) { y = Relu(x) }", {"y": ("float", [3, 3])}, False),
        ("(float[2,3] x) => (float[2,3] y) { y = Relu(x) }", {"y": ("float", [2])}, False),
        ("(float[2,3] x) => (float[2,3] y) { y = Relu(x) }", {"y": ("int64", [2, 3])}, False),
        ("(float[2,3] x) => (float[2,3] y) { y = Relu(x) }", {"y": ("int64", None)}, True),
        ("(float[2,3] x) => (float[2,3] y) { y = Relu(x) }", {"other": ("float", [9])}, True),
        ("(float[n,3] x) => (float[2,3] y) { y = Relu(x) }", {"y": ("float", [2, 3])}, False),
        ("(float[n,3] x) => (float[2,3] y) { y = Own(x) }", {"y": ("float", [2, 3])}, False),
        ("(float[n,3] x) => (float[2,3] y) { t = Relu(x) y = Relu(t) }",
         {"t": ("float", [2, 3])}, False),
        ("(float[n,3] x) => (float[2,3] y) { t = Relu(x) y = Relu(t) }",
         {"t": ("float", ["n", 3]), "y": ("float", [None, 3])}, True),
        # the sizes are read from initializers and constants
        ("(float[6] x) => (float[2,3] y) <int64[2] s = {2, 3}> { y = Reshape(x, s) }", TYPES, True),
        ("(float[6] x) => (float[2,3] y) <int64[2] s = {3, 2}> { y = Reshape(x, s) }", TYPES, False),
        ("(float[6] x) => (float[2,3] y) { s = Constant<value = int64[2] {2, 3}>()"
         " y = Reshape(x, s) }", TYPES, True),
        ("(float[6] x) => (float[2,3] y) { s = Constant<value = int64[2] {3, 2}>()"
         " y = Reshape(x, s) }", TYPES, False),
        ("(float[6] x) => (float[2,3] y) { s = Constant<value_ints = [2, 3]>()"
         " y = Reshape(x, s) }", TYPES, False),
        # two equal nodes with other sizes
        ("(float[6] x) => (float[2,3] y) <int64[2] s = {3, 2}, int64[2] r = {2, 3}>"
         " { t = Reshape(x, s) y = Reshape(x, r) }", {"t": ("float", [2, 3])}, False),
        ("(float[6] x) => (float[2,3] y) <int64[2] s = {3, 2}, int64[2] r = {2, 3}>"
         " { t = Reshape(x, s) y = Reshape(x, r) }", {"t": ("float", [3, 2]), **TYPES}, True),
        # other attributes, other numbers of outputs
        ("(float[2,3] x) => (float[2,3] y) { t = Transpose<perm = [1, 0]>(x)"
         " y = Transpose<perm = [0, 1]>(x) }", {"t": ("float", [3, 2]), **TYPES}, True),
        ("(float[2,3] x) => (float[2,3] y) { t = Transpose<perm = [1, 0]>(x)"
         " y = Transpose<perm = [0, 1]>(x) }", {"t": TYPES["y"], **TYPES}, False),
        ("(float[2,3] x) => (float[2,3] y) { a = Dropout(x) y, mask = Dropout(a) }",
         {"mask": ("bool", [2, 3]), **TYPES}, True),
        ("(float[2,3] x) => (float[2,3] y) { a = Dropout(x) y, mask = Dropout(a) }",
         {"mask": ("bool", [3, 3]), **TYPES}, False),
        # an input has no content, although an initializer of its type has one
        ("(float[6] x, int64[2] q) => (float[2,3] y) <int64[2] s = {2, 3}>"
         " { t = Reshape(x, s) y = Reshape(x, q) }", TYPES, False),
        # a value of unknown type differs from the second type of the model
        ("(float[6] x, float[2,3] z) => (float[2,3] y) { t = Relu(z) u = Own(x) y = Relu(u) }",
         TYPES, False),
        # onnx infers a wrong shape for some operators, so a model with them proves nothing
        ("(float[2,3] x, bool[2] c) => (float[n] y) { y = Compress(x, c) }",
         {"y": ("float", ["n"])}, False),
        # an input and a constant of one type, then a value and a constant
        ("(float[2,3] x) => (int64[1] y) <int64[2] s = {2, 3}> { m = Shape(x) y = Shape(s) }",
         {"y": ("int64", [2])}, False),
        ("(float[6] x) => (int64[1] y) <int64[2] s = {2, 3}> { a = Reshape(x, s)"
         " c = Constant<value = int64[2] {3, 2}>() m = Shape(a) y = Shape(c) }",
         {"y": ("int64", [2])}, False),
        # an attribute of the name of a Constant's value
        ("(float[6] x) => (float[2,3] y) <int64[2] s = {2, 3}>"
         " { y = ConstantOfShape<value = float[1] {1}>(s) }", TYPES, True),
        # inference rejects the node
        ("(float[2,3] x) => (float[2,3] y) { y = MatMul(x, x) }", TYPES, False),
        # the rule of an adapter gives a rank that onnx does not infer
        ("(float[2,3] x, int64[1] a) => (float[a,b] y) { y = ReduceSum(x, a) }",
         {"y": ("float", [None, None])}, True),
        ("(float[2,3] x, int64[1] a) => (float[a,b] y) { y = ReduceSum(x, a) }",
         {"y": ("float", [None])}, False),
        # a name that no input may have, and an input that is left out
        ("(float[2,3] x) => (float[2,3] y) <float z = {6}> { y = Clip(x, \"\", z) }", TYPES, True),
    ],
)  # fmt: skip
def test_types_are_proven_by_the_inputs_of_the_model(text, types, proven):
    proto = model(text.replace('""', ""), opset=17)
    assert is_proven(proto, values(types), installed()) == proven
    assert is_proven(proto.SerializeToString(), values(types), installed()) == proven


def test_a_size_in_another_file_proves_nothing():
    proto = model("(float[6] x) => (float[2,3] y) { y = Reshape(x, s) }", opset=17)
    tensor = proto.graph.initializer.add(name="s", data_type=7, dims=[2])
    tensor.raw_data = np.array([2, 3], "<i8").tobytes()  # not the numbers in the file
    tensor.data_location = TensorProto.EXTERNAL
    assert not is_proven(proto, values(TYPES), installed())


def test_equal_nodes_are_inferred_once(monkeypatch):
    """The numbers of weights in floats do not matter, and neither does the order of the types."""
    inferred = []
    infer = agreement.infer_node_outputs
    monkeypatch.setattr(
        agreement, "infer_node_outputs", lambda *args: inferred.append(args[1]) or infer(*args)
    )
    adds = " ".join(f"v{i + 1} = Add(v{i}, w{i})" for i in range(9))
    weights = ", ".join(f"float[3] w{i} = {{{i}, {i}, {i}}}" for i in range(9))
    proto = model(f"(float[2,3] v0) => (float[2,3] v9) <{weights}> {{ {adds} }}", opset=17)
    assert is_proven(proto, values({"v9": ("float", [2, 3])}), installed())
    assert len(inferred) == 1


def test_a_model_with_subgraphs_is_not_proven():
    proto = model(
        "(bool c, float[2,3] x) => (float[2,3] y) { y = If(c) <then_branch = t () => (float[2,3] a)"
        " { a = Relu(x) }, else_branch = e () => (float[2,3] b) { b = Neg(x) }> }", opset=17
    )  # fmt: skip
    assert not is_proven(proto, values(TYPES), installed())

# SPDX-License-Identifier: Apache-2.0
"""The rules about declared types, and about the names and sizes of dimensions."""

from __future__ import annotations

import pytest
from checked import assert_finds, checked
from onnx import ModelProto, TensorProto, helper
from opshift.convert.legal import value_rules as rules
from text_models import model

LOOP = """(int64 n, bool c, float[2] x) => (float[2] y) { y = Loop(n, c, x) <body = b
    (int64 i, bool d, float[2] z) => (bool e, float[2] w) { e = Identity(d) w = Neg(z) }> }"""


def neg() -> ModelProto:
    return model("(float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) }", 13)


def dim(proto: ModelProto):
    return proto.graph.input[0].type.tensor_type.shape.dim[0]


def test_a_size_is_not_negative():
    proto = neg()
    dim(proto).dim_value = 0
    assert_finds(rules.negative_sizes, checked(proto))
    dim(proto).dim_value = -1
    assert_finds(rules.negative_sizes, checked(proto), "value 'x' with a negative size; leave out")
    proto.graph.output[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert_finds(rules.negative_sizes, checked(proto), "2 values such as 'x' with a negative size")


def test_a_dimension_without_a_size_has_no_empty_name():
    proto = neg()
    dim(proto).Clear()
    assert_finds(rules.unnamed_dimensions, checked(proto))
    dim(proto).dim_param = "N"
    assert_finds(rules.unnamed_dimensions, checked(proto))
    assert "N" in rules.dimension_names(proto)
    dim(proto).dim_param = ""
    assert_finds(rules.unnamed_dimensions, checked(proto), "value 'x' with an empty name")


def test_a_recorded_type_has_an_element_type():
    proto = model(LOOP, 13)
    assert_finds(rules.contents, checked(proto))
    proto.graph.input[2].type.tensor_type.elem_type = 0  # another rule
    assert_finds(rules.contents, checked(proto))
    proto.graph.node[0].attribute[0].g.input[2].type.tensor_type.elem_type = 0
    assert_finds(rules.contents, checked(proto), "the type of value 'z' has no element type; set")


def test_an_optional_value_holds_no_optional_value():
    inner = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    proto = neg()
    proto.graph.input.add(name="o").type.CopyFrom(inner)
    assert_finds(rules.contents, checked(proto))
    proto.graph.input[1].type.CopyFrom(helper.make_optional_type_proto(inner))
    assert_finds(rules.contents, checked(proto), "'o' is an optional value of an optional value")


@pytest.mark.parametrize(
    ("kind", "shape", "pattern"),
    [
        (TensorProto.FLOAT, [2], None), (TensorProto.FLOAT, None, None),
        (TensorProto.FLOAT, ["N"], None),
        (TensorProto.INT64, [2], r"'x' as tensor\(int64\)\[2\], but graph 'g' declares tensor\(float\)\[2\]"),
        (TensorProto.FLOAT, [3], "remove the entry"), (TensorProto.FLOAT, [2, 1], "remove"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["x", "y"])
def test_a_type_is_recorded_as_the_graph_declares_it(kind, shape, pattern, name):
    proto = neg()
    proto.graph.value_info.append(helper.make_tensor_value_info(name, kind, shape))
    pattern = pattern and pattern.replace("'x'", f"'{name}'")
    assert_finds(rules.recorded_twice, checked(proto), *[pattern] * (pattern is not None))


def test_a_name_of_a_dimension_stands_for_one_size():
    proto = model(
        "(float[M] x) => (float[N] y, float[N] z, float[N] a, float[N] b)"
        " { y = Neg(v) z = Neg(w) a = Neg(u) b = Neg(x) }",
        13,
    )
    for name, size in (("v", 2), ("w", 2), ("u", 2)):
        data = {"data_type": TensorProto.FLOAT, "dims": [size], "raw_data": bytes(4 * size)}
        proto.graph.initializer.add(name=name, **data)
    assert_finds(rules.variables, checked(proto))
    pattern = r"dimension 'N' has the sizes 2 \('y'\) and 3 \('z'\), but a name stands for one"
    for size, tensor in enumerate(proto.graph.initializer[1:], 3):
        tensor.dims[0], tensor.raw_data = size, bytes(4 * size)
        assert_finds(rules.variables, checked(proto), pattern)

# SPDX-License-Identifier: Apache-2.0
"""One parse in C finds the same parts of a model as a walk over its messages."""

from __future__ import annotations

import itertools

import pytest
from google.protobuf.message import DecodeError
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, parser
from opshift.model import walk
from opshift.model.bytes.outline import Content, Sizes, parts_of_node, read_as, spans

HEADER = '<ir_version: 10, opset_import: ["" : 21, "own" : 1]> '
FLAT = "g (float[2,N] x) => (float[a,b] y) <int64[1] c = {7}> { u = Neg(x) y = Add(u, x) }"
NESTED = "g (bool c, float[3] x) => (float[3] y) { y = If(c) <then_branch = t () => (float[3] u) <float[3] w = {1,2,3}> { u = Add(x, w) }, else_branch = e () => (float[5] v) { k = Constant<value_ints = [4]>() v = Neg(x) }> }"
FUNCTION = 'g (float[2] x) => (float[2] y) { y = own.f<a=1>(x) } <domain: "own", opset_import: ["" : 21]> f<a>(x) => (y) { k = Constant<value_int = @a>() y = Neg(x) }'


def model(text: str) -> ModelProto:
    made: ModelProto = parser.parse_model(HEADER + text)
    return made


def crowded() -> ModelProto:
    """Returns a model with a tensor in every possible place."""
    proto = model(NESTED)
    numbers = itertools.count(1)

    def tensor() -> TensorProto:
        size = next(numbers)
        return helper.make_tensor(f"t{size}", TensorProto.INT64, [size], range(size))

    def fill(node):
        node.attribute.append(helper.make_attribute("one", tensor()))
        node.attribute.append(helper.make_attribute("several", [tensor(), tensor()]))
        sparse = helper.make_sparse_tensor(tensor(), tensor(), [50])
        node.attribute.append(helper.make_attribute("sparse", sparse))
        node.attribute.append(helper.make_attribute("sparses", [sparse, sparse]))

    function = helper.make_function("own", "f", ["x"], ["y"], proto.graph.node, proto.opset_import)
    function.attribute_proto.append(helper.make_attribute("default", tensor()))
    proto.functions.append(function)
    training = proto.training_info.add()
    training.algorithm.CopyFrom(proto.graph)
    training.initialization.CopyFrom(proto.graph)
    for node in walk.nodes(proto):
        fill(node)
    for container in walk.containers(proto):
        if hasattr(container, "initializer"):
            container.initializer.append(tensor())
            sparse = helper.make_sparse_tensor(tensor(), tensor(), [9])
            container.sparse_initializer.append(sparse)
    return proto


@pytest.mark.parametrize("text", [FLAT, NESTED, FUNCTION])
def test_the_names_of_operators_are_those_of_a_walk(text):
    proto = model(text)
    operators = Content(proto.SerializeToString()).operators()
    assert operators == {node.op_type for node in walk.nodes(proto)}


def test_every_tensor_is_found_once():
    made = crowded()
    found = sorted(tuple(tensor.dims) for tensor in Sizes(made.SerializeToString()).tensors())
    assert found == sorted(tuple(tensor.dims) for tensor in walk.tensors(made))
    assert len(found) > 50


@pytest.mark.parametrize("text", [FLAT, NESTED, FUNCTION])
def test_the_largest_declared_size_is_found_in_each_place(text):
    proto = model(text)
    for graph in walk.graphs_in(proto.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            for dim in value.type.tensor_type.shape.dim:
                before, dim.dim_value = dim.dim_value, 7000
                assert Sizes(proto.SerializeToString()).largest() == 7000
                dim.dim_value = before
    assert Sizes(proto.SerializeToString()).largest() in range(1, 7000)


@pytest.mark.parametrize(
    ("text", "nested", "functions", "references"),
    [(FLAT, False, False, False), (NESTED, True, False, False), (FUNCTION, False, True, False)],
)
def test_what_holds_something_else(text, nested, functions, references):
    found = Content(model(text).SerializeToString())
    told = (found.is_nested, found.has_functions, found.references)
    assert told == (nested, functions, references)


@pytest.mark.parametrize("text", [FLAT, NESTED])
def test_a_reference_outside_of_functions_is_found(text):
    proto = model(text)
    inner = list(walk.graphs_in(proto.graph))[-1].node[-1]
    inner.attribute.append(
        AttributeProto(name="axis", type=AttributeProto.INT, ref_attr_name="axis")
    )
    assert Content(proto.SerializeToString()).references


def test_the_spans_are_the_bytes_of_the_nodes():
    proto = model(FUNCTION)
    for container, of_function in ((proto.graph, False), (proto.functions[0], True)):
        found = spans(container.SerializeToString(), of_function=of_function)
        assert list(found) == [node.SerializeToString() for node in container.node]


@pytest.mark.parametrize("name", ["y", "a name of more than 127 bytes " * 9])
def test_the_parts_of_a_node_are_its_names_and_its_operation(name):
    node = helper.make_node("Gemm", ["x", "", "é"], [name], "n", "a doc string", "own", alpha=2.0)
    node.metadata_props.add(key="k", value="v")
    node.overload = "o"
    inputs, outputs, operation = parts_of_node(node.SerializeToString())
    assert [text.decode() for text in inputs] == ["x", "", "é"]
    assert [text.decode() for text in outputs] == [name]
    alone = NodeProto(op_type="Gemm", domain="own", overload="o", attribute=node.attribute)
    assert b"".join(operation) == alone.SerializeToString()


def test_the_parts_of_a_node_exclude_unknown_fields():
    node = helper.make_node("Neg", ["x"], ["y"])
    unknown = bytes([100 << 3 & 0x7F | 0x82, 100 >> 4, 0])
    assert parts_of_node(node.SerializeToString() + unknown) == ([b"x"], [b"y"], [b'"\x03Neg'])


@pytest.mark.parametrize("kind", [Content, Sizes])
def test_a_field_of_another_wire_type_is_unknown(kind):
    """onnx treats an enumeration or a size as an unknown field if it is encoded as bytes."""
    proto = model(FLAT)
    dim = proto.graph.input[0].type.tensor_type.shape.dim[0]
    dim.MergeFromString(b"\x0a\x02\x34\xce")
    proto.graph.input[0].type.tensor_type.MergeFromString(b"\x0a\x02\x34\xce")
    data = proto.SerializeToString()
    with pytest.raises(DecodeError):
        kind(data)
    assert isinstance(read_as(kind, data), kind)

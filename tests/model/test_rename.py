# SPDX-License-Identifier: Apache-2.0
"""Values are renamed wherever a node refers to them, and nowhere else."""

from __future__ import annotations

import onnx
import pytest
from onnx import FunctionProto, GraphProto, NodeProto, helper
from opshift.model.rename import rename, rename_annotations, rename_described

NAMES = {"a": "A", "b": "B"}
BRANCH = """If (a) <then_branch = t () => (b) { c = Neg(b) },
                   else_branch = e () => (d) {
                       d = Loop (n, a, b) <body = l (i, a, s) => (k, b) { k = Not(a) b = Add(s, z) }>
                   }>"""


def node(text: str) -> NodeProto:
    return onnx.parser.parse_node(f"y = {text}")


def test_inputs_and_outputs_of_a_node_are_renamed() -> None:
    plain = onnx.parser.parse_node("b, y = Op(a, x, b)")
    rename(plain, NAMES)
    assert (list(plain.input), list(plain.output)) == (["A", "x", "B"], ["B", "y"])


def test_captured_values_are_renamed_at_every_depth_and_hidden_ones_are_not() -> None:
    found = node(BRANCH)
    rename(found, NAMES)
    then, other = (attribute.g for attribute in found.attribute)
    loop = other.node[0]
    body = loop.attribute[0].g
    assert list(found.input) == ["A"]
    assert [output.name for output in then.output] == ["B"]
    assert list(then.node[0].input) == ["B"]
    assert [output.name for output in other.output] == ["d"]
    assert list(loop.input) == ["n", "A", "B"]
    assert list(body.node[0].input) == ["a"], "an input of the body hides the outer value"
    assert list(body.node[1].output) == ["b"], "a value of the body hides the outer value"


@pytest.mark.parametrize("hidden", [False, True])
def test_annotations_of_a_nested_graph_are_renamed_unless_it_hides_the_value(hidden: bool) -> None:
    found = node("If (x) <then_branch = t () => (d) { d = Neg(a) }>")
    inner = found.attribute[0].g
    annotate(inner, "a", scale="b", zero_point="z")
    if hidden:
        inner.initializer.add(name="a")
        inner.initializer.add(name="b")
    rename(found, NAMES)
    assert annotation(inner) == (("a", "b", "z") if hidden else ("A", "B", "z"))


def test_only_annotations_of_renamed_values_change() -> None:
    graph = GraphProto()
    annotate(graph, "x", scale="a", zero_point="z")
    rename_annotations(graph, NAMES)
    assert annotation(graph) == ("x", "A", "z")


def test_each_description_of_a_value_outside_of_nodes_is_renamed() -> None:
    graph, fields = GraphProto(), ("input", "output", "value_info", "initializer")
    for field in fields:
        for name in ("a", "x"):
            getattr(graph, field).add(name=name)
    graph.sparse_initializer.add().values.name = "b"
    annotate(graph, "a", scale="b", zero_point="z")
    rename_described(graph, NAMES)
    assert all([item.name for item in getattr(graph, field)] == ["A", "x"] for field in fields)
    assert graph.sparse_initializer[0].values.name == "B"
    assert annotation(graph) == ("A", "B", "z")


def test_a_function_describes_only_inner_values() -> None:
    function = FunctionProto(input=["a"])
    function.value_info.append(helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [2]))
    rename_described(function, NAMES)
    assert [info.name for info in function.value_info] == ["B"]


def test_shardings_follow_the_value() -> None:
    sharded = node("Op(a)")
    if not hasattr(sharded, "device_configurations"):
        pytest.skip("this onnx has no shardings")
    configuration = sharded.device_configurations.add(configuration_id="c")
    for name in ("a", "x"):
        configuration.sharding_spec.add(tensor_name=name)
    rename(sharded, NAMES)
    assert [spec.tensor_name for spec in configuration.sharding_spec] == ["A", "x"]


def annotate(graph: GraphProto, name: str, *, scale: str, zero_point: str) -> None:
    note = graph.quantization_annotation.add(tensor_name=name)
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=scale)
    note.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value=zero_point)


def annotation(graph: GraphProto) -> tuple[str, ...]:
    note = graph.quantization_annotation[0]
    return (note.tensor_name, *(entry.value for entry in note.quant_parameter_tensor_names))

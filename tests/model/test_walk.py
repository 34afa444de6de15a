# SPDX-License-Identifier: Apache-2.0
"""One walk finds every place in ONNX's messages; protobuf's descriptors list the places."""

from __future__ import annotations

import opshift
import pytest
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from opshift.model import repair, walk
from opshift.model.document import Document
from opshift.model.functions import inline_functions
from places import places

GRAPHS, FUNCTIONS = places("GraphProto"), places("FunctionProto")
TENSORS, NODES = places("TensorProto"), places("NodeProto")


def test_the_places_are_found():
    """The test lists common places, and some that are easily forgotten."""
    assert {"graph", "training_info.algorithm", "functions.attribute_proto.g"} <= {
        *map(str, GRAPHS)
    }
    assert {"graph.initializer", "graph.sparse_initializer.indices"} <= {*map(str, TENSORS)}


@pytest.mark.parametrize("place", GRAPHS, ids=str)
def test_every_graph_is_visited(place):
    model = ModelProto()
    place.add(model).doc_string = "here"
    containers = [
        container for container in walk.containers(model) if container.doc_string == "here"
    ]
    assert len(containers) == 1


@pytest.mark.parametrize("place", [*GRAPHS, *FUNCTIONS], ids=str)
def test_every_graph_is_opened_for_conversion(place):
    model = ModelProto()
    place.add(model).node.add(op_type="Relu", input=["x"], output=["y"])
    for container in walk.containers(model):
        for node in container.node:
            node.op_type = node.op_type or "If"
    document = Document(model)
    assert sum(len(root.index.get(("", "Relu"), ())) for root in document.roots) == 1


@pytest.mark.parametrize("place", NODES, ids=str)
def test_every_node_is_visited(place):
    model = ModelProto()
    place.add(model).op_type = "Here"
    assert [node.op_type for node in walk.nodes(model)].count("Here") == 1


@pytest.mark.parametrize("place", TENSORS, ids=str)
def test_every_tensor_is_visited(place):
    model = ModelProto()
    place.add(model).name = "here"
    assert [tensor.name for tensor in walk.tensors(model)].count("here") == 1


@pytest.mark.parametrize("place", places("TensorProto", deepest=1), ids=str)
def test_a_difference_in_any_tensor_is_seen(place):
    def filled(value: int) -> ModelProto:
        model = ModelProto(ir_version=10)
        model.graph.name = "g"
        tensor = place.add(model)
        tensor.CopyFrom(TensorProto(data_type=TensorProto.UINT8, dims=[8192]))
        tensor.raw_data = bytes([value]) * 8192
        return model

    assert not opshift.diff(filled(1), filled(1)).changes
    assert opshift.diff(filled(1), filled(2)).changes


def test_the_operator_imports_are_those_of_models_and_functions():
    found = {str(place) for place in places("OperatorSetIdProto")}
    assert found == {"opset_import", "functions.opset_import"}


def _unsorted(container: GraphProto | FunctionProto) -> None:
    container.node.add(op_type="Neg", input=["t"], output=["u"])
    container.node.add(op_type="Abs", input=["x"], output=["t"])


@pytest.mark.parametrize("place", [*GRAPHS, *FUNCTIONS], ids=str)
def test_nodes_out_of_order_are_sorted_wherever_they_are(place):
    model = ModelProto()
    _unsorted(place.add(model))
    assert repair.sort_nodes(model)
    assert [n.op_type for n in walk.nodes(model) if n.op_type] == ["Abs", "Neg"]
    assert not repair.sort_nodes(model)


def test_all_containers_out_of_order_are_sorted():
    model = ModelProto()
    for place in (*GRAPHS, *FUNCTIONS):
        container = place.add(model)
        if not container.node:
            _unsorted(container)
    assert repair.sort_nodes(model)
    for container in walk.containers(model):
        operators = [node.op_type for node in container.node if node.op_type]
        assert operators in ([], ["Abs", "Neg"])


@pytest.mark.parametrize("place", [*GRAPHS, *FUNCTIONS], ids=str)
def test_a_call_is_written_out_wherever_it_is(place):
    model = ModelProto()
    place.add(model).node.add(op_type="Called", domain="own", input=["x"], output=["y"])
    function = model.functions.add(name="Called", domain="own", input=["a"], output=["b"])
    function.node.add(op_type="Relu", input=["a"], output=["b"])
    inline_functions(model, {("own", "Called", "")}, lambda hint: hint)
    written = [list(n.input) + list(n.output) for n in walk.nodes(model) if n.op_type == "Relu"]
    assert written == [["x", "y"]]
    assert not [n for n in walk.nodes(model) if n.op_type == "Called"]


def test_a_node_is_named_in_one_line():
    named = walk.named(NodeProto(op_type="Const\nant\u2028", name="a\nb"))
    assert named == "Const\\nant\\u2028 'a\\nb'"


def holder(*graphs, op="If", output="h"):
    """A node that holds graphs."""
    node = NodeProto(op_type=op, input=["c"], output=[output])
    for number, graph in enumerate(graphs):
        node.attribute.add(name=f"g{number}", type=AttributeProto.GRAPH).g.CopyFrom(graph)
    return node


def test_the_depth_of_subgraphs_is_that_of_the_deepest():
    plain = NodeProto(op_type="Neg", input=["x"], output=["y"])
    flat = GraphProto(name="flat", node=[plain])
    deep = GraphProto(name="deep", node=[plain, holder(flat)])
    assert walk.levels([]) == walk.levels([plain]) == 0
    assert walk.levels([plain, holder(flat)]) == 1
    assert walk.levels([holder(flat), holder(flat, deep), holder(flat)]) == 2
    assert walk.levels([holder(flat, op="Neg")]) == 0  # such a node may not hold graphs
    assert walk.holds_graphs(holder(flat)) is True
    assert walk.holds_graphs(plain) is False


def test_subgraphs_are_visited_only_if_they_are_asked_for():
    inner = GraphProto(name="inner", node=[holder(GraphProto(name="innermost"))])
    graph = GraphProto(name="main", node=[holder(inner, GraphProto(name="beside"))])
    names = [visited.name for visited in walk.graphs_in(graph)]
    assert names == ["main", "inner", "innermost", "beside"]
    assert [visited.name for visited in walk.graphs_in(graph, nested=False)] == ["main"]


def test_a_graph_captures_the_names_that_it_does_not_define_before():
    graph = GraphProto(name="body")
    graph.input.add(name="i")
    graph.initializer.add(name="w")
    graph.sparse_initializer.add().values.name = "s"
    graph.node.add(op_type="Sum", input=["i", "w", "s", "a", "t"], output=["t"])
    inner = GraphProto(name="inner")
    inner.node.add(op_type="Add", input=["t", "b"], output=["u"])
    inner.output.add(name="t")
    inner.output.add(name="u")
    graph.node.append(holder(inner))
    for name in ("t", "h", "i", "o"):
        graph.output.add(name=name)
    assert list(walk.captures(graph)) == ["a", "t", "c", "b", "o"]
    assert list(walk.reads(holder(graph))) == ["c", "a", "t", "c", "b", "o"]

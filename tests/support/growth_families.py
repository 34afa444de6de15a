# SPDX-License-Identifier: Apache-2.0
"""Families of models in which one element is repeated as often as a caller chooses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import numpy as np
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from opshift.opsets.types import LARGEST_RANK

Family = Callable[[int], ModelProto]
SOURCE, TARGET = 12, 13  # Softmax, Squeeze and others change between them
FAMILIES: dict[str, Family] = {}
LOWERED: dict[str, int] = {}  # the target of a family whose nodes only lower opsets rewrite


def family(make: Family) -> Family:
    """Registers a family by the name of its function."""
    FAMILIES[make.__name__.replace("_", " ")] = make
    return make


def lowered_to(target: int) -> Callable[[Family], Family]:
    """Registers a family that is converted to a lower opset."""

    def register(make: Family) -> Family:
        LOWERED[make.__name__.replace("_", " ")] = target
        return family(make)

    return register


def value(name: str, shape: Iterable[int | str] | None = (2, 3), kind: int = 1) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, None if shape is None else list(shape))


def softmax(read: str, written: str, name: str = "") -> NodeProto:
    node = NodeProto(op_type="Softmax", input=[read], output=[written], name=name)
    node.attribute.add(name="axis", type=2, i=1)
    return node


def numbers(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(
    nodes: Iterable[NodeProto],
    outputs: Iterable[ValueInfoProto],
    inputs: Iterable[ValueInfoProto] = (),
    weights: Iterable[TensorProto] = (),
    functions: Iterable[FunctionProto] = (),
    domains: Iterable[str] = (),
) -> ModelProto:
    """A model of one graph, with `x` as its first input."""
    graph = GraphProto(name="g", node=nodes, input=[value("x"), *inputs], output=outputs)
    graph.initializer.extend(weights)
    imports = [helper.make_opsetid("", SOURCE), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


def function(name: str, nodes: Iterable[NodeProto]) -> FunctionProto:
    imports = [helper.make_opsetid("", SOURCE), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, ["a"], ["b"], list(nodes), imports)


def call(name: str, read: str, written: str) -> NodeProto:
    return NodeProto(op_type=name, domain="f", input=[read], output=[written])


# -- nodes ---------------------------------------------------------------------------------------


@family
def nodes_in_a_chain(n: int) -> ModelProto:
    """Each node reads the one before it."""
    chain = [softmax(f"v{i}" if i else "x", f"v{i + 1}", f"n{i}") for i in range(n)]
    return model(chain, [value(f"v{n}")])


@family
def nodes_in_the_wrong_order(n: int) -> ModelProto:
    """The same chain in reverse order, which no conversion accepts."""
    proto = nodes_in_a_chain(n)
    proto.graph.node.sort(key=lambda node: -int(node.name[1:]))
    return proto


@family
def nodes_in_a_cycle(n: int) -> ModelProto:
    """All nodes depend on each other."""
    proto = nodes_in_a_chain(n)
    proto.graph.node[0].input[0] = f"v{n}"
    return proto


@family
def nodes_beside_each_other(n: int) -> ModelProto:
    """All nodes read one value, and each node writes an output of the model."""
    return model([softmax("x", f"y{i}") for i in range(n)], [value(f"y{i}") for i in range(n)])


@family
def nodes_of_one_name(n: int) -> ModelProto:
    """Names that runtimes reject if they occur twice."""
    proto = nodes_in_a_chain(n)
    for node in proto.graph.node:
        node.name = "n"
    return proto


@family
def nodes_that_nothing_reads(n: int) -> ModelProto:
    return model([softmax("x", "y"), *(softmax("x", f"u{i}") for i in range(n))], [value("y")])


@family
def nodes_that_block(n: int) -> ModelProto:
    """Nodes of an operator that does not exist in any version."""
    proto = model([NodeProto(op_type="Nowhere", input=["x"], output=[f"y{i}"]) for i in range(n)],
                 [value(f"y{i}") for i in range(n)])  # fmt: skip
    return proto


@family
def nodes_of_other_domains(n: int) -> ModelProto:
    """Each node belongs to another domain."""
    nodes = [
        NodeProto(op_type="F", domain=f"d{i}", input=["x"], output=[f"y{i}"]) for i in range(n)
    ]
    return model(nodes, [value(f"y{i}") for i in range(n)], domains=[f"d{i}" for i in range(n)])


@family
def arithmetic_of_shapes(n: int) -> ModelProto:
    """A chain of constants that a conversion can fold."""
    nodes = [
        NodeProto(op_type="Add", input=[f"k{i}", "one"], output=[f"k{i + 1}"]) for i in range(n)
    ]
    nodes += [
        NodeProto(op_type="Reshape", input=["x", f"k{n}"], output=["r"]),
        softmax("r", "y"),
    ]
    return model(nodes, [value("y", (3, 2))], weights=[numbers("one", 0, 0), numbers("k0", 3, 2)])


@family
def constants_as_nodes(n: int) -> ModelProto:
    nodes = []
    for i in range(n):
        constant = NodeProto(op_type="Constant", output=[f"c{i}"])
        constant.attribute.add(name="value", type=4).t.CopyFrom(numbers("", 0))
        nodes += [constant, NodeProto(op_type="Unsqueeze", input=["x"], output=[f"y{i}"])]
        nodes[-1].attribute.add(name="axes", type=7, ints=[0])
    return model(nodes, [value(f"y{i}", (1, 2, 3)) for i in range(n)])


# -- values --------------------------------------------------------------------------------------


@family
def weights_and_inputs(n: int) -> ModelProto:
    """Each weight has an input of its name, so that a caller may replace it."""
    names = [f"w{i}" for i in range(n)]
    nodes = [NodeProto(op_type="Add", input=["x", name], output=[f"y_{name}"]) for name in names]
    tensors = [TensorProto(name=name, data_type=1, float_data=[1.0]) for name in names]
    return model([*nodes, softmax("x", "y")], [value("y"), *(value(f"y_{name}") for name in names)],
                 [value(name, ()) for name in names], tensors)  # fmt: skip


@family
def declared_types(n: int) -> ModelProto:
    proto = nodes_in_a_chain(n)
    proto.graph.value_info.extend(value(f"v{i}") for i in range(1, n))
    return proto


@family
def outputs_of_one_split(n: int) -> ModelProto:
    parts = [f"p{i}" for i in range(n)]
    split = NodeProto(op_type="Split", input=["w"], output=parts)
    split.attribute.add(name="axis", type=2, i=0)
    split.attribute.add(name="split", type=7, ints=[1] * n)
    return model([split, softmax("x", "y")], [value("y"), *(value(part, (1,)) for part in parts)],
                 [value("w", (n,))])  # fmt: skip


@family
def inputs_of_one_concat(n: int) -> ModelProto:
    names = [f"w{i}" for i in range(n)]
    concat = NodeProto(op_type="Concat", input=names, output=["c"])
    concat.attribute.add(name="axis", type=2, i=0)
    return model([concat, softmax("x", "y")], [value("y"), value("c", (n,))],
                 [value(name, (1,)) for name in names])  # fmt: skip


@family
def lengths_of_one_tensor(n: int) -> ModelProto:
    """More lengths than a tensor in memory can have."""
    lengths = [1] * (LARGEST_RANK + n)
    fill = NodeProto(op_type="ConstantOfShape", input=["shape"], output=["c"])
    weights = [numbers("shape", *lengths)]
    return model([fill, softmax("x", "y")], [value("y"), value("c", lengths)], weights=weights)


@family
def metadata_and_annotations(n: int) -> ModelProto:
    proto = nodes_in_a_chain(n)
    for i in range(n):
        proto.metadata_props.add(key=f"k{i}", value="v")
        proto.graph.node[i].doc_string = "said"
        note = proto.graph.quantization_annotation.add(tensor_name=f"v{i + 1}")
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")
    return proto


@family
def bindings_of_training(n: int) -> ModelProto:
    proto = weights_and_inputs(n)
    training = proto.training_info.add()
    training.algorithm.name = "step"
    for i in range(n):
        training.algorithm.node.add(op_type="Neg", input=[f"w{i}"], output=[f"new{i}"])
        training.algorithm.output.append(value(f"new{i}", ()))
        training.update_binding.add(key=f"w{i}", value=f"new{i}")
    return proto


# -- graphs inside nodes -------------------------------------------------------------------------


def branch(nodes: Iterable[NodeProto], written: str) -> GraphProto:
    return GraphProto(name=f"of_{written}", node=nodes, output=[value(written)])


def condition(i: int, written: str, then: GraphProto, otherwise: GraphProto) -> NodeProto:
    node = NodeProto(op_type="If", input=["c"], output=[written], name=f"if{i}")
    node.attribute.add(name="then_branch", type=5).g.CopyFrom(then)
    node.attribute.add(name="else_branch", type=5).g.CopyFrom(otherwise)
    return node


@family
def nodes_with_graphs(n: int) -> ModelProto:
    """A chain of conditions, whose branches read the value before them."""
    nodes = []
    for i in range(n):
        read = f"v{i}" if i else "x"
        parts = [branch([softmax(read, f"{side}{i}")], f"{side}{i}") for side in "te"]
        nodes.append(condition(i, f"v{i + 1}", parts[0], parts[1]))
    return model(nodes, [value(f"v{n}")], [value("c", (), 9)])


@family
def nodes_of_one_branch(n: int) -> ModelProto:
    inner = [softmax(f"t{i}" if i else "x", f"t{i + 1}") for i in range(n)]
    node = condition(0, "y", branch(inner, f"t{n}"), branch([softmax("x", "e")], "e"))
    return model([node], [value("y")], [value("c", (), 9)])


@family
def nodes_with_loops(n: int) -> ModelProto:
    nodes = []
    for i in range(n):
        body = GraphProto(name=f"body{i}", node=[softmax(f"s{i}", f"o{i}")])
        body.input.extend([value(f"i{i}", (), 7), value(f"m{i}", (), 9), value(f"s{i}")])
        body.node.add(op_type="Identity", input=[f"m{i}"], output=[f"more{i}"])
        body.output.extend([value(f"more{i}", (), 9), value(f"o{i}")])
        node = NodeProto(
            op_type="Loop", input=["trips", "", f"v{i}" if i else "x"], output=[f"v{i + 1}"]
        )
        node.attribute.add(name="body", type=5).g.CopyFrom(body)
        nodes.append(node)
    return model(nodes, [value(f"v{n}")], weights=[two_trips()])


LEVELS = 8  # of graphs in each other; protobuf reads no more than thirty


def nested(
    n: int, wrap: Callable[[int, list[NodeProto], str, str], NodeProto], levels: int = LEVELS
) -> NodeProto:
    """A node whose graph holds a part of the nodes and the next such node, down to the last."""
    node: NodeProto | None = None
    for level in reversed(range(levels)):
        names = ["x", *(f"s{level}.{j}" for j in range(max(1, n // levels)))]
        nodes = [softmax(*pair) for pair in itertools.pairwise(names)]
        result = names[-1]
        if node is not None:
            nodes += [node, NodeProto(op_type="Add", input=[result, "y"], output=[f"z{level}"])]
            result = f"z{level}"
        node = wrap(level, nodes, result, "y")
    assert node is not None
    return node


def looped(level: int, nodes: list[NodeProto], result: str, written: str) -> NodeProto:
    i = f".{level}"
    body = GraphProto(name=f"body{level}", node=nodes)
    body.input.extend([value(f"i{i}", (), 7), value(f"m{i}", (), 9), value(f"c{i}")])
    body.node.add(op_type="Identity", input=[f"m{i}"], output=[f"more{i}"])
    body.node.add(op_type="Add", input=[f"c{i}", result], output=[f"o{i}"])
    body.output.extend([value(f"more{i}", (), 9), value(f"o{i}")])
    node = NodeProto(op_type="Loop", input=["trips", "", "x"], output=[written])
    node.attribute.add(name="body", type=5).g.CopyFrom(body)
    return node


def chosen(level: int, nodes: list[NodeProto], result: str, written: str) -> NodeProto:
    otherwise = branch([softmax("x", f"e{level}")], f"e{level}")
    return condition(level, written, branch(nodes, result), otherwise)


def scanned(level: int, nodes: list[NodeProto], result: str, written: str) -> NodeProto:
    body = GraphProto(name=f"body{level}", node=nodes)
    body.input.extend([value(f"c.{level}"), value(f"r.{level}", (3,))])
    body.node.add(op_type="Add", input=[f"c.{level}", result], output=[f"o.{level}"])
    body.output.append(value(f"o.{level}"))
    node = NodeProto(op_type="Scan", input=["x", "x"], output=[written])
    node.attribute.add(name="body", type=5).g.CopyFrom(body)
    node.attribute.add(name="num_scan_inputs", type=2, i=1)
    return node


def two_trips() -> TensorProto:
    return numpy_helper.from_array(np.array(2, np.int64), "trips")


@family
def nested_conditions(n: int) -> ModelProto:
    """The nodes are in nested conditions, whose outputs share one name."""
    return model([nested(n, chosen)], [value("y")], [value("c", (), 9)])


@family
def nested_loops(n: int) -> ModelProto:
    return model([nested(n, looped)], [value("y")], weights=[two_trips()])


@family
def nested_scans(n: int) -> ModelProto:
    return model([nested(n, scanned)], [value("y")])


# -- functions -----------------------------------------------------------------------------------


@family
def functions_in_a_chain(n: int) -> ModelProto:
    """Each function calls the next one; a chain of some hundred calls is an invalid model to onnx."""
    functions = [function(f"F{i}", [call(f"F{i + 1}", "a", "b")]) for i in range(n - 1)]
    functions.append(function(f"F{n - 1}", [softmax("a", "b")]))
    return model([call("F0", "x", "y")], [value("y")], functions=functions, domains=["f"])


@family
def functions_beside_each_other(n: int) -> ModelProto:
    functions = [function(f"F{i}", [softmax("a", "b")]) for i in range(n)]
    nodes = [call(f"F{i}", f"v{i}" if i else "x", f"v{i + 1}") for i in range(n)]
    return model(nodes, [value(f"v{n}")], functions=functions, domains=["f"])


@family
def functions_in_a_circle(n: int) -> ModelProto:
    """Functions that call each other, which no tool accepts."""
    functions = [function(f"F{i}", [call(f"F{(i + 1) % n}", "a", "b")]) for i in range(n)]
    return model([call("F0", "x", "y")], [value("y")], functions=functions, domains=["f"])


@family
def calls_of_one_function(n: int) -> ModelProto:
    nodes = [call("F", f"v{i}" if i else "x", f"v{i + 1}") for i in range(n)]
    return model(nodes, [value(f"v{n}")], functions=[function("F", [softmax("a", "b")])],
                 domains=["f"])  # fmt: skip


# -- graphs inside the nodes of a function, which adapters take apart ----------------------------


@lowered_to(10)
def conditions_in_a_function(n: int) -> ModelProto:
    """A chain of conditions whose shapes a function does not state."""
    nodes = []
    for i in range(n):
        read = f"v{i}" if i else "a"
        sides = (
            branch([NodeProto(op_type=op, input=[read], output=[f"{op}{i}"])], f"{op}{i}")
            for op in ("Relu", "Neg")
        )
        nodes.append(condition(i, f"v{i + 1}", *sides))
    return _called(nodes, [value("c", (), 9)], value("y"))


@lowered_to(7)
def scans_in_a_function(n: int) -> ModelProto:
    """A chain of Scans, which opset 7 writes as Loops."""
    nodes = []
    for i in range(n):
        body = GraphProto(name=f"body{i}")
        body.node.add(op_type="Add", input=[f"s{i}", f"r{i}"], output=[f"o{i}"])
        body.input.extend([value(f"s{i}", (3,)), value(f"r{i}", (3,))])
        body.output.append(value(f"o{i}", (3,)))
        scan = NodeProto(op_type="Scan", input=[f"v{i}" if i else "c", "a"], output=[f"v{i + 1}"])
        scan.attribute.add(name="body", type=5).g.CopyFrom(body)
        scan.attribute.add(name="num_scan_inputs", type=2, i=1)
        nodes.append(scan)
    return _called(nodes, [value("c", (3,))], value("y", (3,)))


def _called(
    nodes: list[NodeProto], inputs: Iterable[ValueInfoProto], output: ValueInfoProto
) -> ModelProto:
    """A model that calls a function of `a` and `c` once."""
    imports = [helper.make_opsetid("", SOURCE)]
    function = helper.make_function("f", "F", ["a", "c"], list(nodes[-1].output), nodes, imports)
    calls = [NodeProto(op_type="F", domain="f", input=["x", "c"], output=[output.name])]
    return model(calls, [output], inputs, functions=[function], domains=["f"])

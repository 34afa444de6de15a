# SPDX-License-Identifier: Apache-2.0
"""Tests the values that are removed after a conversion, because they are no longer read."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper
from opshift.model.document import Document
from opshift.model.sweep import keep_only, sweep
from text_models import model


def swept(text, *unread, opset=18):
    """Returns the operators, weights and declared values that remain after readers were removed."""
    proto = model(text, opset)
    document = Document(proto)
    document.mark_unread(document.roots[0].top, unread)
    assert sweep(document) is bool(document.gone)
    document.sort()
    graph = proto.graph
    return (
        " ".join(node.op_type for node in graph.node),
        [one.name for one in (*graph.initializer, *graph.sparse_initializer)],
        [info.name for info in graph.value_info],
    )


CHAIN = (
    "(float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}, float[2] a>"
    " { a = Add(x, w) b = Neg(a) y = Abs(x) }"
)


@pytest.mark.parametrize(
    ("unread", "operators", "weights", "declared"),
    [
        ("b", "Abs", ["v"], []),  # its node, and then the nodes and weights that only it read
        ("a", "Add Neg Abs", ["w", "v"], ["a"]),  # `b` still reads it
        ("v", "Add Neg Abs", ["w"], ["a"]),
        ("w", "Add Neg Abs", ["w", "v"], ["a"]),
        ("y", "Add Neg Abs", ["w", "v"], ["a"]),  # an output of the graph
        ("x", "Add Neg Abs", ["w", "v"], ["a"]),  # an input of the graph
        ("nobody", "Add Neg Abs", ["w", "v"], ["a"]),
        ("", "Add Neg Abs", ["w", "v"], ["a"]),
    ],
)
def test_a_value_goes_with_all_that_only_it_read(unread, operators, weights, declared):
    assert swept(CHAIN, unread) == (operators, weights, declared)


def test_what_was_unread_before_the_conversion_stays():
    assert swept(CHAIN) == ("Add Neg Abs", ["w", "v"], ["a"])


def test_a_node_stays_while_one_of_its_outputs_is_read():
    text = "(float[4] x) => (float[2] y) { p, q = Split<num_outputs = 2>(x) y = Neg(p) }"
    assert swept(text, "q")[0] == "Split Neg"
    assert swept(text.replace("Neg(p)", "Neg(k)").replace(") {", ") <float[2] k = {1, 2}> {"), "q")[0] == "Neg"  # fmt: skip


def test_a_value_that_one_node_reads_twice_goes_with_the_node():
    text = "(float[2] x) => (float[2] y) { a = Neg(x) b = Add(a, a) y = Abs(x) }"
    assert swept(text, "b")[0] == "Abs"
    other = text.replace("y = Abs(x)", "y = Abs(a)")
    assert swept(other, "b")[0] == "Neg Abs"


INNER = (
    "(float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}> {"
    " a = Neg(x) z = If (c) <then_branch = t () => (float[2] p)"
    " { d = Add(a, w) p = Add(d, w) },"
    " else_branch = e () => (float[2] q) { q = Add(a, v) }> y = Abs(x) }"
)


def test_the_graphs_of_a_node_stop_reading_with_it():
    """Each read counts: one graph reads `w` twice, and two graphs read `a` once each."""
    assert swept(INNER, "z") == ("Abs", [], [])
    kept = INNER.replace("y = Abs(x)", "y = Add(a, v)")
    assert swept(kept, "z") == ("Neg Add", ["v"], [])
    assert swept(INNER, "a", "w") == ("Neg If Abs", ["w", "v"], [])


@pytest.mark.parametrize("order", [1, -1])
def test_a_node_inside_a_removed_node_stops_reading_only_once(order):
    inner = "d = If(c) <then_branch = p () => (p) { p = Neg(a) }, else_branch = q () => (q) { q = Abs(a) }>"
    proto = model(
        f"""(float[2] x, bool c) => (float[2] y) {{ a = Neg(x)
            u = If(c) <then_branch = t () => (v) {{ {inner} v = Neg(x) }},
                       else_branch = e () => (w) {{ w = Neg(x) }}>
            y = Abs(a) }}""",
        18,
    )
    document = Document(proto)
    top, branch = document.roots[0].scopes[:2]
    for scope, name in [(top, "u"), (branch, "d")][::order]:
        document.mark_unread(scope, [name])
    assert sweep(document)
    document.sort()
    assert [node.op_type for node in proto.graph.node] == ["Neg", "Abs"]


def test_a_value_inside_a_graph_goes_without_the_node_of_the_graph():
    proto = model(INNER.replace("d = Add(a, w)", "d = Add(a, w) r = Sub(a, w)"), 18)
    document = Document(proto)
    inner = next(scope for scope in document.scopes() if "r" in scope.producers)
    document.mark_unread(inner, ["r"])
    assert sweep(document)
    document.sort()
    (branch,) = (a.g for a in proto.graph.node[1].attribute if a.name == "then_branch")
    assert [node.op_type for node in branch.node] == ["Add", "Add"]
    assert [node.op_type for node in proto.graph.node] == ["Neg", "If", "Abs"]


def test_sparse_weights_go_like_others():
    proto = model("(float[2] x) => (float[2] y) { y = Abs(x) }", 18)
    for name in ("s", "t"):
        values = helper.make_tensor(name, onnx.TensorProto.FLOAT, [1], [1.0])
        index = helper.make_tensor(f"{name}_i", onnx.TensorProto.INT64, [1], [0])
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, index, [2]))
    document = Document(proto)
    document.mark_unread(document.roots[0].top, ["s"])
    assert sweep(document)
    assert [sparse.values.name for sparse in proto.graph.sparse_initializer] == ["t"]
    assert document.gone == {document.roots[0].top: {"s"}}


def test_unread_nodes_of_a_function_go():
    text = '(float[2] x) => (float[2] y) { y = own.F(x) }\n<opset_import: ["" : 18], domain: "own">\nF (p) => (q) { d = Neg(p) e = Abs(d) q = Abs(p) }'
    proto = model(text, 18, more=', "own" : 1')
    document = Document(proto)
    root = next(root for root in document.roots if "e" in root.top.producers)
    document.mark_unread(root.top, ["e"])
    assert sweep(document)
    document.sort()
    assert [node.op_type for node in proto.functions[0].node] == ["Abs"]


def test_only_the_wanted_elements_of_a_field_are_kept():
    graph = model(CHAIN).graph
    keep_only(graph.node, lambda node: node.op_type != "Neg")
    assert [node.op_type for node in graph.node] == ["Add", "Abs"]
    keep_only(graph.node, lambda node: True)
    assert len(graph.node) == 2

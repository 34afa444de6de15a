# SPDX-License-Identifier: Apache-2.0
"""An opened model: its index of nodes follows each change, and its names and constants are new."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper
from opshift.errors import InvalidModel
from opshift.model import document
from opshift.model.document import MAX_NESTING, Document
from opshift.model.scope import Place, Root, Scope
from opshift.opsets import schemas
from text_models import model

NESTED = """(float[2] x, bool c) => (float[2] y) {
    a = Relu(x)
    b = If (c) <then_branch = t () => (float[2] p) { q = Relu(a) s = Sigmoid(q) p = own.F(s) },
                else_branch = e () => (float[2] r) { r = own.F(x) }>
    z = own.F(b)
    y = Relu(z) }
    <opset_import: ["": 18, "ai.onnx.ml": 3], domain: "own"> F (v) => (w) { u = Neg(v) w = Relu(u) }"""


def opened(text: str = NESTED, opset: int = 17) -> Document:
    return Document(model(text, opset, more=', "own": 1'))


def indexed(root: Root) -> dict[object, set[tuple[int, int]]]:
    """The nodes of the index and of the calls, by identity of their graph."""
    tables = [*root.index.items(), *root.calls.items()]
    return {key: {(id(scope.proto), at) for scope, at in places} for key, places in tables}


def by_walk(whole: Document, root: Root) -> dict[object, set[tuple[int, int]]]:
    """Returns the same positions of nodes, found by a walk over the graphs."""
    found: dict[object, set[tuple[int, int]]] = {}
    for scope in root.scopes:
        for at, node in enumerate(scope.proto.node):
            if at in scope.removed:
                continue
            key: object = (schemas.normal(node.domain), node.op_type)
            if (*key, "") in whole.functions:
                key = (*key, "")
            found.setdefault(key, set()).add((id(scope.proto), at))
    return found


def consistent(whole: Document) -> bool:
    """Requires that the index contains exactly the existing nodes and graphs."""
    for root in whole.roots:
        assert indexed(root) == by_walk(whole, root)
        assert root.by_graph == {id(scope.proto): scope for scope in root.scopes}
        assert all([*root.index.values(), *root.calls.values()])
    return True


def places(whole: Document, op: str) -> list[Place]:
    return [place for root in whole.roots for place in root.index.get(("", op), ())]


# --- opening --------------------------------------------------------------------------------------


def test_the_index_has_each_node_once() -> None:
    whole = opened()
    assert consistent(whole)
    assert len(places(whole, "Relu")) == 4
    assert [root.kind for root in whole.roots] == ["graph", "function"]
    assert whole.main is whole.roots[0].top
    assert sorted(scope.depth for scope in whole.scopes()) == [0, 0, 1, 1]
    main, function = whole.roots
    assert (main.imports.get(""), function.imports.get("")) == (17, 18)
    assert len(main.calls["own", "F", ""]) == 3
    operators = [key for root, key, _ in whole.operators() if root is main]
    assert operators == [("", "If"), ("", "Relu"), ("", "Sigmoid")]
    assert not whole.has_written
    assert whole.generation == 0


def test_a_call_with_a_subgraph_is_entered() -> None:
    proto = model(NESTED, 17, more=', "own": 1')
    (call,) = (node for node in proto.graph.node if node.op_type == "F")
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["i"])], "inner", [], [])
    call.attribute.append(helper.make_attribute("body", inner))
    assert len(Document(proto).roots[0].scopes) == 4


def test_an_operator_that_shares_the_name_of_a_function_is_no_call() -> None:
    proto = model(NESTED, 17, more=', "own": 1')
    if not hasattr(proto.functions[0], "overload"):
        pytest.skip("the installed onnx has no overloads")
    proto.functions[0].overload = "o"
    whole = Document(proto)
    assert len(whole.roots[0].index["own", "F"]) == 3
    assert not whole.roots[0].calls


def test_two_functions_of_one_name_are_an_error() -> None:
    proto = model(NESTED, 17, more=', "own": 1')
    proto.functions.append(proto.functions[0])
    with pytest.raises(InvalidModel, match="two model-local functions"):
        Document(proto)
    named = onnx.FunctionProto(domain="ai.onnx", name="F")
    assert document.function_id(named) == ("", "F", "")


def test_only_the_algorithm_of_a_training_reads_the_main_graph() -> None:
    proto = model("(float[2] x) => (float[2] y) { y = Relu(x) }", 17)
    for part in ("initialization", "algorithm"):
        training = proto.training_info.add()
        getattr(training, part).node.add(op_type="Neg", input=["x"], output=["n"])
    whole = Document(proto)
    names = [root.name for root in whole.roots[1:]]
    assert names == ["training_info[0].initialization", "training_info[1].algorithm"]
    assert [root.top.parent for root in whole.roots] == [None, None, whole.main]


@pytest.mark.parametrize(("depth", "legal"), [(MAX_NESTING, True), (MAX_NESTING + 1, False)])
def test_graphs_have_a_largest_depth(depth: int, legal: bool) -> None:
    graph = onnx.GraphProto(name="g")
    for _ in range(depth):
        outer = onnx.GraphProto(name="g")
        outer.node.append(helper.make_node("Loop", ["", "c"], [], body=graph))
        graph = outer
    proto = onnx.ModelProto(graph=graph, opset_import=[helper.make_opsetid("", 17)])
    if legal:
        assert max(scope.depth for scope in Document(proto).scopes()) == depth
    else:
        with pytest.raises(InvalidModel, match="nested more than"):
            Document(proto)


def test_a_document_that_is_opened_again_keeps_what_steps_wrote() -> None:
    before = opened()
    before.added_initializers = True
    before.origins["n"] = "Relu 'a'"
    before.missed["n"] = object()
    again = Document(before.model, before=before)
    assert again.added_initializers
    assert (again.origins, again.missed) == (before.origins, before.missed)
    assert again.origins is not before.origins
    assert not opened().added_initializers
    assert not Document(before.model, before=opened()).added_initializers


# --- changes --------------------------------------------------------------------------------------


REMOVED = [*(("Relu", at) for at in range(4)), ("If", 0), ("Neg", 0)]


@pytest.mark.parametrize(("op", "at"), REMOVED)
def test_the_index_forgets_removed_nodes_and_their_graphs(op: str, at: int) -> None:
    whole = opened()
    place = places(whole, op)[at]
    whole.remove([place])
    assert consistent(whole)
    assert place not in places(whole, op)
    assert len(whole.roots[0].scopes) == (1 if op == "If" else 3)
    assert whole.generation == 1
    whole.remove([])
    assert whole.generation == 1


def test_calls_are_forgotten_unless_a_step_wrote_the_node() -> None:
    whole = opened()
    main = whole.roots[0]
    call = next(place for place in main.calls["own", "F", ""] if place[0] is whole.main)
    whole.remove([call])
    assert consistent(whole)
    assert len(main.calls["own", "F", ""]) == 2
    other = main.calls["own", "F", ""][0]
    main.index["own", "F"] = [other]
    whole.rewritten.add(other)  # a node of an operator with the name of a function
    whole.leave_index([other])
    assert ("own", "F") not in main.index
    assert other in main.calls["own", "F", ""]


def test_new_nodes_are_entered_with_their_graphs() -> None:
    whole = opened()
    branch = whole.model.graph.node[1]
    whole.main.producers  # noqa: B018 - it is a table that is made on first use
    whole.model.graph.node.append(helper.make_node("Abs", ["x"], ["new", ""]))
    copied = whole.model.graph.node.add()
    copied.CopyFrom(branch)
    copied.output[0] = "copied"
    for at in (4, 5):
        whole.enter_node(whole.main, at)
    assert consistent(whole)
    assert len(whole.roots[0].scopes) == 5
    assert {name: whole.main.producers[name] for name in ("new", "copied")} == {
        "new": 4,
        "copied": 5,
    }
    assert "" not in whole.main.producers
    whole.roots[0].index["", "If"].remove((whole.main, 5))
    whole.enter_node(whole.main, 5)  # its graphs are known
    assert consistent(whole)
    fresh = opened()
    fresh.model.graph.node.append(helper.make_node("Abs", ["x"], ["new"]))
    fresh.enter_node(fresh.main, 4)
    assert fresh.main.producers["new"] == 4


# --- names and constants --------------------------------------------------------------------------


def test_new_names_are_numbered_and_are_told_from_others() -> None:
    whole = opened()
    names = [whole.fresh("a"), whole.fresh("b")]
    assert names == ["opshift_1_a", "opshift_2_b"]
    assert whole.has_written
    for name, fresh, written in [
        ("opshift_1_a", True, True), ("opshift_inlined", True, False), ("x1", False, False),
        ("opshift_", True, False), ("opshift_5", True, True), ("opshift_x1", True, False),
        ("someothr_1_a", False, False),
    ]:  # fmt: skip
        assert (whole.is_fresh(name), whole.is_written(name)) == (fresh, written)


def test_equal_constants_of_a_graph_are_one() -> None:
    whole, made = opened(), list[int]()

    def tensor(value: int) -> TensorProto:
        made.append(value)
        return helper.make_tensor("given", TensorProto.INT64, [1], [value])

    main, function = whole.roots
    first = whole.constant(main, "a", lambda: tensor(1))
    assert whole.constant(main, "a", lambda: tensor(2)) is first
    assert whole.constant(main, "b", lambda: tensor(1)) is first
    assert whole.constant(main, "c", lambda: tensor(3)) is not first
    assert whole.constant(function, "a", lambda: tensor(1)) is not first
    assert made == [1, 1, 3, 1]
    assert first.name == "opshift_1_const"
    assert not whole.added_initializers
    for _ in range(2):
        whole.place_constant(main, first)
    assert [one.name for one in whole.model.graph.initializer] == [first.name]
    assert whole.added_initializers
    values = set(whole.written_values())
    assert values == {(whole.main, first.name)}


def test_the_values_that_steps_wrote() -> None:
    whole = opened()
    graph = whole.model.graph
    name = whole.fresh("new")
    graph.node.append(helper.make_node("Abs", ["x"], [name]))
    graph.node.append(helper.make_node("Abs", ["x"], ["named", whole.fresh("second")]))
    graph.node.append(helper.make_node("Abs", ["x"], [whole.fresh("removed")]))
    graph.node.append(helper.make_node("Abs", ["x"], []))
    whole.main.removed.add(6)
    assert list(whole.written_values()) == [(whole.main, name)]
    whole.has_written = False
    assert list(whole.written_values()) == []


def test_values_without_a_reader_are_taken_once() -> None:
    whole = opened()
    inner = next(scope for scope in whole.scopes() if scope.depth)
    whole.mark_unread(inner, ["a", "", "x"])
    assert whole.take_unread() == [(whole.main, "a"), (whole.main, "x")]
    assert whole.take_unread() == []


def test_a_node_is_named_with_the_node_for_which_it_was_written() -> None:
    whole = opened()
    node = whole.model.graph.node[0]
    assert "written for" not in whole.where(node)
    whole.origins["a"] = "Gelu 'g'"
    assert whole.where(node).endswith("(written for Gelu 'g')")
    assert whole.origin(helper.make_node("Relu", ["x"], ["", "a"])) == "Gelu 'g'"


def test_the_calls_behind_a_node() -> None:
    whole = opened()
    nodes = whole.model.graph.node
    found = [whole.calls_behind(whole.main, node) for node in nodes]
    assert found == [set(), set(), set(), {("own", "F", "")}]
    unknown = helper.make_node("Relu", ["nowhere", "", "z"], ["n"])
    assert whole.calls_behind(whole.main, unknown) == {("own", "F", "")}


def test_an_import_is_added_where_the_node_is() -> None:
    whole = opened()
    for root, container in zip(whole.roots, (whole.model, whole.model.functions[0]), strict=True):
        version = whole.add_import(root, "com.microsoft", lowest=1)
        assert version == root.imports.get("com.microsoft") == 1
        added = [one for one in container.opset_import if one.domain == "com.microsoft"]
        assert [one.version for one in added] == [1]
    assert whole.add_import(whole.roots[0], "ai.onnx.ml", lowest=4) == 4


def test_forgotten_graphs_leave_the_other_graphs() -> None:
    whole = opened()
    then = next(scope for scope in whole.scopes() if scope.depth and "q" in names_of(scope))
    whole.forget_scopes([])
    assert consistent(whole)
    whole.forget_scopes([then.proto])
    assert then not in list(whole.scopes())
    assert indexed(whole.roots[0]) == by_walk(whole, whole.roots[0])
    assert len(whole.roots[0].scopes) == 2


def names_of(scope: Scope) -> set[str]:
    return {name for node in scope.proto.node for name in node.output}

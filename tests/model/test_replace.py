# SPDX-License-Identifier: Apache-2.0
"""Tests that a document removes replaced nodes from its tables and adds the new nodes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import opshift
import pytest
from growth_families import FAMILIES
from onnx import GraphProto
from opshift.model.document import Document
from opshift.model.replace import Replacement, constant_node, replace_nodes
from opshift.model.scope import call_id
from text_models import model, ops

MODEL = """(float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
    a = Neg(x) p, q = own.F(a, w) d = Add(p, a)
    e = If (c) <then_branch = t () => (float[2] r) { s = Neg(d) r = Abs(s) },
                else_branch = e () => (float[2] u) { u = Neg(a) }>
    y = Sub(e, d) }
<opset_import: ["" : 18], domain: "own"> F (g, h) => (k, l) { k = Neg(g) l = Neg(h) }"""
NEG, CALL, ADD, IF, SUB = range(5)


def opened(text=MODEL, *names, ir=11):
    proto = model(text, 18, ir, more=', "own" : 1, "com.microsoft" : 1')
    for node, name in zip(proto.graph.node, names, strict=False):
        node.name = name
    return Document(proto)


def nodes(text, *names):
    made = list(model(f"(x) => (y) {{ {text} }}", 18).graph.node)
    for node, name in zip(made, names, strict=False):
        node.name = name
    return made


def replace(document, position, text, *names, carrier=None, carried=(), scope=None):
    """Replaces a node of the main graph, or of another scope, by nodes that a text describes."""
    made = nodes(text, *names) if text else []
    main = None if carrier is None else made[carrier]
    place = (scope or document.main, position)
    (places,) = replace_nodes(document, [Replacement(place, made, main, frozenset(carried))])
    return places


def tables(document):
    """Returns all that a document records about its nodes, without positions."""
    return {
        root.name: (
            {key: written(places) for key, places in root.index.items()},
            {called: written(places) for called, places in root.calls.items()},
            {
                scope.proto.name: {name: scope.node(i).op_type for name, i in scope.producers.items()}
                for scope in root.scopes
            },
            {
                (owner and owner.proto.name, name): count
                for (owner, name), count in document.names.readers(root).items()
                if count
            },
        )
        for root in document.roots
    }  # fmt: skip


def written(places):
    return sorted((scope.proto.name, *scope.node(position).output) for scope, position in places)


@pytest.mark.parametrize("read_before", [False, True])
@pytest.mark.parametrize(
    ("position", "text", "options"),
    [
        (NEG, "a = Abs(x)", {}),
        (NEG, "b = Abs(x) a = Neg(b)", {}),
        (CALL, "p = Mul(a, w) q = Div(a, w)", {}),
        (CALL, "p = Mul(a, w)", {}),
        (ADD, "", {}),
        (IF, "e = Neg(d)", {}),
        (IF, "e = Where(c, d, a)", {}),
        (IF, "z = Not(c) e = If(z)", {"carried": ("then_branch", "else_branch")}),
        (IF, "e = If(c) <then_branch = v () => (float[2] n) { n = Neg(d) },"
             " else_branch = w () => (float[2] m) { m = Abs(d) }>", {}),
        (SUB, "m = Neg(d) y = Add(e, m)", {"carrier": 0}),
    ],
)  # fmt: skip
def test_the_tables_are_those_of_the_new_model_opened_again(position, text, options, read_before):
    document = opened()
    before = tables(document) if read_before else None
    replace(document, position, text, **options)
    now = tables(document)
    assert now != before
    document.sort()
    assert now == tables(Document(document.model))


def test_nodes_inside_a_graph_and_in_a_function_are_replaced_there():
    for name, text in (("t", "z = Exp(d) s = Log(z)"), ("F", "k = Exp(g)")):
        document = opened()
        (scope,) = (scope for scope in document.scopes() if scope.proto.name == name)
        tables(document)
        replace(document, 0, text, scope=scope)
        now = tables(document)
        document.sort()
        assert now == tables(Document(document.model))


@pytest.mark.parametrize("carrier", [None, 0, 1])
def test_the_new_nodes_stand_in_their_order_where_the_old_node_was(carrier):
    document = opened()
    places = replace(document, ADD, "z = Exp(p) o = Log(a) d = Add(z, o)", carrier=carrier)
    assert [scope.node(at).op_type for scope, at in places] == ["Exp", "Log", "Add"]
    assert places[2 if carrier is None else carrier] == (document.main, ADD)
    assert document.rewritten == set(places)
    document.sort()
    assert ops(document.model) == "Neg F Exp Log Add If Sub"


def test_a_new_node_is_replaced_at_its_place_too():
    document = opened()
    _, second = replace(document, ADD, "z = Exp(p) d = Add(z, a)")
    first = (document.main, len(document.main.proto.node) - 1)
    assert second == (document.main, ADD)
    replace(document, first[1], "o = Cos(p) z = Sin(o)")
    replace(document, ADD, "m = Abs(z) d = Sub(m, a)")
    document.sort()
    assert ops(document.model) == "Neg F Cos Sin Abs Sub If Sub"


def test_a_new_operator_with_the_name_of_a_function_is_replaced_like_others():
    document = opened()
    replace(document, ADD, "d = own.F(p, a)")
    replace(document, ADD, "d = Sub(p, a)")
    document.sort()
    assert ops(document.model) == "Neg F Sub If Sub"


def test_several_nodes_are_replaced_at_once():
    document = opened()
    main = document.main
    new = [nodes("a = Exp(x)"), [], nodes("h = Abs(e) y = Sub(h, d)")]
    places = replace_nodes(
        document, [Replacement((main, at), made) for at, made in zip((NEG, ADD, SUB), new, strict=True)]
    )  # fmt: skip
    assert [len(written) for written in places] == [1, 0, 2]
    document.sort()
    assert ops(document.model) == "Exp F If Abs Sub"


def test_a_change_is_counted_and_no_change_is_not():
    document = opened()
    assert replace_nodes(document, []) == []
    assert document.generation == 0
    replace(document, NEG, "a = Abs(x)")
    assert document.generation == 1


@pytest.mark.parametrize(
    ("position", "text", "gone"),
    [
        (CALL, "p = Mul(a, w)", {"q"}),
        (CALL, "p = Mul(a, w) q = Abs(p)", None),
        (NEG, "", {"a"}),
        (NEG, "b = Abs(x) a = Neg(b)", None),
    ],
)
def test_values_without_a_new_writer_are_gone(position, text, gone):
    document = opened()
    replace(document, position, text)
    assert document.gone.get(document.main) == gone


@pytest.mark.parametrize(
    ("position", "text", "options", "unread"),
    [
        (ADD, "d = Neg(a)", {}, "p"),
        (ADD, "d = Sub(a, p)", {}, ""),
        (ADD, "", {}, "pa"),
        (CALL, "p = Mul(a, w) q = Div(a, w)", {}, "q"),  # sweep then finds the second node
        (CALL, "p = Mul(a, w)", {}, ""),
        (NEG, "b = Abs(x) a = Neg(b)", {}, ""),
        (IF, "e = Neg(d)", {}, "cda"),  # the branches read `d` and `a`
        (IF, "z = Not(c) e = If(z)", {"carried": ("then_branch", "else_branch")}, ""),
    ],
)
def test_values_that_may_have_lost_their_last_reader_are_noted(position, text, options, unread):
    document = opened()
    document.take_unread()
    replace(document, position, text, **options)
    assert {name for _, name in document.take_unread()} == set(unread)


def test_outputs_that_were_all_unread_are_not_noted():
    """The caller may need the new nodes although the output of the old one was unread."""
    document = opened("(float[2] x) => (float[2] y) { p, q = own.F(x, x) y = Neg(x) }")
    replace(document, 0, "p = Abs(x) q = Neg(x)")
    assert not document.take_unread()


def test_the_overwritten_node_keeps_all_that_the_new_one_does_not_say():
    document = opened(MODEL, "first")
    old = document.main.node(NEG)
    old.doc_string = "kept"
    replace(document, NEG, "a = LeakyRelu<alpha = 0.5>(x)", "other")
    assert (old.name, old.doc_string, old.op_type) == ("first", "kept", "LeakyRelu")
    assert [attribute.name for attribute in old.attribute] == ["alpha"]
    replace(document, NEG, "a = Relu(w)")
    assert (list(old.input), list(old.output), list(old.attribute)) == (["w"], ["a"], [])


def test_only_carried_attributes_stay():
    document = opened()
    old = document.main.node(IF)
    then = old.attribute[0].g
    old.attribute.add(name="other")
    replace(document, IF, "e = If<new = 1>(c)", carried={"then_branch"})
    assert [attribute.name for attribute in old.attribute] == ["then_branch", "new"]
    assert document.main.root.scope_of(then).proto is then


@pytest.mark.parametrize(
    ("was", "now", "domain"),
    [
        ("ai.onnx.Neg", "Abs", "ai.onnx"),  # another spelling of the same domain is no change
        ("Neg", "com.microsoft.Gelu", "com.microsoft"),
        ("com.microsoft.Gelu", "Neg", ""),
    ],
)
def test_the_domain_is_that_of_the_new_operator(was, now, domain):
    document = opened(f"(float[2] x) => (float[2] y) {{ y = {was}(x) }}")
    replace(document, 0, f"y = {now}(x)")
    assert document.main.node(0).domain == domain


def names_after(names, new, *, position=NEG, given=(), carrier=None):
    """Returns the names of the nodes, with `new` for generated names."""
    document = opened("(x) => (y) { a = Neg(x) b = Neg(a) y = Neg(b) }", *names)
    replace(document, position, new, *given, carrier=carrier)
    document.sort()
    found = [node.name for node in document.main.proto.node]
    invented = [name for name in found if document.is_fresh(name)]
    assert len(invented) == len(set(invented))
    return ["new" if name in invented else name for name in found]


def test_a_repeated_name_is_replaced_with_the_operator():
    """Runtimes may accept two equal node names, but reject them for two equal operators."""
    assert names_after(["n", "n", "o"], "a = Abs(x)") == ["new", "n", "o"]
    assert names_after(["n", "n", "o"], "a = Neg(a)") == ["n", "n", "o"]
    assert names_after(["n", "m", "o"], "a = Abs(x)") == ["n", "m", "o"]


def test_new_nodes_have_names_of_their_own_if_the_old_node_had_one():
    two = "z = Exp(x) a = Log(z)"
    assert names_after(["n", "m", "o"], two) == ["new", "n", "m", "o"]
    assert names_after(["n", "m", "o"], two, carrier=0) == ["n", "new", "m", "o"]
    assert names_after(["", "m", "o"], two) == ["", "", "m", "o"]
    assert names_after(["n", "m", "o"], two, given=["k"]) == ["k", "n", "m", "o"]
    assert names_after(["n", "m", "o"], two, given=["m"]) == ["new", "n", "m", "o"]
    assert names_after(["", "m", "o"], two, given=["m"]) == ["new", "", "m", "o"]


def test_two_new_nodes_do_not_share_a_name():
    three = "z = Exp(x) t = Cos(z) a = Log(t)"
    assert names_after(["n", "m", "o"], three, given=["k", "k"]) == ["k", "new", "n", "m", "o"]


def sharded(*values):
    document = opened(MODEL)
    node = document.main.node(ADD)
    if not hasattr(node, "device_configurations"):
        pytest.skip("this onnx has no shardings")
    configuration = node.device_configurations.add(configuration_id="two", pipeline_stage=3)
    for value in values:
        configuration.sharding_spec.add(tensor_name=value)
    return document


def shardings(document):
    document.sort()
    return {
        node.op_type: [
            (
                device_configuration.configuration_id,
                device_configuration.pipeline_stage,
                [s.tensor_name for s in device_configuration.sharding_spec],
            )
            for device_configuration in node.device_configurations
        ]
        for node in document.main.proto.node[ADD : ADD + 2]
    }


def test_new_nodes_run_on_the_devices_of_the_old_one_with_the_shardings_of_their_values():
    document = sharded("p", "a", "d")
    replace(document, ADD, "z = Exp(p) d = Sub(z, a)")
    assert document.sharded.keys() == {(document.main, ADD)}
    assert shardings(document) == {"Exp": [("two", 3, ["p"])], "Sub": [("two", 3, ["a", "d"])]}


def test_only_overwritten_nodes_on_devices_are_noted():
    document = sharded()
    replace(document, NEG, "a = Exp(x)")
    assert not document.sharded
    replace(document, ADD, "d = Sub(p, a)")
    assert document.sharded.keys() == {(document.main, ADD)}


def test_a_constant_node_holds_the_tensor():
    tensor = onnx.helper.make_tensor("t", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])
    node = constant_node(tensor, "k")
    onnx.checker.check_node(node)
    assert (call_id(node), list(node.output)) == (("", "Constant", ""), ["k"])
    assert node.attribute[0].t == tensor


def test_graphs_of_all_replaced_nodes_are_forgotten_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forgetting one graph searches all graphs of the model."""
    original = Document.forget_scopes
    seen: list[Sequence[GraphProto]] = []

    def forget_scopes(document: Document, graphs: Sequence[GraphProto]) -> None:
        seen.append(graphs)
        original(document, graphs)

    monkeypatch.setattr(Document, "forget_scopes", forget_scopes)

    def times(conditions: int) -> int:
        seen.clear()
        opshift.convert_version(FAMILIES["conditions in a function"](conditions), 10)
        return len(seen)

    assert times(3) == times(9)
    assert max(len(graphs) for graphs in seen) == 2 * 9

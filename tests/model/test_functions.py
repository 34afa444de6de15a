# SPDX-License-Identifier: Apache-2.0
"""Tests the calls between the functions of a model, direct and indirect."""

from __future__ import annotations

import itertools

import pytest
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper
from opshift.errors import InvalidModel
from opshift.model import functions
from opshift.model.functions import behind, called, callers_of, calls_of, functions_of
from text_models import model

BODIES = """
<opset_import: ["" : 18, "o" : 1], domain: "o"> A (a) => (b) { c = o.B(a) b = o.C(c) }
<opset_import: ["" : 18, "o" : 1], domain: "o"> B (a) => (b) { b = o.C(a) }
<opset_import: ["" : 18, "o" : 1], domain: "o"> C (a) => (b) { b = Neg(a) }
<opset_import: ["" : 18, "o" : 1], domain: "o"> D (a) => (b) { b = o.D(a) }
"""
A, B, C, D = (("o", name, "") for name in "ABCD")


def loaded(body):
    proto = model(
        f"(float[2] x, bool c) => (float[2] y) {{ {body} }}{BODIES}", 18, more=', "o" : 1'
    )
    return proto.graph.node, calls_of(functions_of(proto))


def test_direct_calls_and_callers():
    _, calls = loaded("y = Neg(x)")
    assert calls == {A: {B, C}, B: {C}, C: set(), D: {D}}
    assert {which: sorted(callers) for which, callers in callers_of(calls).items()} == {
        B: [A], C: [A, B], D: [D],
    }  # fmt: skip


def test_functions_that_are_reached_through_others():
    _, calls = loaded("y = Neg(x)")
    assert behind(calls, A) == {B, C}
    assert behind(calls, B, D) == {C, D}
    assert behind(calls, C) == behind(calls) == set()
    assert behind(callers_of(calls), C) == {A, B}


def test_functions_that_nodes_call():
    for body, expected in (
        ("y = Neg(x)", set()),
        ("y = o.B(x)", {B, C}),
        ("z = o.B(x) y = o.D(z)", {B, C, D}),
        ("y = If(c) <then_branch = t () => (float[2] p) { p = o.A(x) },"
         " else_branch = e () => (float[2] q) { q = Neg(x) }>", {A, B, C}),
        ("y = o.Missing(x)", set()),
    ):  # fmt: skip
        assert called(*loaded(body)) == expected


def test_a_function_that_calls_itself_is_named_with_the_way_back():
    proto = model(
        """(float[2] x) => (float[2] y) { y = o.E(x) }
        <opset_import: ["" : 18, "o" : 1], domain: "o"> F (a) => (b) { c = o.E(a) b = o.G(c) }
        <opset_import: ["" : 18, "o" : 1], domain: "o"> E (a) => (b) { c = o.G(a) b = o.F(c) }
        <opset_import: ["" : 18, "o" : 1], domain: "o"> D (a) => (b) { b = o.D(a) }
        <opset_import: ["" : 18, "o" : 1], domain: "o"> G (a) => (b) { b = Neg(a) }""",
        18, more=', "o" : 1',
    )  # fmt: skip
    rest = "; ONNX has no recursion: remove a call, or write a Loop"
    assert list(functions.recursion(calls_of(functions_of(proto)))) == [
        f"function 'D' of 'o' calls itself{rest}",
        f"function 'E' of 'o' calls itself through 'F'{rest}",
        f"function 'F' of 'o' calls itself through 'E'{rest}",
    ]


# -- sizes ---------------------------------------------------------------------------------------

SIZED = """(float[2] x, bool c) => (float[2] y) {
    k = Constant<value_float = 1.0>() z = o.A(x)
    y = If (c) <then_branch = t () => (float[2] p) { q = o.B(z) p = Neg(q) },
                else_branch = e () => (float[2] r) { r = Constant<value_floats = [1.0, 2.0]>() }> }
    <opset_import: ["" : 18, "o" : 1], domain: "o"> A (a) => (b) {
        k = Constant<value_float = 1.0>() c = o.B(a) d = o.B(c) b = Add(d, k) }
    <opset_import: ["" : 18, "o" : 1], domain: "o"> B (a) => (b) { c = Neg(a) b = Abs(c) }"""


def sized():
    return model(SIZED, 18, more=', "o" : 1')


def test_nodes_are_counted_as_if_calls_were_inlined():
    assert functions.sizes_of(sized().functions) == {A: 5, B: 2}
    assert functions.computing_nodes(sized()) == 5 + 1 + 2 + 1


def test_a_model_may_have_as_many_nodes_as_allowed(monkeypatch):
    monkeypatch.setattr(functions, "MOST_NODES", 7)
    functions.require_bounded(sized())
    monkeypatch.setattr(functions, "MOST_NODES", 6)
    with pytest.raises(InvalidModel, match=r"in the graph stand for 7 nodes .* at most 6 are"):
        functions.require_bounded(sized())
    monkeypatch.setattr(functions, "MOST_NODES", 3)
    with pytest.raises(InvalidModel, match=r"in function 'A' of 'o' stand for 4 nodes"):
        functions.require_bounded(sized())
    monkeypatch.setattr(functions, "MOST_NODES", -1)
    functions.require_bounded(model("(float[2] x) => (float[2] y) { y = Neg(x) }", 18))


def test_a_chain_of_calls_may_be_as_long_as_allowed(monkeypatch):
    monkeypatch.setattr(functions, "MOST_LEVELS", 2)
    functions.require_bounded(sized())
    monkeypatch.setattr(functions, "MOST_LEVELS", 1)
    with pytest.raises(InvalidModel, match=r"function 'A' of 'o' begins a chain of more than 1"):
        functions.require_bounded(sized())
    assert functions.sizes_of([FunctionProto(name="A", domain="o")]) == {A: 0}


def test_functions_that_call_each_other_are_counted_by_name():
    bodies = [
        FunctionProto(name=name, domain="o", node=[NodeProto(op_type=callee, domain="o")])
        for name, callee in (("B", "A"), ("A", "B"))
    ]
    bodies[1].node.add(op_type="Neg")
    assert functions.sizes_of(bodies) == {A: 2, B: 2}


def test_inputs_that_calls_omit_are_found_through_callers():
    proto = model(
        """(float[2] x) => (float[2] y) { a = o.A(x) y = o.C(a, x, x) }
        <opset_import: ["" : 18, "o" : 1], domain: "o"> A (a, b) => (c) {
            d = o.C(a, b) c = o.C(d, "", a) }
        <opset_import: ["" : 18, "o" : 1], domain: "o"> B (a, b) => (c) { c = o.Missing(a) }
        <opset_import: ["" : 18, "o" : 1], domain: "o"> C (a, b, c) => (d) { d = o.D(a, b, c) }
        <opset_import: ["" : 18, "o" : 1], domain: "o"> D (a, b, c) => (d) { d = Neg(a) }""",
        18, more=', "o" : 1',
    )  # fmt: skip
    absent = {"b", "c"}
    assert functions.omitted_inputs(proto) == {A: {"b"}, B: set(), C: absent, D: absent}


# -- inlining ------------------------------------------------------------------------------------


def written(proto, *names, domain="o"):
    """Inlines functions; returns the nodes of the graph as text, and the functions called."""
    numbers = itertools.count(1)
    which = {(domain, name, "") for name in names}
    reached = functions.inline_functions(proto, which, lambda hint: f"{hint}{next(numbers)}")
    return [shown(node) for node in proto.graph.node], {name for _, name, _ in reached}


def shown(node):
    text = f"{node.op_type} {' '.join(i or '-' for i in node.input)} > {' '.join(node.output)}"
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            inner = "; ".join(map(shown, attribute.g.node))
            text += f" [{attribute.g.name}: {inner}: {attribute.g.output[0].name}]"
        else:
            text += f" {attribute.name}={helper.get_attribute_value(attribute)}"
    return f"{text} ({node.name})" if node.name else text


def test_no_function_is_inlined_if_none_is_asked_for():
    before = sized()
    after = sized()
    assert written(after) == ([shown(node) for node in before.graph.node], set())
    assert after == before


def test_calls_are_replaced_at_any_depth():
    proto = sized()
    nodes, reached = written(proto, "B")
    assert nodes[:2] == ["Constant  > k value_float=1.0", "A x > z"]
    assert nodes[2].startswith("If c > y [t: Neg z > Neg1; Abs Neg1 > q; Neg q > p: p] [e: Const")
    assert [function.name for function in proto.functions] == ["A"]
    assert [shown(node) for node in proto.functions[0].node] == [
        "Constant  > k value_float=1.0",
        "Neg a > Neg4", "Abs Neg4 > c", "Neg c > Neg7", "Abs Neg7 > d", "Add d k > b",
    ]  # fmt: skip
    assert reached == {"B"}


def test_calls_in_inlined_bodies_are_replaced_too():
    proto = sized()
    nodes, reached = written(proto, "A", "B")
    assert [node.split()[0] for node in nodes] == [
        "Constant", "Constant", "Neg", "Abs", "Neg", "Abs", "Add", "If",
    ]  # fmt: skip
    assert nodes[6].endswith(" > z")
    assert (reached, len(proto.functions)) == ({"A", "B"}, 0)


def test_functions_that_call_themselves_stay_called():
    text = "y = Neg(x)".join(["(float[2] x, bool c) => (float[2] y) { ", f" z = o.D(x) }}{BODIES}"])
    proto = model(text, 18, more=', "o" : 1')
    assert written(proto, "D", "C") == (["Neg x > y", "D x > z"], {"C"})
    assert [function.name for function in proto.functions] == ["A", "B"]


def test_unknown_functions_and_operators_stay():
    proto = model(
        "(float[2] x) => (float[2] y) { z = other.C(x) y = o.E(z) }" + BODIES,
        18, more=', "o" : 1, "other" : 1',
    )  # fmt: skip
    assert written(proto, "C", "E") == (["C x > z", "E z > y"], {"C"})
    assert written(proto, "A", "B") == (["C x > z", "E z > y"], set())


ATTRIBUTES = """(float[2] x, float[2] z) => (float[2] y) { y = o.F<alpha = 0.5>(x) }
    <opset_import: ["" : 18, "p" : 3], domain: "o"> F <alpha, axis: int = 1, gone>
    (a, b) => (c) {
        d = Elu<alpha: float = @alpha>(a)
        e = Softmax<axis: int = @axis>(d)
        f = Clip(e, b)
        g = Selu<alpha: float = @gone, gamma = 2.0>(f)
        c = If (g) <then_branch = t () => (p) { p = Elu<alpha: float = @alpha>(e) },
                    else_branch = u () => (q) { q = Neg(e) }> }"""


def test_attributes_and_omitted_inputs_are_those_of_the_call():
    proto = model(ATTRIBUTES, 18, more=', "o" : 1')
    proto.functions[0].node[0].name = "first one"
    proto.graph.node[0].name = "the call"
    nodes, _ = written(proto, "F")
    assert nodes == [
        "Elu x > Elu1 alpha=0.5 (the_call6_first_one)",
        "Softmax Elu1 > Softmax2 axis=1",
        "Clip Softmax2 - > Clip3",
        "Selu Clip3 > Selu4 gamma=2.0",
        "If Selu4 > y [t7: Elu Softmax2 > Elu8 alpha=0.5: Elu8] [u9: Neg Softmax2 > Neg10: Neg10]",
    ]
    assert {i.domain: i.version for i in proto.opset_import} == {"": 18, "o": 1, "p": 3}


def test_a_function_that_keeps_a_call_imports_the_domains_of_the_body():
    proto = model(
        """(float[2] x) => (float[2] y) { y = o.A(x) }
        <opset_import: ["ai.onnx" : 18, "o" : 1], domain: "o"> A (a) => (b) { b = o.B(a) }
        <opset_import: ["" : 17, "p" : 2], domain: "o"> B (a) => (b) { b = Neg(a) }""",
        18, more=', "o" : 1',
    )  # fmt: skip
    assert written(proto, "B") == (["A x > y"], {"B"})
    (kept,) = proto.functions
    assert [(i.domain, i.version) for i in kept.opset_import] == [
        ("ai.onnx", 18), ("o", 1), ("p", 2),
    ]  # fmt: skip
    assert [i.domain for i in proto.opset_import] == ["", "o"]


def one_call(body, outputs=("y",)):
    """A graph that calls the function once."""
    proto = ModelProto(graph=GraphProto(name="g"))
    proto.graph.node.add(op_type="F", domain="o", input=["x"], output=outputs)
    proto.functions.append(body)
    return proto


def test_an_input_that_a_function_returns_is_copied():
    body = FunctionProto(name="F", domain="o", input=["a"], output=["a", "b", "c"])
    body.node.add(op_type="Neg", input=["a"], output=["b"])
    body.node.add(op_type="Abs", input=["a"], output=["c", ""])
    nodes, _ = written(one_call(body, ["p", "q", ""]), "F")
    assert nodes == ["Neg x > q", "Abs x > Abs2 ", "Identity x > p"]


def test_an_output_that_no_node_writes_is_an_error_if_it_is_read():
    body = FunctionProto(name="F", domain="o", input=["a"], output=["b", "c"])
    body.node.add(op_type="Neg", input=["a"], output=["b"])
    assert written(one_call(body, ["y"]), "F")[0] == ["Neg x > y"]
    assert written(one_call(body, ["y", ""]), "F")[0] == ["Neg x > y"]
    with pytest.raises(InvalidModel, match=r"output 'c' of function 'F' is written by no node"):
        written(one_call(body, ["y", "z"]), "F")


def test_types_of_values_inside_a_function_are_kept_under_the_new_names():
    body = FunctionProto(name="F", domain="o", input=["a"], output=["b"])
    body.node.add(op_type="Neg", input=["a"], output=["c"])
    body.node.add(op_type="Abs", input=["c"], output=["b"])
    for name in ("a", "c"):
        body.value_info.add(name=name, doc_string=name)
    proto = one_call(body)
    proto.functions.add(name="G", domain="o", output=["y"]).node.append(proto.graph.node[0])
    written(proto, "F")
    assert [(info.name, info.doc_string) for info in proto.graph.value_info] == [("Neg1", "c")]
    assert not proto.functions[0].value_info


def test_each_copy_of_a_subgraph_has_its_own_names():
    inner = GraphProto(name="a body")
    inner.input.add(name="i")
    inner.input.add(name="w")
    inner.initializer.add(name="w")
    inner.initializer.add(name="v")
    inner.sparse_initializer.add().values.name = "s"
    inner.node.add(op_type="Add", input=["i", "w"], output=["t", ""])
    inner.node.add(op_type="Sum", input=["t", "v", "s", "a", "outside"], output=["u"])
    inner.output.add(name="u")
    inner.value_info.add(name="t")
    inner.value_info.add(name="outside")
    inner.quantization_annotation.add(tensor_name="t")
    body = FunctionProto(name="F", domain="o", input=["a"], output=["b"])
    body.node.add(op_type="Loop", input=["a"], output=["b"]).attribute.append(
        helper.make_attribute("body", inner)
    )
    proto = one_call(body)
    written(proto, "F")
    graph = proto.graph.node[0].attribute[0].g
    assert graph.name == "a_body3"
    assert [info.name for info in graph.input] == ["in4", "in5"]
    assert [tensor.name for tensor in graph.initializer] == ["in5", "const7"]
    assert graph.sparse_initializer[0].values.name == "const8"
    assert [shown(node) for node in graph.node] == [
        "Add in4 in5 > Add9 ", "Sum Add9 const7 const8 x outside > Sum10",
    ]  # fmt: skip
    assert [info.name for info in (*graph.output, *graph.value_info)] == [
        "Sum10", "Add9", "outside",
    ]  # fmt: skip
    assert graph.quantization_annotation[0].tensor_name == "Add9"

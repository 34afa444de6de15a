# SPDX-License-Identifier: Apache-2.0
"""The rules about graphs and nodes find each fault once, and nothing in a legal model."""

from __future__ import annotations

import dataclasses
import itertools
import re

import pytest
from checked import assert_finds, checked, texts
from onnx import ModelProto, SparseTensorProto, TensorProto, helper
from opshift.convert.legal import graph_rules
from opshift.opsets import late_changes, schemas
from text_models import model

RULES = (
    graph_rules.definitions, graph_rules.sparse_names, graph_rules.defaults,
    graph_rules.shadowing, graph_rules.untyped_attributes, graph_rules.operators,
    graph_rules.input_types, graph_rules.unstated,
)  # fmt: skip
IF = "y = If(c) <then_branch = t () => (float[2] p) {{ {} }}, else_branch = e () => (float[2] q) {{ q = Neg(x) }}>"
LEGAL = f"""(float[2] x, bool c, float[2] w) => (float[2] y) <float[2] w = {{1, 2}}> {{
    a = Add(x, w) b = Clip(a, "", m) m = Constant<value = float {{1}}>() {IF.format("p = Add(a, w)")} }}"""


def legal() -> ModelProto:
    proto = model(LEGAL, 13)
    proto.graph.node[1].CopyFrom(proto.graph.node[2])
    proto.graph.node[2].CopyFrom(helper.make_node("Clip", ["a", "", "m"], ["b"]))
    return proto


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_legal_model_has_no_finding(rule):
    assert_finds(rule, checked(legal()))


# -- names and order -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("(float[2] x, float[2] x) => (float[2] y) { y = Neg(x) }", ["input 'x'.*twice"]),
        ("(float[2] x) => (float[2] y) { y = Neg(z) }", ["reads 'z', which is not defined"]),
        ("(float[2] x) => (float[2] y) { y = Neg(a) a = Neg(x) }",
         ["Neg 'y' comes before Neg 'a', whose 'a'"]),
        ("(float[2] x) => (float[2] y) { y = Neg(x) y = Neg(x) }", ["writes 'y'.*before"]),
        ("(float[2] x) => (float[2] y) { x = Neg(x) y = Neg(x) }", ["writes 'x'.*before"]),
        ("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { w = Neg(x) y = Neg(w) }",
         ["writes 'w'.*before"]),
        ("(float[2] x) => (float[2] y, float[2] z) { y = Neg(x) }", ["no node writes output 'z'"]),
        ("(float[2] x) => (float[2] x) { y = Neg(x) }", []),
        ("(float[2] x) => (float[2] y) { y, w = Dropout(x, w) }", ["cycle: w -> w$"]),
    ],
)  # fmt: skip
def test_values_are_defined_once_and_before_they_are_read(text, patterns):
    assert_finds(graph_rules.definitions, checked(model(text, 13)), *patterns)


def test_unnamed_outputs_define_nothing():
    proto = model("(float[2] x) => (float[2] y) { y, m = Dropout(x) z, n = Dropout(x) }", 13)
    for node in proto.graph.node:
        node.output[1] = ""
    assert_finds(graph_rules.definitions, checked(proto))


def test_an_initializer_occurs_once():
    proto = model("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", 13)
    proto.graph.initializer.append(proto.graph.initializer[0])
    assert_finds(graph_rules.definitions, checked(proto), "initializer 'w'.*twice")
    proto = with_sparse(proto, "w")
    del proto.graph.initializer[1:]
    assert_finds(graph_rules.definitions, checked(proto), "initializer 'w'.*twice")
    assert_finds(graph_rules.sparse_names, checked(proto), "initializer 'w'.*twice")
    proto = with_sparse(model("(float[2] x) => (float[2] y) { y = Add(x, w) }", 13), "w")
    assert_finds(graph_rules.definitions, checked(proto))
    assert_finds(graph_rules.sparse_names, checked(proto))


def with_sparse(proto: ModelProto, name: str) -> ModelProto:
    values = helper.make_tensor(name, TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("", TensorProto.INT64, [1], [0])
    proto.graph.sparse_initializer.append(
        SparseTensorProto(values=values, indices=indices, dims=[2])
    )
    return proto


@pytest.mark.parametrize(
    ("inner", "patterns"),
    [
        ("p = Neg(a)", []),
        ("p = Neg(z)", ["Neg 'p' reads 'z', which is not defined"]),
        ("p = Neg(d) d = Neg(a)", ["comes before Neg 'd'"]),
        ("d = Neg(a)", ["no node writes output 'p' in graph 't'"]),
    ],
)
def test_graphs_inside_use_the_values_around_them(inner, patterns):
    text = f"(float[2] x, bool c) => (float[2] y) {{ a = Neg(x) {IF.format(inner)} }}"
    assert_finds(graph_rules.definitions, checked(model(text, 13)), *patterns)


def test_a_value_inside_that_is_read_too_early_may_have_the_name_of_one_around():
    """The graph defines the name itself, so the order of the nodes matters."""
    text = f"(float[2] x, bool c) => (float[2] y) {{ d = Neg(x) {IF.format('p = Neg(d) d = Neg(x)')} }}"
    assert_finds(graph_rules.definitions, checked(model(text, 13)), "comes before Neg 'd'")


def test_the_output_of_a_graph_may_be_a_value_around_it():
    text = f"(float[2] x, bool c) => (float[2] y) {{ {IF.format('d = Neg(x)')} }}".replace(
        "[2] p)", "[2] x)"
    )
    assert_finds(graph_rules.definitions, checked(model(text, 13)))


def ring(count: int, start: str = "", more: str = "") -> ModelProto:
    nodes = " ".join(f"{start}{i} = Neg({start}{(i or count) - 1})" for i in range(count))
    return model(f"(float[2] x) => (float[2] {start}0) {{ {nodes} {more} }}", 13)


@pytest.mark.parametrize("count", [1, 2, 11, 12, 30])
def test_a_cycle_is_shown_once_from_a_value_to_itself(count):
    (text,) = texts(graph_rules.definitions(checked(ring(count, "v"))))
    way = text.partition("cycle: ")[2].split(" -> ")
    assert way[0] == way[-1]
    half = graph_rules.MOST_SHOWN // 2
    places = [None if one == "..." else int(one[1:]) for one in way]
    if count < graph_rules.MOST_SHOWN:
        assert sorted(places[1:]) == [*range(count)]
    else:
        assert len(way) == 2 * half + 1
        assert places[half] is None
    for one, other in itertools.pairwise(places):
        assert None in (one, other) or (other - one) % count == 1 % count


def test_each_cycle_is_shown_and_values_behind_it_are_in_no_order():
    made = ring(2, "v", more="r = Add(u, s) s = Neg(r) u = Neg(v0)")
    patterns = [
        r"cycle: v\d -> v\d -> v\d$",
        "comes before Neg 'u'",
        "cycle: [rs] -> [rs] -> [rs]$",
    ]
    assert_finds(graph_rules.definitions, checked(made), *patterns)


def test_the_shortest_way_of_a_cycle_is_shown():
    text = "(float[2] x) => (float[2] a) { a = Sum(e, b) b = Neg(d) d = Neg(e) e = Neg(a) }"
    assert_finds(graph_rules.definitions, checked(model(text, 13)), "cycle: e -> a -> e$")
    text = "(float[2] x) => (float[2] b) { b = Neg(d) d = Add(x, a) a = Neg(b) }"
    assert_finds(graph_rules.definitions, checked(model(text, 13)), "cycle: d -> b -> a -> d$")


def test_functions_have_definitions_of_their_own():
    text = """(float[2] x) => (float[2] y) { y = f.F(x) }
        <domain: "f", opset_import: ["": 13]> F (a, a) => (b, c) { b = Neg(x) }"""
    proto = model(text, 13, more=', "f": 1')
    messages = texts(graph_rules.definitions(checked(proto)))
    patterns = ["input 'a'.*twice", "reads 'x', which is not", "no node writes output 'c'"]
    assert [bool(re.search(*pair)) for pair in zip(patterns, messages, strict=True)] == [True] * 3


def test_a_default_has_the_type_of_its_input():
    proto = model("(float[2] w) => (float[2] y) <int64[2] w = {1, 2}> { y = Neg(w) }", 13)
    assert_finds(graph_rules.defaults, checked(proto), "input 'w'")


@pytest.mark.parametrize(
    ("kind", "dims", "patterns"),
    [
        (TensorProto.FLOAT, [2], []),
        (TensorProto.FLOAT, [3], [r"input 'w'.*float.*\[2\].*float.*\[3\]"]),
        (TensorProto.INT64, [2], [r"input 'w'.*float.*int64"]),
    ],
)
def test_a_sparse_default_has_the_type_of_its_input(kind, dims, patterns):
    proto = model("(float[2] w) => (float[2] y) { y = Neg(w) }", 13)
    values, indices = helper.make_tensor("w", kind, [1], [1]), helper.make_tensor("", 7, [1], [0])
    proto.graph.sparse_initializer.append(
        SparseTensorProto(values=values, indices=indices, dims=dims)
    )
    assert_finds(graph_rules.defaults, checked(proto), *patterns)


@pytest.mark.parametrize(
    ("inner", "patterns"),
    [
        ("p = Neg(x)", []),
        ("a = Neg(x) p = Neg(a)", ["'a' in graph 't' is also defined in an outer graph"]),
    ],
)
def test_a_graph_inside_defines_no_name_again(inner, patterns):
    text = f"(float[2] x, bool c) => (float[2] y) {{ a = Neg(x) {IF.format(inner)} }}"
    assert_finds(graph_rules.shadowing, checked(model(text, 13)), *patterns)


@pytest.mark.parametrize("kind", ["an input", "an initializer", "a sparse initializer"])
def test_all_that_a_graph_inside_defines_counts_as_a_definition(kind):
    text = f"(float[2] x, bool c) => (float[2] y) {{ a = Neg(x) {IF.format('p = Neg(x)')} }}"
    proto = model(text, 13)
    inner = proto.graph.node[1].attribute[0].g
    if kind == "an input":
        inner.input.append(helper.make_tensor_value_info("a", 1, [2]))
    elif kind == "an initializer":
        inner.initializer.append(helper.make_tensor("a", 1, [1], [1.0]))
    else:
        values = helper.make_tensor("a", 1, [1], [1.0])
        indices = helper.make_tensor("", 7, [1], [0])
        inner.sparse_initializer.append(SparseTensorProto(values=values, indices=indices, dims=[2]))
    assert_finds(graph_rules.shadowing, checked(proto), "'a' in graph 't'")


# -- nodes ---------------------------------------------------------------------------------------


def test_an_attribute_without_a_type_is_found():
    proto = model("(float[2] x) => (float[2] y) { y = Softmax<axis=0>(x) }", 13)
    assert_finds(graph_rules.untyped_attributes, checked(proto))
    proto.graph.node[0].attribute[0].ClearField("type")
    assert_finds(graph_rules.untyped_attributes, checked(proto), "'axis' of Softmax 'y'")


@pytest.mark.parametrize(
    ("node", "patterns"),
    [
        ("y = Sofmax(x)", ["no operator of that name.* 11; did you mean Softmax"]),
        ("y = ReLU(x)", ["no operator of that name.* 11; did you mean Relu"]),
        ("y = Frobnicate(x)", ["no operator of that name exists in ai.onnx 11$"]),
        ("y = Qqqqqq(x)", ["no operator of that name[^;]*11$"]),
        ("y = Celu(x) z = Celu(x)", ["'y': it first appears in ai.onnx 12.* 11$", "'z'.*12"]),
        ("y = Crop(x) z = Upsample(x, x)", []),
        ("y = Neg<alpha=1>(x)", ["no attribute 'alpha'"]),
        ("y = own.Anything<alpha=1>(x)", []),
        ("y = not_imported.Anything(x)", []),
    ],
)
def test_operators_exist_at_the_imported_version(node, patterns):
    proto = model(f"(float[2] x) => (float[2] y) {{ {node} }}", 11, more=', "own": 1')
    assert_finds(graph_rules.operators, checked(proto), *patterns)


def test_in_a_function_an_attribute_may_have_another_kind():
    text = """(float[2] x) => (float[2] y) { y = f.F(x) }
        <domain: "f", opset_import: ["": 13]> F (a) => (b) { b = Softmax<axis=1.5>(a) }"""
    proto = model(text, 13, more=', "f": 1')
    assert_finds(graph_rules.operators, checked(proto))
    proto.graph.node[0].CopyFrom(proto.functions[0].node[0])
    assert_finds(graph_rules.operators, checked(proto), "'axis' is FLOAT, not INT")


@pytest.mark.parametrize(
    ("nodes", "patterns"),
    [
        ("y = Clip(x)", []),
        ("y = Clip(s)", ["Clip 'y' reads 's' of type tensor\\(string\\)"]),
        ('z = Clip(x, "", s)', ["reads 's'"]),
        ("y = own.Anything(s)", []),
        ("y = own.Anything(s) z = Clip(y)", []),
        ("y = Neg(x, s)", []),
    ],
)
def test_nodes_read_types_that_their_operators_accept(nodes, patterns):
    text = f"(float[2] x, string[2] s) => (float[2] w) {{ {nodes} }}"
    proto = model(text, 13, more=', "own": 1')
    assert_finds(graph_rules.input_types, checked(proto), *patterns)


def test_an_operator_fixes_types_that_its_body_need_not_declare():
    """The counter of a Loop is an integer, and its condition is a bool."""
    body = "b (int64 i, bool k, float[2] p) => (bool o, float[2] q) { o = Min(k) q = Relu(i) }"
    proto = model(
        f'(int64 n, float[2] x) => (float[2] y) {{ y = Loop(n, "", x) <body = {body}> }}', 13
    )
    for value in proto.graph.node[0].attribute[0].g.input[:2]:
        value.ClearField("type")
    patterns = "reads 'k' of type tensor.bool.", "reads 'i' of type tensor.int64."
    assert_finds(graph_rules.input_types, checked(proto), *patterns)


def test_a_type_that_onnx_removed_is_named_with_the_release(monkeypatch):
    opened = checked(model("(string[2] x) => (string[2] y) { y = Neg(x) }", 13))
    asked = []

    def lost(*key: object) -> str | None:
        asked.append(key)
        return "1.99" if len(asked) == 1 else None

    monkeypatch.setattr(late_changes, "lost", lost)
    assert_finds(graph_rules.input_types, opened, "not accept; onnx 1.99.* Neg-13")
    assert_finds(graph_rules.input_types, opened, "not accept$")
    assert asked == [("", "Neg", 13, 0, "tensor(string)")] * 2


def test_operators_of_which_only_the_name_is_known_are_counted(monkeypatch):
    opened = checked(model("(float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = Abs(b) }", 13))
    assert_finds(graph_rules.unstated, opened)
    known = schemas.schema

    def only_abs_is_stated(domain: str, op: str, version: int) -> schemas.Schema | None:
        return dataclasses.replace(known("", "Neg", 13), stated=op == "Abs") if version else None

    monkeypatch.setattr(schemas, "schema", only_abs_is_stated)
    assert_finds(graph_rules.unstated, opened, r"2 nodes of \.Neg")
    assert_finds(graph_rules.unstated, checked(model(NOT_IMPORTED, 13)))


NOT_IMPORTED = "(float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }"


@pytest.mark.parametrize(
    ("ir", "inputs", "patterns"),
    [
        (8, "i d z", []), (3, "i d z", []), (3, "i d z k", []),
        (8, "i d z k", ["input 'k' of the nested graph 'b' .* initializer; remove one"]),
        (3, "k i d z", ["input 'k' of the nested graph 'b' .* move it behind the other inputs"]),
    ],
)  # fmt: skip
def test_an_input_of_a_nested_graph_has_no_default(ir, inputs, patterns):
    text = """(int64 n, bool c, float[2] x) => (float[2] y) { y = Loop(n, c, x) <body = b
        (int64 i, bool d, float[2] z) => (bool e, float[2] w) { e = Identity(d) w = Neg(z) }> }"""
    proto = model(text, 8, ir=ir)
    body = proto.graph.node[0].attribute[0].g
    declared = {value.name: value for value in body.input}
    declared["k"] = helper.make_tensor_value_info("k", 1, [1])
    del body.input[:]
    body.input.extend(declared[name] for name in inputs.split())
    if "k" in inputs:
        body.initializer.add(name="k", data_type=1, dims=[1], float_data=[1])
    assert_finds(graph_rules.subgraph_defaults, checked(proto), *patterns)

# SPDX-License-Identifier: Apache-2.0
"""Nodes convert in subgraphs, functions and training graphs, also if they read outer values."""

from __future__ import annotations

import onnx.checker
import onnx.parser
import pytest
from onnx import TensorProto, helper
from opshift import InvalidModel, Refused, Why, convert_version
from opshift.adapter import Builder, Node, Result, adapter, retired
from opshift.verify import oracle
from text_models import model, ops

NESTED = """(float[4,3,2] x, bool c) => (float[4,3,2] y) {
    y = If(c) <
        then_branch = t () => (float[4,3,2] z) { z = Softmax(x) },
        else_branch = e () => (float[4,3,2] z2) {
            q = Softmax<axis=1>(x)
            z2 = If(c) <
                then_branch = tt () => (float[4,3,2] z3) { z3 = Softmax(q) },
                else_branch = ee () => (float[4,3,2] z4) { z4 = Hardmax(x) }>
        }>
}"""

FUNCTION = """(float[4,3,2] x) => (float[4,3,2] y) { y = local.f<a=1>(x) }
    <opset_import: ["" : 12], domain: "local">
    f <a> (v) => (w) { z = Softmax<axis: int = @a>(v) w = Neg(z) }"""


def equal(before, after, **inputs):
    given = oracle.make_inputs(before, overrides=inputs)
    return oracle.compare(oracle.evaluate(before, given), oracle.evaluate(after, given), ulp=4)


@pytest.mark.parametrize("condition", [True, False])
def test_nodes_in_nested_branches_convert(condition):
    before = model(NESTED)
    after = convert_version(before, 13)
    onnx.checker.check_model(after, full_check=True)
    assert equal(before, after, c=condition) is None


def test_new_names_are_unique_over_all_scopes():
    after = convert_version(model(NESTED), 13)
    names = []

    def walk(graph):
        for node in graph.node:
            names.extend(node.output)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    walk(attribute.g)

    walk(after.graph)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("otherwise", "start", "to"),
    [
        ("b = Optional(x) q = OptionalGetElement(b) r = Identity(q)", 18, 14),
        ("r, b = MaxPool<kernel_shape = [1]>(x)", 8, 7),
    ],
)
def test_what_one_branch_reads_is_not_what_the_other_calls_by_that_name(otherwise, start, to):
    text = """(float[1,1,4] x, bool c) => (float[1,1,4] y) {
        y = If(c) <then_branch = t () => (float[1,1,4] p) { b = Neg(x) p = Abs(b) },
                   else_branch = e () => (float[1,1,4] r) { %s }>
    }"""
    before = model(text % otherwise, start)
    after = convert_version(before, to)
    for condition in (True, False):
        assert equal(before, after, c=condition) is None


@pytest.mark.parametrize("condition", [True, False])
def test_a_loop_has_a_type_though_another_branch_uses_its_name(condition):
    text = """(seq(float[2]) s, float[2] x, bool c) => (float[2] y) {
        y = If(c) <then_branch = t () => (float[2] p) { b = Neg(x) p = Abs(b) },
                   else_branch = e () => (float[2] r) {
            n = Constant<value = int64 {2}>()
            b = Loop(n, c, x) <body = l (int64 i, bool g, float[2] v) => (bool h, float[2] w) {
                h = Identity(g) w = Neg(v)
            }>
            r = Identity(b)
        }>
    }"""
    before = model(text, 13)
    assert equal(before, convert_version(before, 12), c=condition) is None


def test_names_that_look_like_ours_are_avoided():
    text = "(float[2,3,4] x) => (float[2,3,4] opshift_1_Flatten) { opshift_1_Flatten = Softmax(x) }"
    after = convert_version(model(text), 13)
    onnx.checker.check_model(after, full_check=True)
    assert after.graph.node[0].output[0].startswith("opshift1_")


def test_an_operator_in_a_subgraph_of_an_unknown_domain_converts():
    text = """(float[2,3,4] x) => (float[2,3,4] y) {
        y = acme.Run<body = b () => (float[2,3,4] z) { z = Softmax(x) }>(x) }"""
    after = convert_version(model(text, more=', "acme" : 1'), 13)
    inner = after.graph.node[0].attribute[0].g
    assert [n.op_type for n in inner.node] == ["Flatten", "Softmax", "Shape", "Reshape"]


def test_graphs_attributes_are_visited():
    before = model("(float[2,3,4] x) => (float[2,3,4] y) { y = acme.Run(x) }", more=', "acme" : 1')
    inner = onnx.parser.parse_graph("b () => (float[2,3,4] z) { z = Softmax(x) }")
    before.graph.node[0].attribute.append(helper.make_attribute("bodies", [inner, inner]))
    after = convert_version(before, 13)
    for graph in after.graph.node[0].attribute[0].graphs:
        assert [n.op_type for n in graph.node][1] == "Softmax"


def test_constants_are_found_through_outer_scopes():
    text = """(float[2,1,3] x, bool c) => (float[2,3] y) <int64[1] axes = {1}> {
        y = If(c) <then_branch = t () => (float[2,3] z) { z = Squeeze(x, axes) },
                   else_branch = e () => (float[2,3] w) { w = Squeeze(x, axes) }> }"""
    before = model(text, 13)
    after = convert_version(before, 12)
    assert not after.graph.initializer, "the constant that nobody reads any more is gone"
    assert equal(before, after, c=True) is None


@adapter("Squeeze", 13, 12)
def demanding(node: Node, op: Builder) -> Result:
    """An adapter that requires the value of the axes."""
    return op.same(node, inputs={"axes": None}, axes=node["axes"].const().tolist())


def test_an_inner_name_hides_an_outer_constant(with_adapters):
    with_adapters(demanding)
    text = """(float[2,1,3] x, bool c, int64[1] other) => (float[2,3] y) <int64[1] a = {1}> {
        y = If(c) <then_branch = t () => (float[2,3] z) { z = Squeeze(x, a) },
                   else_branch = e () => (float[2,3] w) { b = Identity(other) w = Squeeze(x, b) }> }"""
    with pytest.raises(Refused) as caught:
        convert_version(model(text, 13), 12)
    (one,) = caught.value.refusals
    assert (one.node, one.why) == ("w", Why.NEEDS_CONSTANT)
    assert "'other' is an input" in one.detail


def test_an_overridable_initializer_is_no_constant(with_adapters):
    with_adapters(demanding)
    before = model(
        "(float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}> { y = Squeeze(x, a) }", 13
    )
    before.graph.input.add(name="a").type.CopyFrom(helper.make_tensor_type_proto(7, [1]))
    with pytest.raises(Refused) as caught:
        convert_version(before, 12)
    assert "callers may replace it" in caught.value.refusals[0].detail
    before.ir_version = 3
    assert convert_version(before, 12).graph.node[0].attribute[0].name == "axes"


def test_a_function_steps_by_its_own_import_and_inlines_only_when_it_must():
    static = FUNCTION.replace("axis: int = @a", "axis=2").replace("<a=1>", "").replace("f <a>", "f")
    before = model(static, more=', "local" : 1')
    after = convert_version(before, 13)
    assert [f.name for f in after.functions] == ["f"]
    assert [i.version for i in after.functions[0].opset_import] == [13]
    assert equal(before, after) is None


def test_a_function_whose_body_needs_its_call_is_written_out():
    before = model(FUNCTION, more=', "local" : 1')
    after = convert_version(before, 13)
    assert not after.functions
    assert equal(before, after) is None
    onnx.checker.check_model(after, full_check=True)


def test_only_the_function_that_needs_it_is_written_out():
    text = FUNCTION.replace("y = local.f<a=1>(x)", "k = local.g(x) y = local.f<a=1>(k)")
    text += '<opset_import: ["" : 12], domain: "local"> g (v) => (w) { w = Neg(v) }'
    before = model(text, more=', "local" : 1')
    after = convert_version(before, 13)
    assert [f.name for f in after.functions] == ["g"]
    assert equal(before, after) is None


def test_functions_that_call_functions():
    text = """(float[4,3,2] x) => (float[4,3,2] y) { y = local.outer(x) }
        <opset_import: ["" : 12, "local" : 1], domain: "local">
        outer (v) => (w) { w = local.f<a=1>(v) }
        <opset_import: ["" : 12], domain: "local">
        f <a> (v) => (w) { z = Softmax<axis: int = @a>(v) w = Neg(z) }"""
    before = model(text, more=', "local" : 1')
    after = convert_version(before, 13)
    assert equal(before, after) is None


def test_a_function_that_shadows_an_operator_is_not_that_operator():
    text = """(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }
        <opset_import: ["" : 12], domain: ""> Softmax (v) => (w) { w = Neg(v) }"""
    after = convert_version(model(text), 13)
    assert ops(after) == "Softmax"
    assert not after.graph.node[0].attribute


def test_a_name_inside_a_function_is_not_that_of_the_graph():
    text = """(float[3] v, float[2,3] x) => (float[2,3] y, float[3] z) { y = local.f(x) z = Neg(v) }
        <opset_import: ["" : 13], domain: "local"> f (v) => (w) { w = Softmax(v) }"""
    before = model(text, opset=13, more=', "local" : 1')
    assert equal(before, convert_version(before, 10)) is None


def test_overloads_are_told_apart():
    before = model(
        """(float[2,3,4] x) => (float[2,3,4] y) { y = local.f(x) }
        <opset_import: ["" : 12], domain: "local"> f (v) => (w) { w = Softmax<axis=2>(v) }""",
        ir=10,
        more=', "local" : 1',
    )
    other = before.functions.add()
    other.CopyFrom(before.functions[0])
    other.overload = "second"
    other.node[0].op_type = "LogSoftmax"
    before.graph.node[0].overload = "second"
    after = convert_version(before, 13)
    assert [(f.name, f.overload) for f in after.functions] == [("f", ""), ("f", "second")]
    assert after.graph.node[0].overload == "second"


def test_two_functions_of_one_name_are_invalid():
    before = model(
        """(float[2] x) => (float[2] y) { y = local.f(x) }
        <opset_import: ["" : 12], domain: "local"> f (v) => (w) { w = Neg(v) }""",
        more=', "local" : 1',
    )
    before.functions.add().CopyFrom(before.functions[0])
    before.functions[1].node[0].op_type = "Abs"  # equal functions become one
    with pytest.raises(InvalidModel, match="two model-local functions are called"):
        convert_version(before, 13)


def test_training_graphs_convert_with_the_model():
    before = model("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }")
    training = before.training_info.add()
    training.algorithm.CopyFrom(
        onnx.parser.parse_graph("a () => (float[2,3,4] z) { z = Softmax(y) }")
    )
    after = convert_version(before, 13)
    assert [n.op_type for n in after.training_info[0].algorithm.node][1] == "Softmax"


def test_nesting_has_a_stated_bound():
    before = model("(float[1] x, bool c) => (float[1] y) { y = Neg(x) }")
    before.graph.node.append(helper.make_node("Loop", ["", ""], ["q"], body=_deep(30)))
    with pytest.raises(InvalidModel, match="nested"):
        convert_version(before, 13)


def _deep(levels):
    graph = onnx.parser.parse_graph("leaf () => (float[1] o) { o = Neg(x) }")
    for level in range(levels):
        node = helper.make_node("Loop", ["", ""], [f"v{level}"], body=graph)
        graph = helper.make_graph([node], f"g{level}", [], [])
    return graph


def _scans(levels):
    """Returns nested Scans: each body contains one more Scan, and scans a batch of two."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    last = helper.make_node("Neg", ["e0"], ["s0"])
    nodes = [last]
    for level in range(1, levels + 1):
        total = helper.make_tensor_value_info(f"s{level - 1}", TensorProto.FLOAT, [])
        item = helper.make_tensor_value_info(f"e{level - 1}", TensorProto.FLOAT, [])
        body = helper.make_graph(nodes, f"b{level}", [item], [total])
        nodes = [
            helper.make_node("Scan", ["", "x"], [f"v{level}"], body=body, num_scan_inputs=1),
            helper.make_node("ReduceSum", [f"v{level}"], [f"s{level}"], keepdims=0),
        ]
    y = helper.make_tensor_value_info(f"s{levels}", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4)


def test_forms_that_nest_graphs_too_deep_together_are_refused():
    assert convert_version(_scans(3), 9)
    with pytest.raises(Refused, match=r"Scan .*nests graphs more than 30 levels deep"):
        convert_version(_scans(20), 9)


def test_a_form_for_the_deepest_graph_that_needs_another_graph_is_refused():
    leaf = onnx.parser.parse_graph("leaf () => (int64[1,K] o) { o = NonZero(x) }")
    for level in range(30):
        out = [helper.make_tensor_value_info(f"v{level}", TensorProto.INT64, [1, "K"])]
        other = helper.make_node("Identity", ["n"], [f"w{level}"])
        here = [helper.make_tensor_value_info(f"w{level}", TensorProto.INT64, [1, "K"])]
        branches = {"then_branch": leaf, "else_branch": helper.make_graph([other], "e", [], here)}
        leaf = helper.make_graph(
            [helper.make_node("If", ["c"], [f"v{level}"], **branches)], "g", [], out
        )
    before = model("(float[N] x, bool c, int64[1,K] n) => (int64[1,K] y) { y = Identity(n) }", 9, 4)
    before.graph.node.append(leaf.node[0])
    with pytest.raises(
        Refused, match="NonZero 'o' 9->8: the replacement nests graphs more than 30"
    ):
        convert_version(before, 8)


def test_a_body_that_is_taken_apart_is_in_order():
    text = """(float[3,2] x) => (float[3,2] y) <int64 n = {3}> {
        y = Loop(n, "") <body = b (int64 i, bool k) => (bool o, float[2] r) {
            o = Identity(k)
            r = If(o) <
                then_branch = t () => (float[2] p) { p = Gather(x, i) },
                else_branch = e () => (float[2] q) { q = Gather(x, i) }>
        }>
    }"""
    before = model(text, 11)
    after = convert_version(before, 10)
    assert equal(before, after) is None


def test_an_operator_met_before_its_birth_stays_when_the_target_knows_it(with_adapters):
    with_adapters(_early())
    text = "(float[2] x) => (float[2] y) { z = Softmax<axis=0>(x) y = Mish(z) }"
    assert ops(convert_version(model(text), 18)) == "Softmax Mish"


def test_an_operator_met_before_its_birth_is_written_out_when_the_target_does_not(with_adapters):
    with_adapters(_early())
    text = "(float[2] x) => (float[2] y) { z = Softmax<axis=0>(x) y = Mish(z) }"
    before = model(text)
    after = convert_version(before, 13)
    assert ops(after) == "Softmax Softplus Tanh Mul"
    onnx.checker.check_model(after, full_check=True)


def _early():
    @retired("Mish")
    def mish(node: Node, op: Builder) -> Result:
        """A runtime had this operator before ONNX defined it."""
        return op.Mul(node["X"], op.Tanh(op.Softplus(node["X"])))

    return mish


def test_a_function_that_makes_what_must_be_known_is_written_out():
    text = """(float[2] x, float[3] z) => (float[3] y) <int64 one = {1}> {
        s = local.pair(x, z) y = SequenceAt(s, one) }
        <opset_import: ["" : 11], domain: "local">
        pair (a, b) => (s) { s = SequenceConstruct(a, b) }"""
    before = model(text, 11, more=', "local" : 1')
    after = convert_version(before, 10)
    assert not after.functions
    assert equal(before, after) is None

# SPDX-License-Identifier: Apache-2.0
"""What is known about values that a step wrote itself."""

import pytest
from onnx import TensorProto, parser
from opshift import AdapterBug, OpshiftError, convert_version
from opshift.adapter import adapter
from opshift.author import facts, inference, registry
from opshift.author.facts import Facts
from opshift.author.facts import ScopeEnv as Env
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.opsets.types import dims_of
from opshift.verify import verify
from text_models import model, ops


def test_a_node_with_subgraphs_types_what_it_gives(with_adapters):
    seen = []

    @adapter("Add", 14, 13)
    def choose(node, op):
        """For this test."""
        a, b = node["A"], node["B"]
        inner = op.graph(
            lambda o: o.If(
                o.Less(a, b),
                then_branch=o.graph(lambda p: p.Neg(a)),
                else_branch=o.graph(lambda p: p.Neg(b)),
            )
        )
        outer = op.If(op.Less(b, a), then_branch=inner, else_branch=op.graph(lambda o: o.Neg(b)))
        return op.Neg(outer)

    @adapter("Neg", 13, 12)
    def look(node, op):
        """For this test."""
        seen.append((node["X"].elem_type, node["X"].rank_or_none))
        return op.same(node)

    with_adapters(choose, look)
    before = model("(float x, float y) => (float z) { z = Add(x, y) }", opset=14)
    after = convert_version(before, 12)
    assert ops(after) == "Less If Neg"
    assert set(seen) == {(TensorProto.FLOAT, 0)}


@pytest.mark.skipif(schemas.latest("") < 23, reason="Attention came with 23")
def test_a_name_of_the_model_is_typed_by_the_node_that_a_step_wrote_for_it():
    heads = "q_num_heads=2, kv_num_heads=2"
    before = model(
        f"(float[2,3,8] q) => (float[2,3,8] y) {{ y, k, v = Attention<{heads}>(q, q, q) }}",
        opset=23,
    )  # inference of Attention does not know k and v
    assert "Exp" not in ops(convert_version(before, 8))  # Softmax stays: its rank is known


@pytest.mark.parametrize("opset", [1, 5])
def test_types_are_known_behind_operators_that_old_schemas_infer_nothing_of(opset):
    text = (
        "(float[2,3] x) => (float[2,3] y) { a = Div(x, x) b = Relu(a) y = Clip<min=0., max=6.>(b) }"
    )
    after = convert_version(model(text, opset=opset), 13)
    assert ops(after) == "Div Relu Clip"


def test_an_old_model_is_not_typed_by_names_of_its_raised_copy():
    text = """(float[2,3] x) => (float[2,3] y) {
        a = Cast<to="INT32">(x) b = Cast<to="FLOAT">(a) c = Relu(b) d = Softmax<axis=0>(c) y = Clip<min=0.>(d)
    }"""
    assert ops(convert_version(model(text, opset=4), 13)).endswith("Reshape Clip")


def test_the_word_by_which_an_old_cast_named_a_type_is_read():
    after = convert_version(model("(int32[2] x) => (int32[2] y) { y = Neg(x) }", opset=6), 1)
    assert "Concat" in ops(after)  # which asks for the types of two products of Cast and Unsqueeze


def test_types_go_on_behind_operators_that_infer_nothing():
    graph = """(float[2] x, int32[2] z) => (float[2] y) <float[2,2] w = {1, 2, 3, 4}> {
        f = custom.Op(x, z) g = MatMul(f, w) h = Neg(g) y = custom.Op(h)
    }"""
    twice = model(graph.replace("Neg(g)", "MatMul(g, g)"), opset=9, more=', "custom" : 1')
    assert ops(convert_version(twice, 8)) == "Op MatMul MatMul Op"


@pytest.mark.parametrize("branch", ["s = custom.Op(x)", "s = Neg(s0)"])
def test_a_name_of_one_branch_is_not_typed_by_another(branch):
    """Only one of two values called `s` is typed: the other's rank stays unknown."""
    text = f"""(bool c, float[2,2,1] x, int64[3] t, int64[N] s0) => (float[2,2,1] z) {{
        z = If(c) <
            then_branch = one () => (float[2,2,1] a) {{ s = Neg(t) r = Reshape(x, s) a = ReduceSum<axes=[-1]>(r) }},
            else_branch = two () => (float[2,2,1] b) {{ {branch} q = Reshape(x, s) b = ReduceSum<axes=[-1]>(q) }}
        >
    }}"""
    before = model(text, opset=11, more=', "custom" : 1')
    after = convert_version(before, 10)
    then, other = ([n.op_type for n in a.g.node] for a in after.graph.node[0].attribute)
    assert then == ["Neg", "Reshape", "ReduceSum"]
    assert other[1:] == ["Reshape", "Transpose", "ReduceSum", "Transpose"]  # of any rank


SHADOWING = """(float[2] s, float[N,2] x) => (float[2] e, float[N,2] y) {
    e, y = Scan <num_scan_inputs = 1, body = b (float[2] c, float[2] r) => (float[2] d, float[2] o) {
        h = Slice <starts = [0], ends = [2]> (r)
        y = Mul(c, h) d = Identity(y) o = Identity(y) }>(s, x) }"""


def test_a_value_with_the_name_of_an_inner_one_keeps_its_declared_shape():
    """Inference of onnx takes the two for one value; exporters of CNTK wrote such Scans."""
    source = model(SHADOWING, 9)
    found = inference.infer_all(source, registry.default())
    assert found.types.get("y") is None
    after = convert_version(source, 13)
    assert [dim.dim_value for dim in after.graph.output[1].type.tensor_type.shape.dim] == [0, 2]
    assert verify(source, after).equal


def test_only_what_is_behind_a_value_is_looked_at(monkeypatch):
    """Two chains behind an unknown rank; only one of them meets a question about types."""
    graph = """(float[2] x) => (float[2] y, float[2] z) <float[2,2] w = {1, 2, 3, 4}> {
        f = custom.Op(x) g = MatMul(f, w) h = Softmax<axis=1>(g) y = custom.Op(h)
        p = custom.Op(x) q = Add(p, x) r = Neg(q) z = custom.Op(r)
    }"""
    seen = []
    genuine = facts.infer_node

    def watched(node, env, version):
        seen.append(node.output[0])
        return genuine(node, env, version)

    monkeypatch.setattr(facts, "infer_node", watched)
    convert_version(model(graph, opset=12, more=', "custom" : 1'), 13)
    assert seen[0] == "g"
    assert not {"p", "q", "r", "z"} & set(seen)


def test_long_chains_are_followed_without_recursion():
    nodes = " ".join(f"v{i + 1} = MatMul(v{i}, w)" for i in range(2000))
    graph = f"(float[2] x) => (float[2] y) <float[2,2] w = {{1, 2, 3, 4}}> {{ v0 = custom.Op(x) {nodes} s = Softmax<axis=1>(v2000) y = custom.Op(s) }}"
    after = convert_version(model(graph, opset=12, more=', "custom" : 1'), 13)
    assert "MatMul Flatten Softmax" in ops(after)  # it asked for a rank, and nobody knows it


def test_an_attribute_of_the_callers_is_looked_at_where_it_is_known():
    text = """<ir_version: 8, opset_import: ["" : 13, "own" : 1]>
    made (float[2,3] x) => (float[3,2] y) { y = own.turn<how="ij->ji">(x) }
    <opset_import: ["" : 13], domain: "own"> turn <how>(x) => (y) { y = Einsum<equation: string = @how>(x) }"""
    after = convert_version(parser.parse_model(text), 11)
    assert "Einsum" not in ops(after)


def test_a_negative_size_is_an_unknown_one():
    text = (
        "(float[5,6] x, float[4] v) => (float[a,b] y) <int64[1] c = {-1}> {"
        " k, i = TopK(v, c) y = Pad(x, i) }"
    )  # onnx's inference of TopK gives -1, and its inference of Slice ends the process for it
    try:
        convert_version(model(text, opset=11), 7)
    except OpshiftError as error:
        assert not isinstance(error, AdapterBug)


@pytest.mark.parametrize("start", [0, -5])
@pytest.mark.parametrize("target", [9, 12, 18])
def test_a_size_of_minus_one_is_an_unknown_size(start, target):
    """Exporters write it, runtimes read it so, and onnx ends the process where a Slice reads it."""
    text = (
        f"(float[N,3] x) => (float[a,b] y) <int64[1] s = {{{start}}}, int64[1] e = {{9}}> {{"
        " y = Slice(x, s, e) }"
    )
    before = model(text, opset=13)
    before.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    after = convert_version(before, target)
    assert after.graph.input[0] == before.graph.input[0]
    assert verify(before, after).equal


def test_a_node_with_graphs_is_inferred_once(monkeypatch):
    """Each of its outputs is asked for, and so is every graph around it: the work would grow."""
    asked = []

    def count(alone, adapters):
        asked.append(alone)
        return infer_all(alone, adapters)

    infer_all = facts.infer_all
    monkeypatch.setattr(facts, "infer_all", count)
    branches = ", ".join(
        f"{one}_branch = {one} () => (float y) {{ y = Neg(x) }}" for one in ("then", "else")
    )
    text = f"(float[2] x, bool c) => (float z) {{ z = If(c) <{branches}> }}"
    before = model(text, 11)
    document = Document(before)
    told = Facts(document, Weights(), registry.default(), lambda: before)
    top = next(document.scopes())
    found = [inference.infer_node(top.node(0), Env(told, top))["z"] for _ in range(3)]
    assert [dims_of(one) for one in found] == [(2,)] * 3
    assert len(asked) == 1
    before.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    other = Facts(Document(before), Weights(), registry.default(), lambda: before)
    changed = inference.infer_node(top.node(0), Env(other, next(other.document.scopes())))["z"]
    assert dims_of(changed) == (3,)
    assert len(asked) == 2


def test_no_type_is_inferred_if_no_adapter_needs_one(monkeypatch):
    """Forms for runtimes ask for the rank of a tensor only if it decides what they write."""

    def refuse(*_):
        raise AssertionError("inference of the whole model was called")

    monkeypatch.setattr(facts, "infer_all", refuse)
    text = "(float[N,5] x) => (float[1,A,B] y) <int64[4] p = {1, 0, 0, 2}, float l = {0}, int64[1] f = {0}, int64[1] t = {4}> { a = Neg(x) b = Clip(a, l) c = Pad(b, p) d = Slice(c, f, t, f) e = Unsqueeze(d, f) g = Squeeze(e, f) h = Unsqueeze(g, f) y = ReduceMean<axes = [1]>(h) }"
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
    assert (
        ops(convert_version(proto, 17))
        == "Neg Clip Pad Slice Unsqueeze Squeeze Unsqueeze ReduceMean"
    )

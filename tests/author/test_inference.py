# SPDX-License-Identifier: Apache-2.0
"""Facts about values that a step wrote."""

from collections.abc import Mapping

import pytest
from onnx import TensorProto, TypeProto, helper, parser
from opshift import AdapterBug, OpshiftError, convert_version
from opshift.adapter import adapter, output_types
from opshift.author import facts, inference, registry
from opshift.author.facts import Facts
from opshift.author.facts import ScopeEnv as Env
from opshift.author.traits import Fold
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.opsets.types import LARGEST_RANK, dims_of, rank_of
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
    """Both branches define `s`, and only one `s` has a type; the rank of the other is unknown."""
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
    """onnx's inference confuses the two values; exporters of CNTK wrote such Scans."""
    source = model(SHADOWING, 9)
    types = inference.infer_all(source, registry.default())
    assert types.types.get("y") is None
    assert all(graph.get("y") is None for graph in types.graphs.values())
    assert all(
        graph.get(name) for path, graph in types.graphs.items() for name in graph if name != "y"
    )
    after = convert_version(source, 13)
    assert [dim.dim_value for dim in after.graph.output[1].type.tensor_type.shape.dim] == [0, 2]
    assert verify(source, after).equal


def test_only_what_is_behind_a_value_is_looked_at(monkeypatch):
    """An unknown rank starts two chains, but only one chain has a node whose type is needed."""
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
    """Exporters write -1, runtimes accept it, and onnx ends the process if a Slice reads it."""
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
    """Inferring again for each output and each outer graph would multiply the work."""
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
    """The adapters for these nodes need no rank, so no type is inferred."""

    def refuse(*_):
        raise AssertionError("inference of the whole model was called")

    monkeypatch.setattr(facts, "infer_all", refuse)
    text = "(float[N,5] x) => (float[1,A,B] y) <int64[4] p = {1, 0, 0, 2}, float l = {0}, int64[1] f = {0}, int64[1] t = {4}> { a = Neg(x) b = Clip(a, l) c = Pad(b, p) d = Slice(c, f, t, f) e = Unsqueeze(d, f) g = Squeeze(e, f) h = Unsqueeze(g, f) y = ReduceMean<axes = [1]>(h) }"
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
    assert (
        ops(convert_version(proto, 17))
        == "Neg Clip Pad Slice Unsqueeze Squeeze Unsqueeze ReduceMean"
    )


# -- one node and one model --------------------------------------------------------------------------

INPUTS = (
    "(float[2,3] x, float16[4,2,3] h, float[N,3] n, int64[1] q, bool[2] c, int64[2,3] i,"
    " float[3,4] w, double[2] v) => (float[2] out) <int64[1] m = {-1}, int64[1] zero = {0}>"
)
DOMAINS = ', "custom" : 1, "com.microsoft" : 1, "ai.onnx.ml" : 3'


def env_of(nodes: str, opset: int, *rules: Fold) -> Env:
    """The environment of a model's graph, in which more rules hold."""
    proto = model(f"{INPUTS} {{ {nodes} }}", opset, more=DOMAINS)
    branch = registry.default().branch()
    for rule in rules:
        branch.add(rule)
    document = Document(proto)
    return Env(Facts(document, Weights(), branch, lambda: proto), next(document.scopes()))


def texts(types: Mapping[str, TypeProto | None]) -> dict[str, str]:
    """Types as texts, with ? for an unknown length and without a list for an unknown rank."""
    shown = {}
    for name, kind in types.items():
        if kind is None:
            continue
        element = schemas.element_name(kind.tensor_type.elem_type) or ""
        lengths = [str(dim) if isinstance(dim, int) else "?" for dim in dims_of(kind)]
        shown[name] = element if rank_of(kind) is None else f"{element}[{','.join(lengths)}]"
    return shown


@pytest.mark.parametrize(
    ("opset", "nodes", "types"),
    [
        (13, "y = Neg(x)", {"y": "float[2,3]"}),
        (13, "y = Neg(n)", {"y": "float[?,3]"}),
        # the schemas of the first opset infer no shape
        (1, "y = Div(x, x)", {"y": "float"}),
        (1, 'y = Cast<to = "INT32">(x)', {"y": "int32[?,?]"}),
        # rules: of the rank, of wrong lengths, of a rank that no schema gives
        (13, "y = ReduceSum(x, q)", {"y": "float[?,?]"}),
        (13, "y = Compress(x, c)", {"y": "float[?]"}),
        (13, "y = ai.onnx.ml.Scaler(i)", {"y": "float[2,3]"}),
        (13, "y = LayerNormalization(x, w)", {"y": "float[?,?]"}),
        # documents of another vendor: only types, and ranks by the document or by a rule
        (13, "y = com.microsoft.FusedMatMul(x, w)", {"y": "float[?,?]"}),
        (13, "y, k, j = com.microsoft.Unique(c)", {"y": "bool", "k": "int64", "j": "int64"}),
        (13, "y = com.microsoft.Gelu(x)", {"y": "float[2,3]"}),
        # unknown inputs, an unknown operator, a node that inference rejects
        (13, "f = custom.Op(x) y = MatMul(f, w)", {"y": "float"}),
        (13, "f = custom.Op(x) y = Neg(f)", {"y": ""}),
        (13, "y = custom.Op(x)", {}),
        (13, "y = MatMul(x, x)", {}),
        # integers of a Constant, which its schema does not allow yet
        (8, "y = Constant<value = int64[1] {3}>()", {"y": "int64[1]"}),
    ],
)  # fmt: skip
def test_a_node_has_the_types_of_its_schema_and_of_the_rules(opset, nodes, types):
    env = env_of(nodes, opset)
    last = env.scope.node(len(env.scope.proto.node) - 1)
    assert texts(inference.infer_node(last, env)) == types


RULE = ("custom", "F", "int64", (2, 0))


@pytest.mark.parametrize(
    ("rank", "inputs", "outputs", "types"),
    [
        (None, "x h", "p q", {"p": "int64", "q": "float"}),
        (2, "x h", "p q", {"p": "int64[?,?]", "q": "float"}),
        # the first type that is known, and the largest rank of two
        ((0, 1), "x h v", "p q", {"p": "int64[?,?,?]", "q": "double"}),
        ((0, 1), "u x h", "p q", {"p": "int64", "q": "float16"}),
        ((0, 1), "u x u", "p q", {"p": "int64"}),
        # a vector may be a matrix, if it is multiplied; the rank of one value is its rank
        ((0, 1), "x v", "p q", {"p": "int64", "q": "float"}),
        ((1,), "x v", "p q", {"p": "int64[?]", "q": "float"}),
        ((0, 1), "x", "p q", {"p": "int64", "q": "float"}),
        ((0, 1), "x  v", "p q", {"p": "int64", "q": "double"}),
        # outputs that the node does not have
        (2, "x", "p", {"p": "int64[?,?]"}),
        (2, "x", " q", {"q": "float"}),
    ],
)
def test_a_rule_for_an_operator_without_a_schema_gives_types_and_one_rank(
    rank, inputs, outputs, types
):
    env = env_of("u = custom.Op(x)", 13, output_types(*RULE, rank=rank))
    node = helper.make_node("F", inputs.split(" "), outputs.split(" "), domain="custom")
    assert texts(inference.infer_node(node, env)) == types


def test_the_type_of_a_variadic_input_or_output_is_not_that_of_one_value():
    env = env_of("y = Sum(x, n) a, b = Split<axis = 0>(x)", 1)
    for node in env.scope.proto.node:
        schema = env.layout_of(node, None)
        assert inference._element_types(node, schema, inference._input_types(node, env)) == {}


def test_an_input_that_is_left_out_has_no_type():
    env = env_of("y = Neg(x)", 13)
    node = helper.make_node("Add", ["", "h"], ["y"])
    schema = env.layout_of(node, None)
    assert inference._element_types(node, schema, inference._input_types(node, env)) == {
        "y": TensorProto.FLOAT16
    }


@pytest.mark.parametrize(
    ("node", "types"),
    [
        ('y = Cast<to = "DOUBLE">(x)', {"y": TensorProto.DOUBLE}),
        ('y = Cast<to = "NOTHING">(x)', {"y": TensorProto.UNDEFINED}),
        ("y = Cast<to = 1>(x)", {}),
        ('y = ai.onnx.ml.LabelEncoder<default_string = "FLOAT">(i)', {}),
    ],
)
def test_only_a_word_for_a_type_gives_the_type_of_an_output(node, types):
    env = env_of(node, 13)
    (node,) = env.scope.proto.node
    schema = env.layout_of(node, None)
    assert inference._element_types(node, schema, inference._input_types(node, env)) == types


def test_inference_reads_only_constants_that_may_be_sizes(monkeypatch):
    read = []
    infer = inference.infer_node_outputs
    monkeypatch.setattr(
        inference, "infer_node_outputs", lambda *args: read.append({*args[3]}) or infer(*args)
    )
    constants = f", int64[1] size = {{6}}, float[17] much = {{{', '.join(['1'] * 17)}}}>"
    for node in ("y = Reshape(x, size)", "y = Add(much, much)"):
        proto = model(f"{INPUTS[:-1]}{constants} {{ {node} }}", 13, more=DOMAINS)
        document = Document(proto)
        told = Facts(document, Weights(), registry.default(), lambda proto=proto: proto)
        inference.infer_node(proto.graph.node[0], Env(told, document.main))
    assert read == [{"size"}, set()]


def test_a_node_with_inputs_that_inference_rejects_has_no_type_by_its_constant():
    class Computing(Env):
        def tensor(self, name):
            return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2])

    env = env_of("y = MatMul(x, x)", 13)
    assert inference.infer_node(env.scope.node(0), Computing(env.facts, env.scope)) == {}


def test_each_unknown_length_has_the_symbol_of_its_place():
    env = env_of("y = NonZero(x)", 13)
    first, unknown = inference.infer_node(env.scope.node(0), env)["y"].tensor_type.shape.dim
    assert (first.dim_value, unknown.dim_param) == (2, env.length_symbol("y", 1))


def test_an_output_without_a_name_has_no_type():
    env = env_of("y = Neg(x)", 13)
    node = helper.make_node("Unique", ["c", ""], ["", "k"], domain="com.microsoft")
    assert {name for name, text in texts(inference.infer_node(node, env)).items() if text} == {"k"}


@pytest.mark.parametrize(
    ("opset", "nodes", "message", "without_lengths"),
    [
        (13, "y = Neg(x)", None, None),
        (13, "y = MatMul(x, x)", "Incompatible dimensions for matrix multiplication", None),
        (13, "y = Concat<axis = 5>(x, x)", "axis", "axis"),
        (11, "y, k = TopK(x, m)", "axis 1 of 'k' would have the size -1", None),
        (11, "y, k = TopK(x, zero)", None, None),  # a size may be 0
        (13, "y = custom.Op(x)", None, None),
        (13, "y = com.microsoft.Gelu()", None, None),  # documents of a vendor reject no node
        (13, "y = If(c) <then_branch = t () => (float a) { a = Neg(x) },"
         " else_branch = e () => (float b) { b = Neg(x) }>", None, None),
    ],
)  # fmt: skip
def test_inference_objects_to_a_node_with_or_without_the_lengths(
    opset, nodes, message, without_lengths
):
    env = env_of(nodes, opset)
    for expected, lengths in ((message, True), (without_lengths, False)):
        objection = inference.objection(env.scope.node(0), env, lengths=lengths)
        if expected is None:
            assert objection is None
        else:
            assert objection is not None
            assert expected in objection
            assert "\n" not in objection


def test_a_node_with_graphs_reads_the_types_of_the_values_around_it():
    branches = ", ".join(
        f"{side}_branch = {side} () => (float[a] {side}_y, float[a,b] {side}_z)"
        f" {{ {side}_y = Neg(x) {side}_z = MatMul(u, w) }}"
        for side in ("then", "else")
    )
    env = env_of(f"u = custom.Op(x) y, z = If(c) <{branches}>", 13)
    types = texts(inference.infer_alone(env.scope.node(1), env, {"": 13, "custom": 1}))
    assert types == {"y": "float[2,3]", "z": "float[?,?]"}


def test_a_rank_that_no_tensor_has_is_not_given():
    kind = TypeProto()
    for rank in (LARGEST_RANK + 1, LARGEST_RANK):
        assert rank_of(kind) is None
        inference.give_rank(kind.tensor_type, rank)
    assert rank_of(kind) == LARGEST_RANK


def known(nodes: str, declared: str = "", opset: int = 13) -> inference.Known:
    text = f"{INPUTS[:-1]}{declared}> {{ {nodes} out = Identity(x) }}"
    return inference.infer_all(model(text, opset, more=DOMAINS), registry.default())


def test_the_rank_by_a_rule_counts_for_the_nodes_behind_it():
    """Each pass over the model infers the nodes after one more rule."""
    nodes = "a = ReduceSum(x, q) b = Neg(a) d = ReduceSum(b, q) e = Neg(d)"
    types = texts(known(nodes).types)
    assert {name: types[name] for name in "abde"} == dict.fromkeys("abde", "float[?,?]")


def test_a_declared_rank_counts_only_where_inference_finds_none():
    without = known("r = custom.Op(x) y = Neg(r) s = Shape(r) z = Neg(x)", ", float[9,9] z")
    assert (without.assumed, without.counted) == ({}, {})
    assert texts(without.types)["z"] == "float[2,3]"
    assert texts(without.types)["s"] == "int64[?]"
    nodes = "r = custom.Op(x) y = Neg(r) p = MatMul(w, r) s = Shape(r) z = Neg(x)"
    declared = known(nodes, ", float[a,b] r")
    assert declared.assumed == {"r": [()], "y": [()], "p": [()]}
    assert declared.counted == {"s": [()]}
    types = texts(declared.types)
    assert (types["y"], types["s"], types["z"]) == ("float[?,?]", "int64[2]", "float[2,3]")


def test_a_model_that_inference_rejects_has_no_types():
    """It imports no operators."""
    proto = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)
    del proto.opset_import[:]
    assert inference.infer_all(proto, registry.default()) == ({}, {}, {}, {})


def test_a_function_with_the_name_of_an_operator_has_no_rank_by_the_rule_of_the_operator():
    text = (
        "(float[2,3] x, int64[1] q) => (float[a] y) { r = custom.Squeeze(x, q) y = Neg(r) }"
        ' <domain: "custom", opset_import: ["" : 13]> Squeeze (a, b) => (c) { c = Unsqueeze(a, b) }'
    )
    types = inference.infer_all(model(text, 13, more=DOMAINS), registry.default()).types
    assert texts(types)["r"] == "float"


CARRIED = (
    "y = Loop(q, , x) <body = b (int64 at, bool more, float had) => (bool on, float has)"
    " { on = Identity(more) has = Neg(had) }>"
)


def test_the_values_of_a_loop_have_the_shape_of_the_first_one():
    types = known(CARRIED)
    assert texts(types.types)["y"] == "float[2,3]"
    (inner,) = (graph for path, graph in types.graphs.items() if path)
    assert texts(inner)["has"] == "float[2,3]"


@pytest.mark.parametrize(("declared", "runs"), [("float[2,3]", 2), ("float", 4)])
def test_a_right_declaration_of_a_carried_value_is_confirmed_at_once(declared, runs, monkeypatch):
    inferred = []
    infer = inference.corrected.infer
    monkeypatch.setattr(
        inference.corrected, "infer", lambda *args: inferred.append(args) or infer(*args)
    )
    known(CARRIED.replace("float had", f"{declared} had"))
    assert len(inferred) == runs

# SPDX-License-Identifier: Apache-2.0
"""The database of contrib operators agrees with the schemas of onnxruntime."""

import pytest
from onnx import ModelProto, parser
from opshift import Refused, convert_version, testing
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets import changelog, schemas
from opshift.opsets.layouts import layout
from opshift.opsets.types import rank_of
from opshift.verify import oracle
from vendor_judge import on_onnxruntime

onnxruntime = pytest.importorskip("onnxruntime")
vendor_database = pytest.importorskip("tools.corpus.runtimes.vendor_database")
KEYS = [
    (domain, op)
    for domain in vendor_database.DOMAINS
    for op in changelog.default().operators(domain)
]
SCHEMAS = {
    (domain, one.name): one
    for domain in vendor_database.DOMAINS
    for one in vendor_database.stated(domain)
}


def described(params):
    """Removes from parameters the properties that the database does not store."""
    return [
        (param.name, param.types, param.variable, param.optional, param.variadic)
        for param in params
    ]


@pytest.mark.parametrize("key", KEYS, ids=[".".join(key) for key in KEYS])
def test_the_database_says_what_the_runtime_says(key):
    known, own = layout(*key, 1), SCHEMAS.get(key)
    if own is None:
        pytest.skip(f"this onnxruntime has no {key[1]}")
    page = changelog.default().history(*key)[0].details.page
    if f"/v{onnxruntime.__version__}/" not in page:  # the vendor may have added to the operator
        both = zip(known.inputs, own.inputs, strict=False)
        assert [a.optional for a, _ in both] == [b.optional for _, b in both]
        return
    assert described(known.inputs) == described(own.inputs)
    assert described(known.outputs) == described(own.outputs)
    assert known.attributes == own.attributes


def test_every_operator_that_an_adapter_replaces_is_in_the_database():
    assert {op for _, op in KEYS} >= vendor_database.replaced()


def test_a_node_with_more_than_the_database_states_is_legal():
    """onnxruntime adds inputs and attributes to an operator without raising its version."""
    text = CHAIN.replace("FusedMatMul(x, w)", "FusedMatMul<later = 1>(x, w, w)")
    assert "later" in str(convert_version(parser.parse_model(text), 9))
    assert not schemas.known_domains() & {*vendor_database.DOMAINS}


UNKNOWN = {
    "BiasGelu<later = 1>(x, b)": "BiasGelu has 'later', which",
    "BiasGelu(x, b, b)": "BiasGelu has 'input 3', which",
    "QLinearConv(c, s, z, c, s, z, s, z, , b)": "QLinearConv has 'input 10', which",
}


@pytest.mark.parametrize("call", UNKNOWN)
def test_an_adapter_refuses_what_the_database_does_not_state(call):
    graph = "(float[2,3] x, float[3] b, uint8[1,1,2,2] c, float s, uint8 z) => (float y)"
    header = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>'
    model = parser.parse_model(f"{header} g {graph} {{ y = com.microsoft.{call} }}")
    with pytest.raises(Refused, match=UNKNOWN[call]):
        convert_version(model, 17, domains=["ai.onnx"])


QUANTIZED = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[2] x) => (float[2] y) <float s = {0.1}, uint8 z = {3}> {
        q = QuantizeLinear(x, s, z)
        r = com.microsoft.QLinearAdd(q, s, z, q, s, z, s, z)
        y = DequantizeLinear(r, s, z) }"""


@pytest.mark.parametrize("target", [20, 13, 10])
def test_quantized_models_are_typed_behind_contrib_operators(target):
    after = convert_version(parser.parse_model(QUANTIZED), target)
    assert [node.op_type for node in after.graph.node].count("QLinearAdd") == 1


@pytest.mark.parametrize("target", [20, 13])
def test_a_zero_point_has_the_type_of_its_tensor(target):
    """No schema describes this operator, so the type follows from the other inputs."""
    text = QUANTIZED.replace("QLinearAdd", "Unheard")
    after = convert_version(parser.parse_model(text), target)
    assert [node.op_type for node in after.graph.node].count("Unheard") == 1


EARLY = """<ir_version: 7, opset_import: ["": 13, "com.microsoft": 1]>
    g (float[2,4] x, float[4] s, float[4,4] w) => (float[2,4] y) {
        n = OP<axis = -1>(x, s)
        r = com.microsoft.FusedMatMul<alpha = 0.5>(n, w)
        y = com.microsoft.FastGelu(r) }"""


@pytest.mark.parametrize("op", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_an_operator_that_onnx_does_not_know_yet_hides_no_types(op):
    """onnxruntime's optimizer writes this operator below opset 17, before contrib operators."""
    before = parser.parse_model(EARLY.replace("OP", op))
    for target in (None, 21, 11):
        after = convert_version(before, target, domains=["ai.onnx"])
        assert not [node.op_type for node in after.graph.node if node.domain]


RANKED = {key for key in KEYS if any(output.rank for output in layout(*key, 1).outputs)}
EXAMPLES = [
    (adapter, example)
    for adapter, example in testing.examples("opshift_adapters")
    if any((adapter.domain, op) in RANKED for op in adapter.ops)
    and example.refuses is None
    and example.invalid is None
]


def ranks_of(model):
    """Returns the known ranks of the values of a model whose outputs declare no shape."""
    bare = ModelProto.FromString(model.SerializeToString())
    for value in bare.graph.output:
        value.type.tensor_type.ClearField("shape")
    facts = Facts(Document(bare, "opshift_"), Weights(), registry.default(), lambda: bare)
    main = facts.document.main
    return {node.output[0]: rank_of(facts.type(main, node.output[0])) for node in bare.graph.node}


@pytest.mark.parametrize(
    ("adapter", "example"),
    EXAMPLES,
    ids=[f"{a.ops[0]} {a.start} {e.title}" for a, e in EXAMPLES],
)
def test_a_rank_is_that_of_what_the_runtime_computes(adapter, example):
    model = testing.example_model(adapter, example)
    found = ranks_of(model)
    told = [n for n in model.graph.node if (n.domain, n.op_type) in RANKED and found[n.output[0]]]
    for node in told:
        if node.output[0] not in {value.name for value in model.graph.output}:
            model.graph.output.add(name=node.output[0])
    inputs = oracle.make_inputs(model, overrides=dict(example.inputs))
    if any(array.dtype.kind == "V" for array in inputs.values()):
        pytest.skip("onnxruntime's Python takes no such type")
    names = [value.name for value in model.graph.output]
    computed = dict(zip(names, on_onnxruntime()(model, inputs), strict=True))
    for node in told:
        assert computed[node.output[0]].ndim == found[node.output[0]], node.op_type


GRAPHS = [  # one for each form of a rule
    "(float[2,3] x, float[3] b) => (float y) { y = com.microsoft.BiasGelu(x, b) }",
    "(float[2,3,4] a, float[4,5] b) => (float y) { y = com.microsoft.FusedMatMul(a, b) }",
    "(float s, uint8 z, uint8[2,3] a, uint8[2,3] b) => (uint8 y) "
    "{ y = com.microsoft.QLinearConcat<axis=0>(s, z, a, s, z, b, s, z) }",
    "(uint8[2,3] a, uint8[3] b, float s, uint8 z) => (uint8 y) "
    "{ y = com.microsoft.QLinearAdd(a, s, z, b, s, z, s, z) }",
    "(int32[2,3] i, float[9,4] w, float[5,4] p, float[4] g) => (float y) "
    "{ y, n = com.microsoft.EmbedLayerNormalization(i, , w, p, , g, g) }",
    "(float[2,3,8] q, float[2,5,8] k) => (float y) "
    "{ y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, k) }",
]


@pytest.mark.parametrize(
    "graph", GRAPHS, ids=lambda text: text.split("com.microsoft.")[1].split("(")[0]
)
def test_the_rank_of_a_rule_is_that_of_what_the_runtime_computes(graph):
    header = '<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>'
    model = parser.parse_model(f"{header} g {graph}")
    (found,) = ranks_of(model).values()
    (computed,) = on_onnxruntime()(model, oracle.make_inputs(model))
    assert computed.ndim == found


def test_ranks_are_known_behind_operators_that_onnx_does_not_know():
    model = parser.parse_model(EARLY.replace("OP", "LayerNormalization"))
    assert ranks_of(model) == {"n": 2, "r": 2, "y": 2}


CHAIN = """<ir_version: 7, opset_import: ["": 13, "com.microsoft": 1]>
    g (float[2,3,4] x, float[4,4] w) => (float[2,3,4] y) {
        m = com.microsoft.FusedMatMul(x, w)
        s = Softmax(m)
        y = Relu(s) }"""


def test_a_known_rank_keeps_a_result_short():
    after = convert_version(parser.parse_model(CHAIN), 9)
    assert [node.op_type for node in after.graph.node] == ["FusedMatMul", "Softmax", "Relu"]

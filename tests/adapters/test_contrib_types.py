# SPDX-License-Identifier: Apache-2.0
"""The table of types behind contrib operators says what the schemas of onnxruntime say."""

import pytest
from onnx import ModelProto, parser
from opshift import convert_version, testing
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.author.traits import OutputTypes
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets.types import rank_of
from opshift.verify import oracle
from vendor_judge import on_onnxruntime

state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")

RULES = sorted(registry.default().rules(OutputTypes).items(), key=lambda one: one[0])
SCHEMAS = {(one.domain, one.name): one for one in state.get_all_operator_schema()}


def variable(params, i):
    return params[min(i, len(params) - 1)].typeStr


@pytest.mark.parametrize(("key", "rule"), RULES, ids=[f"{d}.{op}" for (d, op), _ in RULES])
def test_the_table_says_what_the_runtime_says(key, rule):
    schema = SCHEMAS.get(key)
    if schema is None:
        pytest.skip(f"this onnxruntime has no {key[1]}")
    for i, told in enumerate(rule.outputs):
        output = variable(schema.outputs, i)
        if isinstance(told, str):
            (only,) = next(p.types for p in schema.outputs if p.typeStr == output)
            assert only in (told, f"tensor({told})")
        else:
            assert {variable(schema.inputs, at) for at in told} == {output}


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
    """Nobody describes this operator, so only the other inputs tell."""
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
    """onnxruntime's optimizer writes these below opset 17, and contrib operators behind them."""
    before = parser.parse_model(EARLY.replace("OP", op))
    for target in (None, 21, 11):
        after = convert_version(before, target, domains=["ai.onnx"])
        assert not [node.op_type for node in after.graph.node if node.domain]


RANKED = {key: rule for key, rule in RULES if rule.rank is not None}
EXAMPLES = [
    (adapter, example)
    for adapter, example in testing.examples("opshift_adapters")
    if any((adapter.domain, op) in RANKED for op in adapter.ops)
    and example.refuses is None
    and example.invalid is None
]


def ranks_of(model):
    """The ranks that are known of the values of a model, without what its outputs declare."""
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

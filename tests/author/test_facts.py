# SPDX-License-Identifier: Apache-2.0
"""Which facts about values count, and which declarations a report names."""

import onnx.parser
import pytest
from onnx import helper
from opshift import convert_version
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.convert.cheapest_way import convert
from opshift.convert.request import Request
from opshift.model import weights
from opshift.model.document import Document
from opshift.opsets.types import dims_of
from text_models import model, ops

CUSTOM = ', "custom" : 1'


def facts_of(m: onnx.ModelProto) -> Facts:
    skeleton, store = weights.carve_model(m)
    return Facts(Document(skeleton), store, registry.default(), lambda: skeleton)


def dims(facts: Facts, name: str, depth: int = 0) -> tuple:
    scope = facts.document.roots[0].scopes[depth]
    return dims_of(facts.type(scope, name))


def declare(m: onnx.ModelProto, name: str, shape: list, kind: int = 1) -> onnx.ModelProto:
    m.graph.value_info.append(helper.make_tensor_value_info(name, kind, shape))
    return m


def report(m: onnx.ModelProto, target: int) -> tuple[onnx.ModelProto, str]:
    skeleton, store, told = convert(lambda: weights.carve_model(m), Request(target))
    weights.fill(skeleton, store)
    return skeleton, "\n".join(told.notes)


def test_a_symbol_of_an_input_counts_before_a_declared_number():
    m = model("(float[N,4] x) => (float[N,4] y) { h = Relu(x) y = Neg(h) }", opset=13)
    assert dims(facts_of(declare(m, "h", [8, 4])), "h") == ("N", 4)


def test_a_declared_number_is_no_length_where_inference_knows_none():
    m = model(
        "(float[4] x) => (float[a,b] y) { h = custom.Op(x) y = Neg(h) }", opset=13, more=CUSTOM
    )
    facts = facts_of(declare(m, "h", [8, 4]))
    assert dims(facts, "h") == (None, None)
    assert facts.is_assumed(facts.document.main, "y")
    assert facts.claimed(facts.document.main, "h", (None, None)) == (8, 4)


def test_a_declared_number_is_never_claimed_for_a_symbol_of_an_input():
    m = model("(float[N,4] x) => (float[N,4] y) { h = Relu(x) y = Neg(h) }", opset=13)
    facts = facts_of(declare(m, "h", [8, 4]))
    assert facts.claimed(facts.document.main, "h", ("N", None)) == ("N", 4)


def test_a_shape_that_callers_may_replace_is_not_known_to_inference():
    text = "(float[6] x, int64[2] s) => (float[a,b] y) <int64[2] s = {2, 3}> { y = Reshape(x, s) }"
    facts = facts_of(model(text, opset=13))
    assert not any(isinstance(d, int) for d in dims(facts, "y"))


LOOP = """(float[N,4] x, float[4,4] w, int64 n, bool c) => (float y, float z) {{
    y, z = Loop(n, c, x, w) <body = b (int64 i, bool k, float h, float v) => (bool l, float p, float q) {{
        l = Identity(k) p = {op} q = Identity(v) }}> }}"""


@pytest.mark.parametrize(
    ("op", "found"),
    [("MatMul(h, v)", ("N", 4)), ("Concat<axis=0>(h, v)", (None, 4)), ("Neg(h)", ("N", 4))],
)
def test_what_a_loop_carries_is_known_by_induction(op, found):
    m = model(LOOP.format(op=op), opset=13)
    for graph in (m.graph, m.graph.node[0].attribute[0].g):
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")
    for value in m.graph.node[0].attribute[0].g.input[2:]:
        value.type.tensor_type.ClearField("shape")
    facts = facts_of(m)
    known = [None if isinstance(d, str) and d != "N" else d for d in dims(facts, "h", 1)]
    assert tuple(known) == found
    assert not facts.is_assumed(facts.document.roots[0].scopes[1], "h")
    assert dims(facts, "z") == (4, 4)


def test_what_is_carried_through_a_long_chain_of_loops_is_known():
    loops = "".join(
        f"""x{i + 1} = Loop(n, c, x{i}) <body = b{i} (int64 i{i}, bool k{i}, float[N,4] h{i})
            => (bool l{i}, float[N,4] p{i}) {{ l{i} = Identity(k{i}) p{i} = Neg(h{i}) }}> """
        for i in range(9)
    )
    m = model(f"(float[N,4] x0, int64 n, bool c) => (float[N,4] x9) {{ {loops} }}", opset=13)
    m.graph.output[0].type.tensor_type.ClearField("shape")
    facts = facts_of(m)
    assert dims(facts, "x9") == ("N", 4)
    assert not facts.is_assumed(facts.document.roots[0].scopes[0], "x9")


def test_a_wrong_declaration_of_what_a_loop_carries_is_not_believed():
    text = LOOP.format(op="Concat<axis=0>(h, v)").replace(
        "float h, float v", "float[N,4] h, float[4,4] v"
    )
    found = dims(facts_of(model(text, opset=13)), "h", 1)
    assert found is not None
    assert found[0] != "N"
    assert found[1] == 4


def test_what_a_loop_carries_may_have_the_name_of_a_value_around_it():
    m = model(LOOP.format(op="Neg(x)").replace("float h", "float x"), opset=13)
    body = m.graph.node[0].attribute[0].g
    for value in (*m.graph.output, *body.output, *body.input[2:]):
        value.type.tensor_type.ClearField("shape")
    facts = facts_of(m)
    assert dims(facts, "x", 1) == dims(facts, "y") == ("N", 4)


def test_the_report_names_a_rank_that_is_only_declared():
    text = "(float[4] x) => (float[a,b] y) { h = custom.Op(x) y = Softmax<axis=1>(h) }"
    m = declare(model(text, opset=12, more=CUSTOM), "h", ["a", "b"])
    after, told = report(m, 13)
    assert ops(after) == "Op Softmax"
    assert "the rank of 'h' comes from a declaration" in told


def test_the_report_names_no_rank_that_inference_confirms():
    text = "(float[2,4] x) => (float[a,b] y) { h = Relu(x) y = Softmax<axis=1>(h) }"
    assert "declared" not in report(declare(model(text, opset=12), "h", [2, 4]), 13)[1]


def test_a_weight_has_no_assumed_rank():
    """Exporters declare weights as they declare what nodes compute."""
    text = "(float[2,4] x) => (float[2,4] y) <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w) }"
    facts = facts_of(declare(model(text, opset=17), "w", [4]))
    assert not facts.inferred.assumed
    assert not facts.is_assumed(facts.document.main, "w")


def test_a_wrong_declaration_is_corrected_in_the_result():
    text = (
        "(float[N,4] x) => (float[N] y) <int64 i = {-1}> { h = Relu(x) y = Gather<axis=1>(h, i) }"
    )
    m = declare(model(text, opset=11), "h", [8, 4])
    after, told = report(m, 10)
    (kept,) = [value for value in after.graph.value_info if value.name == "h"]
    assert dims_of(kept.type) == ("N", 4)
    assert "the declared shapes of 1 values contradict the inputs and were corrected" in told


def test_the_integers_of_a_constant_of_opset_8_have_a_type():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 8, "own": 1]>
        g (float[3,1] x) => (float[2,3,4] y) { y = own.Body(x) }
        <domain: "own", opset_import: ["": 8]>
        Body (x) => (y) { s = Constant<value = int64[3] {2,3,4}>() y = Expand(x, s) }"""
    )
    assert [node.op_type for node in convert_version(model, 7).graph.node] == ["Unsqueeze", "Tile"]

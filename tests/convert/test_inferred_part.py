# SPDX-License-Identifier: Apache-2.0
"""An error that an unknown operator hides from inference is an error of the source model."""

from __future__ import annotations

import itertools

import pytest
from onnx import ModelProto, shape_inference
from opshift import check, convert, convert_version
from opshift.author import registry
from opshift.convert.legal import inferred_part
from text_models import model, ops

ADAPTERS = registry.default()
VENDOR = ', "com.microsoft" : 1, "ai.onnx.ml" : 1'
# a node of an operator that onnx lacks, which a conversion to opset 9 replaces
REPLACED = {
    "a vendor's operator": ("h = com.microsoft.FastGelu(x)", 12, {"domains": ["ai.onnx"]}),
    "a retired operator": ("h = Scale<scale = 2.0>(x)", 5, {}),
    "a retired operator without inputs": ("h = ConstantFill<shape = [2]>()", 5, {}),
}
# a node that inference rejects
REJECTED = {
    "sizes": ("y = MatMul(x, w)", "float[N]"),
    "ranks": ("y = Transpose<perm = [2, 1, 0]>(x)", "float[N, M, K]"),
    "types": ("y = Not(x)", "bool[2, 3]"),
}


def outcome(proto: ModelProto, **options: object) -> tuple[list[str], list[str]]:
    """Returns the operators of a result, sorted, and the notes of the report."""
    result = convert(proto, 9, **options)
    return sorted(ops(result.model).split()), sorted(result.report.notes)


@pytest.mark.parametrize("wrong", REJECTED)
@pytest.mark.parametrize("replaced", REPLACED)
def test_the_order_of_two_independent_nodes_does_not_decide(replaced: str, wrong: str) -> None:
    (first, opset, options), (second, kind) = REPLACED[replaced], REJECTED[wrong]
    ways = [
        model(f"(float[2,3] x, float[2,5] w) => (float[2,3] h, {kind} y) {{ {' '.join(nodes)} }}",
              opset, ir=7, more=VENDOR)
        for nodes in itertools.permutations((first, second))
    ]  # fmt: skip
    shape_inference.infer_shapes(ways[0], strict_mode=True)  # hides the error
    first_outcome, second_outcome = (outcome(proto, **options) for proto in ways)
    assert first_outcome == second_outcome
    assert any("as it did before the conversion" in note for note in first_outcome[1])


def test_a_domain_that_is_not_imported_hides_no_error_either() -> None:
    proto = model("(float x) => (float[2] h) { h = ConstantFill<shape = [2]>() }", 5, ir=4)
    proto.graph.node.add(op_type="ZipMap", domain="ai.onnx.ml", input=["x"], output=["z"])
    assert "ConstantFill" not in ops(convert_version(proto, 9))
    assert convert_version(proto, 9, check="full") == convert_version(proto, 9)


SOUND = {
    "a reader of an unknown value": "h = com.microsoft.Gelu(x) s = SequenceEmpty() y = SequenceInsert(s, h)",
    "a reader in a branch": """
        h = com.microsoft.Gelu(x)
        y = If (c) <then_branch = t () => (a) { s = SequenceEmpty() a = SequenceInsert(s, h) },
                    else_branch = e () => (b) { b = SequenceEmpty() }>""",
}


@pytest.mark.parametrize("kind", SOUND)
def test_nodes_that_read_an_unknown_value_are_not_judged(kind: str) -> None:
    proto = model(f"(bool c, float[2] x) => (y) {{ {SOUND[kind]} r = Neg(x) }}", 13, more=VENDOR)
    assert inferred_part.hidden(proto, ADAPTERS) is None
    assert [node.op_type for node in inferred_part.inferred_part(proto).graph.node][-1] == "Neg"
    assert "Gelu" not in str(inferred_part.inferred_part(proto).graph)


FUNCTIONS = """(float[2,3] x) => (float[3,2] y) { a = f.Outer(x) b = f.Plain(x) y = Transpose(x) }
    <domain: "f", opset_import: ["" : 13, "f" : 1]> Outer (v) => (w) { w = f.Inner(v) }
    <domain: "f", opset_import: ["" : 13, "acme" : 1]> Inner (v) => (w) { w = acme.Run(v) }
    <domain: "f", opset_import: ["" : 13]> Plain (v) => (w) { w = Neg(v) }"""


def test_calls_of_functions_with_unknown_operators_are_not_judged() -> None:
    proto = model(FUNCTIONS, 13, more=', "f" : 1')
    assert ops(inferred_part.inferred_part(proto)) == "Plain Transpose"


def test_a_model_of_known_operators_is_judged_as_a_whole() -> None:
    proto = model("(float[2] x) => (float[2] y) { h = Neg(x) y = Abs(h) }")
    assert inferred_part.inferred_part(proto) is proto
    assert inferred_part.hidden(model("(float[2] x) => (y) { y = Not(x) }"), ADAPTERS) is None


def test_an_error_is_found_next_to_an_unknown_operator() -> None:
    proto = model("(float[2] x) => (y) { h = com.microsoft.Gelu(x) y = Not(x) }", more=VENDOR)
    assert "Not" in (inferred_part.types(proto, ADAPTERS) or "")


def test_check_finds_an_error_in_any_order() -> None:
    for nodes in itertools.permutations(("h = com.microsoft.Gelu(x)", "y = MatMul(x, w)")):
        text = f"(float[2,3] x, float[2,5] w) => (float[2,3] h, float[N] y) {{ {' '.join(nodes)} }}"
        assert [finding.rule for finding in check(model(text, more=VENDOR)).found] == ["CHECKER"]

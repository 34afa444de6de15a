# SPDX-License-Identifier: Apache-2.0
"""The formulas of `--modernize` find their examples, and invert the decompositions of adapters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from onnx import AttributeProto, ModelProto, helper
from opshift import convert_version, testing
from opshift.author import formula, registry
from opshift.author.example import Example
from opshift.author.modern_rules import Modern
from opshift.author.verdicts import Adapter, Mirror
from opshift.convert.api import convert_with_report
from opshift.opsets import schemas
from opshift.testing.modern_examples import modern_model
from opshift.verify import oracle

import examples

RULES = testing.modern_rules("opshift_adapters")
ULP = 8  # two conversions, each of which may round in another order

# The titles of the examples of decompositions whose operator does not come back, and why.
STAYS = {
    "Attention": {
        "the scores are cast, or given out by other nodes": [
            "raw scores", "capped scores", "masked scores", "chances", "half",
        ],
        "the lengths or the mask are not known to fit": [
            "mask of one column", "unknown sizes", "unknown rank",
        ],
    },
    "Celu": {
        "Elu says it in one node": ["default"],
        "this formula is written for negative or for wide numbers only": [
            "negative alpha", "double",
        ],
    },
    "DequantizeLinear": {
        "the nodes compute what a pair of operators computes, and a formula is one operator": [
            "of codes that nothing else reads", "of codes without a zero point",
            "of codes around a computed point", "of codes that are an output",
        ],
        "a product alone is no quantization": [
            "constant zero point of zero", "int32 and its zero point", "int32", "per last axis",
        ],
        "the scales of channels stand in another shape": [
            "unknown rank, from the end", "16 bits per axis",
        ],
        "the conversion down made floats of the few weights": ["weights of 4 bits in blocks"],
        "no formula has these types or these unknown lengths": [
            "float8 weights", "float8 with zero points", "blocks of float8",
            "blocks of unknown number", "blocks in front, unknown number",
        ],
    },
    "QuantizeLinear": {
        "the scales of channels or blocks stand in another shape": [
            "beyond the limits", "16 bits of float16", "blocks", "blocks of float8",
        ],
        "no formula has these types": ["4 bits between the two"],
    },
    "Hardmax": {
        "OneHot says it of a tensor of unknown rank": [
            "unknown rank", "unknown rank, from the end",
        ],
    },
    "LayerNormalization": {
        "several results of the operator are read": [
            "all outputs", "deviation alone", "float16 in float",
        ],
        "the axes of a tensor of unknown rank may be other ones": [
            "unknown rank", "unknown rank, axis from the front",
        ],
    },
    "LogSoftmax": {"an axis is counted in a tensor of unknown rank": ["unknown rank"]},
    "RMSNormalization": {
        "onnx infers the type of the data for a result of the type of the scale": [
            "float16 data, float scale",
        ],
        "the axes of a tensor of unknown rank may be other ones": [
            "unknown rank", "unknown rank, axis from the front",
        ],
    },
    "Softmax": {"an axis is counted in a tensor of unknown rank": ["unknown rank"]},
}  # fmt: skip


def operators(model: ModelProto) -> Counter[str]:
    """Counts the nodes of each operator in a graph, without constants."""
    return Counter(node.op_type for node in model.graph.node if node.op_type != "Constant")


MIRRORS = {one.op: one for one in registry.default().each(Mirror)}
ALL = [*registry.default().each(Modern), *MIRRORS.values()]
GIVING = [(rule, example) for rule, example in RULES if example.gives == rule.op]


def newest() -> int:
    return schemas.latest("") or 0


def too_new(rule: Modern | Mirror, example: Example) -> bool:
    return (
        max(rule.since, *example.imports.values(), 0) > newest()
        if example.imports
        else rule.since > newest()
    )


@pytest.mark.parametrize(
    ("rule", "example"), RULES, ids=[f"{r.source.rpartition('.')[2]}-{e.title}" for r, e in RULES]
)
def test_example(rule: Modern | Mirror, example: Example) -> None:
    if too_new(rule, example):
        pytest.skip("the installed onnx is older than the example")
    testing.assert_modern(rule, example)


@pytest.mark.parametrize(
    ("rule", "example"),
    GIVING,
    ids=[f"{rule.source.rpartition('.')[2]}-{example.title}" for rule, example in GIVING],
)
def test_what_an_example_gives_goes_down_and_comes_back(
    rule: Modern | Mirror, example: Example
) -> None:
    if too_new(rule, example):
        pytest.skip("the installed onnx is older than the example")
    newer = convert_version(
        modern_model(rule, example), modernize=True, allow_approximate=example.approximate
    )
    older = convert_version(newer, rule.since - 1, allow_approximate=True)
    if rule.op in {node.op_type for node in older.graph.node}:
        pytest.skip("the operator is kept")
    again = convert_version(
        older, newer.opset_import[0].version, modernize=True, allow_approximate=example.approximate
    )
    assert [node.op_type for node in again.graph.node] == [rule.op]
    inputs = oracle.make_inputs(newer, overrides=dict(example.inputs))
    difference = oracle.compare(
        oracle.evaluate(newer, inputs),
        oracle.evaluate(again, inputs),
        rtol=example.rtol,
        atol=example.atol,
        ulp=ULP,
    )
    assert difference is None, difference


READ_BY_ANOTHER = {  # the rule that reads what is written for the examples of a rule
    "modern.attention.attention_with_a_mask": "modern.attention.attention_that_hides",
    "modern.gelu.by_tanh": "elementwise.activation.gelu_20_19",  # by another constant
    "modern.hard_swish.hard_swish": "elementwise.activation.hard_swish_14_13",
}


def rules_that_take_back(rule: Modern | Mirror, example: Example) -> set[str]:
    """Returns the rules that find their operator in the converted example of a rule."""
    options = {"modernize": True, "allow_approximate": example.approximate}
    newer = convert_version(modern_model(rule, example), **options)
    older = convert_version(newer, rule.since - 1, allow_approximate=True)
    if operators(older)[rule.op]:
        return set()
    again = convert_with_report(older, newer.opset_import[0].version, **options)
    return {site.rule.removeprefix("opshift_adapters.") for site in again.report.modernized}


@pytest.mark.parametrize("source", sorted({rule.source for rule, _ in GIVING}))
def test_a_formula_reads_what_the_decomposition_of_its_operator_writes(source: str) -> None:
    own = [(r, e) for r, e in GIVING if r.source == source and not too_new(r, e)]
    found = set[str]().union(*(rules_that_take_back(rule, example) for rule, example in own))
    if not found:
        pytest.skip("the operator is kept, or is newer than the installed onnx")
    name = source.removeprefix("opshift_adapters.")
    assert READ_BY_ANOTHER.get(name, name) in found


def decomposed() -> list[tuple[str, Adapter, Example]]:
    """Returns the examples of adapters that replace an operator for which a formula exists."""
    since: dict[str, int] = {}
    for rule in ALL:
        since[rule.op] = min(since.get(rule.op, rule.since), rule.since)
    return [
        (op, adapter, example)
        for adapter, example in testing.examples("opshift_adapters")
        for op in adapter.ops
        if not adapter.domain
        and adapter.start > adapter.to
        and adapter.start >= since.get(op, 1000)
        and f" {op}" in example.graph
        and example.refuses is None
        and example.invalid is None
    ]


def stated(model: ModelProto, op: str, *, about: bool = False) -> list[dict[str, Any]]:
    """Returns the attributes of all nodes of an operator, with defaults, and with negative axes.

    With `about`, floats are rounded to bfloat16 before they are compared.
    """
    schema = schemas.schema("", op, model.opset_import[0].version)
    assert schema is not None
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in model.graph.input}
    found = []
    for node in (node for node in model.graph.node if node.op_type == op):
        told = {attribute.name: attribute.default for attribute in schema.attributes.values()}
        told |= {attribute.name: plain(attribute) for attribute in node.attribute} | {
            "inputs": len(node.input)
        }
        if isinstance(axis := told.get("axis"), int) and axis >= 0:
            told["axis"] = axis - ranks[node.input[0]]
        floats = {name: one for name, one in told.items() if about and isinstance(one, float)}
        found.append(
            {**told, **{name: pytest.approx(one, rel=2**-8) for name, one in floats.items()}}
        )
    return found


def plain(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else value


DECOMPOSED = decomposed()
FORMULAS = registry.default().each(Modern)
OF_ITSELF = {rule.op for rule in FORMULAS if rule.op in formula.operators(rule.formula)}


@pytest.mark.parametrize(
    ("op", "adapter", "example"),
    DECOMPOSED,
    ids=[f"{op} {adapter.start} {example.title}" for op, adapter, example in DECOMPOSED],
)
def test_what_a_decomposition_writes_becomes_the_operator_again(
    op: str, adapter: Adapter, example: Example
) -> None:
    if adapter.start > newest():
        pytest.skip("the installed onnx is older than the example")
    before = testing.example_model(adapter, example)
    older = convert_version(before, {"": adapter.to}, allow_approximate=True)
    kept = operators(older)[op] > 0
    if kept and (op not in OF_ITSELF or operators(older) <= operators(before)):
        pytest.skip("the operator is kept")
    again = convert_with_report(older, {"": adapter.start}, modernize=True)
    found = operators(again.model)
    comes_back = found[op] > 0 and (not kept or found <= operators(before))
    stays = [title for titles in STAYS.get(op, {}).values() for title in titles]
    assert comes_back != (example.title in stays)
    assert [site.op for site in again.report.modernized].count(op) >= comes_back
    if comes_back and op in MIRRORS:
        assert stated(again.model, op) == stated(before, op, about=True)
    case = examples.Case(adapter, example)
    told = examples.difference(case, older, again.model)
    assert told is None, told

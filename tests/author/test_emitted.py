# SPDX-License-Identifier: Apache-2.0
"""The planner uses the operators that an adapter may write; undeclared ones are planned later."""

from __future__ import annotations

import random

import pytest
from newest_onnx import IS_OLDER
from opshift import convert, convert_version, testing
from opshift.adapter import Builder, Node, Result, adapter, boundary
from opshift.author import index, registry
from opshift.author.verdicts import WIDER, CastNarrowed
from opshift.combinators import cast_around
from opshift.convert import plan_table, result
from opshift.protos import ModelProto
from text_models import model, ops

import examples
from examples import converted
from tools.author import example_results

SEED, SAMPLE = 20261125, 150


def tanh(node: Node, op: Builder) -> Result:
    """A test's adapter."""
    return op.Tanh(node["input"])


def test_a_combinator_writes_a_cast():
    (_, down) = boundary(13, "Exp", cast=cast_around("float"))
    assert isinstance(down.verdict, CastNarrowed)
    assert down.emits == {"Cast"}


def test_what_is_declared_counts_alone():
    assert adapter("Erf", 9, 8)(tanh).emits == set()
    assert adapter("Erf", 9, 8, emits="Tanh Exp")(tanh).emits == {"Tanh", "Exp"}
    assert adapter("Erf", 9, 8, emits=("Tanh", "Exp"))(tanh).emits == {"Tanh", "Exp"}


def test_a_shipped_adapter_is_known_by_its_examples():
    known = registry.default().get("", "Mish", 18, 17)
    assert known is not None
    assert known.emits == {"Mul", "Softplus", "Tanh"}


@pytest.mark.parametrize("emits", [(), "Exp"])
def test_what_no_verdict_was_known_to_write_is_converted_further(with_adapters, emits):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Mish(node["X"])

    with_adapters(adapter("Gelu", 20, 19, emits=emits)(run))
    after = convert_version(model("(float[2] x) => (float[2] y) { y = Gelu(x) }", 20), 9)
    assert ops(after) == "Softplus Tanh Mul"


def test_without_any_table_each_example_converts_alike(monkeypatch):
    """Without the tables of the planner, examples have the same results.

    A detour over a version beyond the goal or the model is found by the names that it writes, and
    so is the cheapest way to say an operator in other words. A node that no form makes runnable may
    have been written in other words in vain.
    """
    fit = [case for case in examples.cases() if not (examples.too_new(case) or _ends(case))]
    results = ((case, _result(case)) for case in random.Random(SEED).sample(fit, SAMPLE))
    expected = [
        (case, found.model)
        for case, found in results
        if not (_turns(found) or _is_unrunnable(found))
    ]
    assert len(expected) > SAMPLE * 0.9
    blank = registry.default().branch()  # one that has solved nothing so far
    monkeypatch.setattr(registry, "default", lambda: blank)
    monkeypatch.setattr(index, "choices", lambda package, row: ())
    monkeypatch.setattr(plan_table, "_table", dict)
    assert all(converted(case) == model for case, model in expected)


def _result(case: examples.Case) -> result.Result[ModelProto]:
    target = testing.example_target(case.adapter, case.example)
    return convert(examples.model_of(case), target, **case.example.options)


def _turns(proto: result.Result[ModelProto]) -> bool:
    """Whether the steps of a conversion lead up and down."""
    steps = proto.report.steps
    return len({step.start < step.to for step in steps if step.start != step.to}) > 1


def _is_unrunnable(proto: result.Result[ModelProto]) -> bool:
    runtime = proto.report.runtime
    return runtime is not None and runtime.answer == "no"


def _ends(case: examples.Case) -> bool:
    return bool(case.example.invalid or case.example.refuses)


@pytest.mark.skipif(IS_OLDER, reason="it is written with the newest onnx")
def test_the_shipped_table_has_the_operators_that_a_sample_of_examples_needs():
    """`python -m tools.author check` compares the whole table."""
    sample = random.Random(SEED).sample(testing.examples("opshift_adapters"), SAMPLE)
    found = example_results.results(sample).written
    assert len(found) > SAMPLE // 2
    packages = {adapter.row: adapter.package for adapter in registry.installed().adapters()}
    wider = ":".join(map(str, ("", *WIDER)))  # the engine makes these adapters, for no table
    for row, sets in found.items():
        if row.endswith(wider):
            continue
        known = frozenset().union(*index.choices(packages[row], row))
        assert all(known.issuperset(ops) for ops in sets), row

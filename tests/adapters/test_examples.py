# SPDX-License-Identifier: Apache-2.0
"""Every @example of an adapter converts to a legal model that computes the same."""

import pytest
from newest_onnx import IS_OLDER
from opshift import testing, versions
from opshift.author.example import Example
from opshift.author.traits import Fold, OutputBounds, OutputRanks, OutputShapes
from opshift.opsets import schemas

import examples
from tools.author import lengths
from tools.lib import written_forms

CASES = examples.cases()
LENGTHS = lengths.recorded()
FOLDS = testing.folds("opshift_adapters")
RANKS = [  # onnxruntime compares the others, see test_contrib_operators.py
    (rule, example)
    for rule, example in testing.rank_rules("opshift_adapters")
    if rule.domain in versions.DOMAINS
]
BOUNDS = testing.bound_rules("opshift_adapters")
SHAPES = testing.shape_rules("opshift_adapters")
READS_ALL = not IS_OLDER  # an older onnx does not infer all types of a result


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_example(case: examples.Case) -> None:
    """Only the examples test the numbers of every adapter."""
    if examples.too_new(case):
        pytest.skip("the installed onnx is older than the example")
    after = examples.run(case)
    if after is not None and READS_ALL:
        before = examples.model_of(case)
        assert written_forms.objections(before, after) == []
        known = LENGTHS.get(lengths.name(case.adapter, case.example), ())
        found = lengths.length(before, after)
        assert not all(lengths.worse(length, found) for length in known), (
            f"{found}, and {' '.join(map(str, known)) or 'no length'} is recorded; "
            "after a new example, run: python -m tools.author update lengths"
        )


@pytest.mark.parametrize(
    ("fold", "example"), FOLDS, ids=[f"{f.ops[0]} {e.title}" for f, e in FOLDS]
)
def test_fold(fold: Fold, example: Example) -> None:
    testing.assert_fold(fold, example)


@pytest.mark.parametrize(("rule", "example"), RANKS, ids=[e.graph for _, e in RANKS])
def test_ranks(rule: OutputRanks, example: Example) -> None:
    testing.assert_ranks(rule, example)


@pytest.mark.parametrize(("rule", "example"), SHAPES, ids=[e.title for _, e in SHAPES])
def test_shapes(rule: OutputShapes, example: Example) -> None:
    if rule.domain in versions.DOMAINS and not schemas.history(rule.domain, rule.ops[0]):
        pytest.skip("the installed onnx is older than the operator")
    testing.assert_shapes(rule, example)


@pytest.mark.parametrize(("rule", "example"), BOUNDS, ids=[e.graph for _, e in BOUNDS])
def test_bounds(rule: OutputBounds, example: Example) -> None:
    testing.assert_bounds(rule, example)

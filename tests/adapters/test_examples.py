# SPDX-License-Identifier: Apache-2.0
"""Every @example of an adapter converts to a legal model that computes the same."""

import os
import traceback
from dataclasses import replace

import pytest
from newest_onnx import IS_OLDER
from opshift import testing, versions
from opshift.author.example import Example
from opshift.author.traits import Fold, OutputBounds, OutputRanks, OutputShapes
from opshift.opsets import schemas

import examples
from tools.author import lengths
from tools.lib import written_forms

FILES = examples.by_file()
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
# The newest onnx converts all examples; an older onnx differs in its schemas and its inference.
STEP = 3 if IS_OLDER and "OPSHIFT_PROPERTIES" not in os.environ else 1


@pytest.mark.parametrize("file", FILES)
def test_examples_of_a_file(file: str) -> None:
    """Only the examples test the numbers of every adapter: a test for each would be 4,700 tests."""
    faults = map(fault, (case for case in FILES[file][::STEP] if not examples.too_new(case)))
    faulty = [text for text in faults if text]
    assert not faulty, "\n".join(faulty)


def fault(case: examples.Case) -> str | None:
    """Returns the fault of an example; None if it is correct, or the installed onnx is too old."""
    try:
        assert_converts_well(case)
    except pytest.skip.Exception:
        return None
    except AssertionError as error:
        return f"{case.id}: {error}"
    except Exception:  # the other examples of the file are tested, too
        return f"{case.id}: {traceback.format_exc()}"
    return None


def assert_converts_well(case: examples.Case) -> None:
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


def test_each_example_is_in_one_file() -> None:
    assert sum(map(len, FILES.values())) == len(examples.cases()) > len(FILES)


def test_a_wrong_example_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in examples.cases() if case.example.gives)
    wrong = replace(case, example=replace(case.example, gives="Celu"))
    assert fault(case) is None
    assert (fault(wrong) or "").startswith(f"{case.id}: the result has the operators")
    monkeypatch.setattr(examples, "run", lambda _: 1 / 0)
    assert (fault(case) or "").startswith(f"{case.id}: Traceback")


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

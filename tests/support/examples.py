# SPDX-License-Identifier: Apache-2.0
"""The examples of the adapters in this repository: run, compared, and skipped with an old onnx."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import pytest
from onnx import ModelProto
from opshift import convert_version, testing, versions
from opshift.author.example import Example
from opshift.author.verdicts import ALTERNATIVE, LEAVE, Adapter
from opshift.testing import example_models
from opshift.verify import oracle
from vendor_judge import on_onnxruntime

ROUNDING = 4  # units in the last place: the same arithmetic, rounded in another order


@dataclass(frozen=True)
class Case:
    """One example of one adapter."""

    adapter: Adapter
    example: Example

    @property
    def id(self) -> str:
        adapter = self.adapter
        where = adapter.source.removeprefix("opshift_adapters.")
        return f"{where}[{'/'.join(adapter.ops[:3])} {adapter.start}->{adapter.to}] {self.example.title}"


@cache
def cases() -> tuple[Case, ...]:
    """All examples, listed once for every module of tests."""
    return tuple(Case(*pair) for pair in testing.examples("opshift_adapters"))


def by_file() -> dict[str, list[Case]]:
    """All examples by the file of their adapter, which is the id of a test."""
    files: dict[str, list[Case]] = {}
    for case in cases():
        files.setdefault(case.adapter.module.removeprefix("opshift_adapters."), []).append(case)
    return files


def model_of(case: Case) -> ModelProto:
    """The example as a model at the version being left."""
    return testing.example_model(case.adapter, case.example)


def converted(case: Case) -> ModelProto:
    """Returns the example at its target version."""
    target = testing.example_target(case.adapter, case.example)
    return convert_version(model_of(case), target, **case.example.options)


def too_new(case: Case) -> bool:
    """Whether the installed onnx lacks a version that the example needs."""
    return example_models.too_new(case.adapter, case.example)


def is_of_a_vendor(case: Case) -> bool:
    """Returns whether only the runtime of a vendor has the operator that the adapter rewrites."""
    at = (case.adapter.start, case.adapter.to)
    return at in (LEAVE, ALTERNATIVE) and case.adapter.domain not in versions.DOMAINS


def run(case: Case) -> ModelProto | None:
    """Returns the result, or fails with the difference from the result that the example states."""
    evaluate = None
    if is_of_a_vendor(case) and case.example.refuses is None:
        evaluate = on_onnxruntime()  # no reference knows the operators of a vendor
    try:
        # Other sets of inputs: tests/adapters/test_edges.py.
        return testing.assert_example(case.adapter, case.example, evaluate=evaluate, sets=["given"])
    except AssertionError as error:
        if not re.match("the results differ|no engine can compute", str(error)) or not doubtful(
            case
        ):
            raise
        pytest.skip(f"the reference of this onnx is too old: {error}")


def doubtful(case: Case) -> bool:
    """Returns whether the installed onnx is too old to compute the example correctly."""
    return oracle.doubtful(model_of(case), converted(case))


def difference(
    case: Case, before: ModelProto, after: ModelProto, rtol: float = 0.0, atol: float = 0.0
) -> str | None:
    """Returns the difference of two results; skips the test if onnx is too old to compute them."""
    example = case.example
    inputs = oracle.make_inputs(before, overrides=dict(example.inputs))
    doubtful = oracle.doubtful(before, after)
    try:
        expected, actual = oracle.evaluate(before, inputs), oracle.evaluate(after, inputs)
    except oracle.OracleError as error:
        if not doubtful:
            raise
        pytest.skip(f"the reference of this onnx is too old: {error}")
    rtol, atol = max(rtol, example.rtol), max(atol, example.atol)
    text = oracle.compare(expected, actual, rtol=rtol, atol=atol, ulp=ROUNDING)
    if text and doubtful:
        pytest.skip(f"the reference of this onnx is too old: {text}")
    return text

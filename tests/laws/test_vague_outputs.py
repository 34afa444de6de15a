# SPDX-License-Identifier: Apache-2.0
"""Law: the declared types of outputs never decide whether a model converts."""

from __future__ import annotations

import os
import random

import pytest
from onnx import ModelProto
from opshift import testing
from opshift.convert.cheapest_strategy import convert
from opshift.convert.request import Request
from opshift.errors import Refused
from opshift.model import weights

import examples

SEED = 20261122
BELIEVED = "comes from a declaration"  # in the note of a report
SAMPLE = int(os.environ.get("OPSHIFT_VAGUE", "50"))


def sample() -> list[examples.Case]:
    """Examples that convert to another version, of any adapter."""
    fit = [
        case
        for case in examples.cases()
        if case.adapter.at_boundary
        and not case.example.refuses
        and not case.example.invalid
        and not examples.too_new(case)
    ]
    return random.Random(SEED).sample(fit, min(SAMPLE, len(fit)))


def converted(model: ModelProto, case: examples.Case) -> tuple[list[str], bool] | None:
    """The operators of the result, and whether a declaration was believed; None if refused."""
    target = testing.example_target(case.adapter, case.example)
    options = Request(target, **case.example.options)
    try:
        skeleton, _, report = convert(lambda: weights.carve_model(model), options)
    except Refused:
        return None
    believed = bool(report.assumptions) or any(BELIEVED in note for note in report.notes)
    return [node.op_type for node in skeleton.graph.node], believed


@pytest.mark.parametrize("case", sample(), ids=lambda case: case.id)
def test_outputs_without_a_shape_or_a_type_convert(case: examples.Case) -> None:
    model = examples.model_of(case)
    usual = converted(model, case)
    assert usual is not None
    operators, believed = usual
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    without_shapes = converted(model, case)
    for value in model.graph.output:
        value.ClearField("type")
    for found in (without_shapes, converted(model, case)):
        assert (found is None and believed) or (found is not None and found[0] == operators)

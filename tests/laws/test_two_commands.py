# SPDX-License-Identifier: Apache-2.0
"""Law: what two commands can do one after the other, one command can do."""

from __future__ import annotations

import os
import random
from typing import Any

import onnx
import pytest
from onnx import ModelProto
from opshift import BadTarget, Refused, convert_version, testing
from opshift.opsets import schemas

import examples

SEED = 20261122
SAMPLE = int(os.environ.get("OPSHIFT_COMMANDS", "60"))
NEWEST = min(26, schemas.latest("") or 1)


def sample() -> list[tuple[examples.Case, int]]:
    """Examples of any adapter, each with a seed for the commands."""
    fit = [
        case
        for case in examples.cases()
        if not case.example.invalid and not examples.too_new(case)
    ]
    rng = random.Random(SEED)
    return [(case, rng.randrange(1 << 30)) for case in rng.sample(fit, min(SAMPLE, len(fit)))]


def attempt(model: ModelProto, **wanted: Any) -> ModelProto | None:
    """The result; None where the conversion is refused."""
    try:
        return convert_version(model, **wanted)
    except (Refused, BadTarget):
        return None


def chained(model: ModelProto, *commands: dict[str, Any]) -> ModelProto | None:
    """The result of several commands; None where one of them is refused."""
    found: ModelProto | None = model
    for command in commands:
        found = attempt(found, **command) if found is not None else None
    return found


@pytest.mark.parametrize(("case", "seed"), sample(), ids=lambda one: getattr(one, "id", ""))
def test_one_command_does_what_two_do(case: examples.Case, seed: int) -> None:
    rng = random.Random(seed)
    model = examples.model_of(case)
    target = testing.example_target(case.adapter, case.example)
    domain = case.adapter.domain
    last = target[domain] if isinstance(target, dict) and domain in target else None
    to = rng.randint(1, NEWEST) if domain == "" or last is None else last
    goal: Any = to if domain == "" else {domain: to}
    ir = rng.randint(3, min(11, onnx.IR_VERSION))
    stop = rng.randint(1, NEWEST)
    both = {"target": goal, "ir_version": ir}
    ways: dict[str, tuple[dict[str, Any], ...]] = {
        "versions, then IR": ({"target": goal}, {"target": None, "ir_version": ir}),
        "IR, then versions": (
            {"target": None, "ir_version": ir},
            {"target": goal, "ir_version": "keep"},
        ),
        "a stop between": ({"target": stop}, {"target": goal}),
    }
    for name, commands in ways.items():
        one = {"target": goal} if name == "a stop between" else both
        if chained(model, *commands) is not None:
            assert attempt(model, **one) is not None, (name, goal, ir, stop)

# SPDX-License-Identifier: Apache-2.0
"""Law: the record of an adapter call gives the same result as the adapter."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import laws
import pytest
from onnx import ModelProto
from opshift.convert.change import Task
from opshift.convert.replay import call_records
from opshift.convert.replay.binding import NodeTokens
from opshift.convert.replay.call_records import Asker, Branch, Records
from opshift.convert.replay.recorder import Recorder
from opshift.convert.request import Request
from opshift.convert.state import State
from opshift.model.scope import Scope
from opshift.protos import NodeProto
from opshift.testing import example_target
from test_questions import tasks

import examples

SEED, EXAMPLES = 20261128, 150


def without_numbers(text: str) -> str:
    return re.sub(r"opshift\d*_\d+_", "opshift_", text)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls the adapter for each node that a record decides, and compares the results."""
    told: list[str] = []
    find = Records.find

    def compared(
        self: Records, asker: Asker, task: Task, scope: Scope, node: NodeProto
    ) -> tuple[Branch, NodeTokens] | None:
        found = find(self, asker, task, scope, node)
        if found is not None:
            recorder = Recorder(NodeTokens(asker, scope, node))
            leaf = call_records.asked(asker, task, recorder)
            assert (leaf, recorder.relied_on) == (found[0].leaf, found[0].ranks_used), node
            told.append(task.adapter.source)
        return found

    monkeypatch.setattr(Records, "find", compared)
    return told


def given() -> Iterator[tuple[ModelProto, Request]]:
    """Examples of the adapters and real models, with targets."""
    yield from tasks()
    draw = random.Random(SEED)
    cases = [c for c in examples.cases() if not (c.example.invalid or examples.too_new(c))]
    for case in draw.sample(cases, EXAMPLES):
        target = example_target(case.adapter, case.example)
        yield examples.model_of(case), Request.of(target, **case.example.options)


def test_a_record_says_what_the_adapter_says(verified: list[str]) -> None:
    for task in given():
        laws.answer(*task)
    assert len(verified) > EXAMPLES


def test_a_conversion_without_records_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers in new names may differ in a text."""
    sample = list(given())[::3]
    recorded = [laws.answer(*task) for task in sample]
    stepper = State.stepper

    def without(self: State, domain: str, start: int, to: int) -> object:
        step = stepper(self, domain, start, to)
        step.records = None
        return step

    monkeypatch.setattr(State, "stepper", without)
    for task, found in zip(sample, recorded, strict=True):
        alone = laws.answer(*task)
        assert alone[0] == found[0]
        assert without_numbers(str(alone[1])) == without_numbers(str(found[1]))

# SPDX-License-Identifier: Apache-2.0
"""A record of an adapter call gives the result of the adapter."""

from __future__ import annotations

import ast
import contextlib
import random
from pathlib import Path

import onnx
import opshift_adapters
import pytest
from opshift import Refused, convert_version
from opshift.adapter import Builder, Node, Result, adapter
from opshift.author import registry
from opshift.convert.replay import call_records
from opshift.testing import example_target
from text_models import model

import examples

SEED = 20261128


PACKAGE = Path(str(opshift_adapters.__file__)).parent


def adapter_files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "facts" not in path.parts)


INNER = {"scope", "crossing", "env", "facts", "document", "binding"}


@pytest.mark.parametrize("path", adapter_files(), ids=lambda path: path.stem)
def test_no_adapter_sees_more_than_its_questions(path: Path) -> None:
    """The record of a call would miss a fact that an adapter reads without the public interface."""
    reached = {
        n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)
    }
    assert not reached & INNER


CHAIN = """(float[2,3] x) => (float[2,3] y) {
    a = Softmax<axis = 1>(x) b = Softmax<axis = 1>(a) c = Softmax<axis = 1>(b) y = Relu(c) }"""


def test_an_adapter_is_asked_once_for_nodes_that_are_alike(with_adapters) -> None:
    asked: list[str] = []

    @adapter("Softmax", 12, 13, emits="Neg Softmax")
    def softmax(node: Node, op: Builder) -> Result:
        """Writes another operator."""
        asked.append(node.op)
        node.int("axis")
        return op.same(node)

    with_adapters(softmax)
    for _ in range(2):
        convert_version(model(CHAIN, 12), 13)
    assert asked == ["Softmax"]


def test_an_answer_from_nowhere_is_found(with_adapters) -> None:
    """An adapter that reads different facts in equal situations is reported as faulty."""
    asked: list[int] = []

    @adapter("Softmax", 12, 13, emits="Softmax")
    def softmax(node: Node, op: Builder) -> Result:
        """Reads another fact in each call."""
        asked.append(1)
        value = node["input"]
        _ = value.rank if len(asked) % 2 else value.elem_type
        return op.same(node)

    with_adapters(softmax)
    text = """(float[2,3] x, float[2] z) => (float[2,3] y, float[2] w) {
        y = Softmax<axis = 0>(x) w = Softmax<axis = 0>(z) }"""
    with pytest.raises(AssertionError, match="but not of an equal node"):
        convert_version(model(text, 12), 13)


def test_the_records_of_a_registry_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_records, "MOST", 20)
    call_records.forget()
    draw = random.Random(SEED)
    cases = [c for c in examples.cases() if not (c.example.invalid or examples.too_new(c))]
    for case in draw.sample(cases, 60):
        with contextlib.suppress(Refused):
            convert_version(examples.model_of(case), example_target(case.adapter, case.example))
    assert len(call_records.of(registry.default())._trees) < 60


def test_a_shared_type_is_not_changed() -> None:
    """Equal facts share one type object, which the next conversion uses again."""
    first = convert_version(model(CHAIN, 13), 9)
    onnx.checker.check_model(first, full_check=True)
    assert convert_version(model(CHAIN, 13), 9) == first

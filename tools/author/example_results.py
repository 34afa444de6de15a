# SPDX-License-Identifier: Apache-2.0
"""Converts each example once, for all tables and checks that need the results."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from unittest import mock

from onnx import ModelProto
from opshift import InvalidModel, Refused, convert_version, testing
from opshift.author.builder import Builder
from opshift.author.example import Example
from opshift.author.node import Keep, Node, Result
from opshift.author.verdicts import ALTERNATIVE, WORDS, Adapter
from opshift.convert.replay import call_records
from opshift.opsets import schemas
from opshift.testing import example_models
from opshift.text import qualified

FOR_RUNTIMES = tuple(f":{start}:{to}" for start, to in (ALTERNATIVE, WORDS))


def is_for_runtimes(row: str) -> bool:
    """Returns whether a row of written operators belongs to a rewriting for runtimes."""
    return row.endswith(FOR_RUNTIMES)


class ExampleResult(NamedTuple):
    """An example that converts, and its result."""

    adapter: Adapter
    example: Example
    before: ModelProto
    after: ModelProto


class AllResults(NamedTuple):
    """The results of examples, and the operators that each adapter wrote for them."""

    conversions: Sequence[ExampleResult]
    written: dict[str, set[frozenset[str]]]


@functools.cache
def of_package(package: str) -> AllResults:
    """Returns the results of all examples of a package that the installed onnx can convert."""
    return results(testing.examples(package))


def results(examples: Iterable[tuple[Adapter, Example]]) -> AllResults:
    """Converts examples, and records the operators that adapters write."""
    collected = AllResults([], defaultdict(set))
    call_records.forget()  # recorded calls would hide the call of an adapter
    with mock.patch.object(Adapter, "__call__", _watched(collected.written)):
        for adapter, example in examples:
            if example_models.too_new(adapter, example):
                continue
            before = testing.example_model(adapter, example)
            target = testing.example_target(adapter, example)
            try:
                after = convert_version(before, target, **example.options)
            except (Refused, InvalidModel):
                continue
            collected.conversions.append(ExampleResult(adapter, example, before, after))
    return collected


def _watched(written: dict[str, set[frozenset[str]]]) -> Callable[[Adapter, Node, Builder], Result]:
    """Returns a function that calls an adapter and records the operators that it writes."""
    called = Adapter.__call__

    def call(adapter: Adapter, node: Node, op: Builder) -> Result:
        ops = op.made.ops
        before = set(ops)
        ops.clear()
        try:
            answer = called(adapter, node, op)
            if not isinstance(answer, Keep):
                operator = qualified(schemas.normal(node.proto.domain), node.op)
                hidden = {"Identity"} if is_for_runtimes(adapter.row) else {"Identity", operator}
                written[adapter.row].add(frozenset(ops - hidden))
            return answer
        finally:
            ops |= before

    return call

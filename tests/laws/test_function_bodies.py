# SPDX-License-Identifier: Apache-2.0
"""No adapter is improved by `op.expand`: a function body is longer, less exact, or refused.

FlexAttention is written by its body, because the body contains the graphs of the node. Each other
adapter that crosses the birth or a change of an operator with a function body converts its examples
twice: as it is, and with `op.expand`. One example in which the body is worse is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from newest_onnx import IS_OLDER
from onnx import ModelProto, NodeProto
from opshift import OpshiftError, convert_version, testing
from opshift.author import registry
from opshift.author.builder import Builder
from opshift.author.example import Example
from opshift.author.node import Node
from opshift.author.verdicts import Adapter, Result
from opshift.convert import plan_table, verdict_edges
from opshift.convert.replay import call_records
from opshift.model import walk
from opshift.opsets import schemas
from opshift.verify import oracle

from tools.author import lengths

if IS_OLDER:
    pytest.skip("an older onnx has other function bodies", allow_module_level=True)

# The adapter of CastLike is one line and needs no types: an adapter that writes such an operator in
# a later opset may not have them, and a body of onnx that depends on types then refuses.
# GreaterOrEqual shares the line, Casts around the node, with operators that have no body.
EQUAL = {("CastLike", 15), ("GreaterOrEqual", 16)}
CALLED = Adapter.__call__


def _place(adapter: Adapter) -> tuple[str, int, int]:
    return adapter.source, adapter.start, adapter.to


def _has_body(domain: str, op: str, version: int) -> bool:
    schema = schemas.schema(domain, op, version)
    return schema is not None and schema.has_body


def _with_body(adapter: Adapter) -> list[str]:
    """The operators of an adapter that have a function body before its step."""
    return [op for op in adapter.ops if _has_body(adapter.domain, op, adapter.start)]


def _is_body(adapter: Adapter) -> bool:
    """Whether the function of an adapter only calls `op.expand`."""
    code = getattr(adapter.run, "__code__", None)
    return code is not None and code.co_names == ("expand",)


def _by_adapter() -> list[tuple[Adapter, list[Example]]]:
    """The adapters that write an operator with a function body in a lower opset."""
    found: dict[tuple[str, int, int], tuple[Adapter, list[Example]]] = {}
    for adapter, example in testing.examples("opshift_adapters"):
        down = adapter.start > adapter.to > 0 and example.refuses is example.invalid is None
        if down and any(re.search(rf"\b{op}\b", example.graph) for op in _with_body(adapter)):
            found.setdefault(_place(adapter), (adapter, []))[1].append(example)
    return list(found.values())


PAIRS = _by_adapter()


def _operators(nodes: Iterable[NodeProto]) -> set[str]:
    """The operators of some nodes and of their graphs."""
    inner = [node for one in nodes for node in (one, *walk.nodes_inside(one))]
    return {node.op_type for node in inner if not node.domain}


@pytest.fixture(autouse=True)
def plans_contain_the_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped plans contain only what the adapters write."""

    def shipped(domain: str, op: str, since: int, down: bool) -> plan_table.Edge | None:
        found = plan_table.shipped(domain, op, since, down)
        if found is None or not down or not _has_body(domain, op, since):
            return found
        body = schemas.raw(domain, op, since).function_body.node
        return replace(found, writes=tuple(sorted({*found.writes, *_operators(body)})))

    monkeypatch.setattr(registry.default(), "known_edges", {})
    monkeypatch.setattr(verdict_edges, "shipped", shipped)


def _converted(adapter: Adapter, example: Example, *, by_body: bool) -> ModelProto:
    def call(self: Adapter, node: Node, op: Builder) -> Result:
        expanded = by_body and _place(self) == _place(adapter) and node.op in _with_body(self)
        return op.expand(node) if expanded else CALLED(self, node, op)

    call_records.forget()
    with mock.patch.object(Adapter, "__call__", call):
        target = testing.example_target(adapter, example)
        return convert_version(testing.example_model(adapter, example), target, **example.options)


def _is_worse(adapter: Adapter, example: Example) -> bool:
    """Whether the function body fails, or its result is longer or computes something else."""
    before, own = (
        testing.example_model(adapter, example),
        _converted(adapter, example, by_body=False),
    )
    try:
        other = _converted(adapter, example, by_body=True)
    except OpshiftError:
        return True
    if lengths.worse(lengths.length(before, own), lengths.length(before, other)):
        return True
    inputs = oracle.make_inputs(before, overrides=dict(example.inputs))
    pairs = zip(oracle.evaluate(own, inputs), oracle.evaluate(other, inputs), strict=True)
    return not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


@pytest.mark.parametrize(
    ("adapter", "examples"), PAIRS, ids=[f"{a.ops[0]}-{a.start}-{a.to}" for a, _ in PAIRS]
)
def test_a_function_body_replaces_no_adapter(adapter: Adapter, examples: list[Example]) -> None:
    call_records.forget()
    worse = any(_is_worse(adapter, example) for example in examples)
    call_records.forget()
    equal = _is_body(adapter) or (adapter.ops[0], adapter.start) in EQUAL
    assert worse != equal


def test_the_graphs_of_a_body_get_names_of_their_own() -> None:
    """AffineGrid's body has two graphs named g1, but names must be unique in a model."""
    adapter, examples = next(pair for pair in PAIRS if pair[0].ops[0] == "AffineGrid")
    names = [
        graph.name for graph in walk.graphs_in(_converted(adapter, examples[0], by_body=True).graph)
    ]
    assert len(names) == len({*names}) > 2


def test_the_adapters_that_are_equal_to_their_bodies_are_compared() -> None:
    assert {(adapter.ops[0], adapter.start) for adapter, _ in PAIRS} >= EQUAL


def test_each_operator_with_a_function_body_is_compared() -> None:
    """An adapter that leaves an operator with a body unchanged has nothing to compare."""
    written = {
        op
        for adapter in registry.default().adapters()
        if adapter.start > adapter.to > 0 and adapter.run is not None and not adapter.domain
        for op in _with_body(adapter)
    }
    assert len(written) >= 40
    assert written - {op for adapter, _ in PAIRS for op in _with_body(adapter)} == set()

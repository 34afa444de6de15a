# SPDX-License-Identifier: Apache-2.0
"""Generates a table of the sizes of all example results, which no change may increase."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from onnx import ModelProto, NodeProto
from opshift.author.example import Example
from opshift.author.verdicts import Adapter

from tools.author import example_results
from tools.lib.graphs import nodes_in

TABLE = Path(__file__).parents[2] / "tests" / "adapters" / "lengths.txt"


class Length(NamedTuple):
    """The size of a result."""

    nodes: int
    parts: int  # inputs and attributes
    kept: bool  # whether the result has the same nodes as the original

    def __str__(self) -> str:
        return f"{self.nodes}/{self.parts}{'=' * self.kept}"


Lengths = Mapping[str, Sequence[Length]]


def files() -> Mapping[Path, Callable[[], str]]:
    """Returns the generated file with its generator."""
    return {TABLE: table}


def table() -> str:
    """Returns the table, with a line for each example."""
    rows = sorted(measured().items())
    return "".join(f"{title}: {_listed(numbers)}\n" for title, numbers in rows)


def measured(package: str = "opshift_adapters") -> Lengths:
    """Returns the sizes of the results of all examples that the installed onnx can convert."""
    by_example: dict[str, list[Length]] = defaultdict(list)
    for adapter, example, before, after in example_results.of_package(package).conversions:
        by_example[name(adapter, example)].append(length(before, after))
    return by_example


def name(adapter: Adapter, example: Example) -> str:
    """Returns the module, the operators, the step and the title of an example."""
    declaration = adapter.declaration.removeprefix("opshift_adapters.")
    step = f"{adapter.start}->{adapter.to}"
    return f"{declaration} {'/'.join(adapter.ops[:3])} {step} {example.title}"


def length(before: ModelProto, after: ModelProto) -> Length:
    """Returns the size of a result, including its functions and subgraphs."""
    old, new = _nodes(before), _nodes(after)
    parts = sum(len(node.attribute) + sum(map(bool, node.input)) for node in new)
    return Length(len(new), parts, [*map(_meaning, old)] == [*map(_meaning, new)])


def _nodes(model: ModelProto) -> list[NodeProto]:
    inside = (node for function in model.functions for node in function.node)
    return [*inside, *nodes_in(model.graph)]


def _meaning(node: NodeProto) -> tuple[object, ...]:
    """Returns a node without its names and documentation, for comparisons."""
    attributes = sorted(attr.SerializeToString(deterministic=True) for attr in node.attribute)
    shape = [bool(name) for name in node.input], [bool(name) for name in node.output]
    return node.op_type, node.domain, *shape, attributes


def recorded() -> Lengths:
    """Returns the sizes in the table."""
    read = TABLE.read_text("utf-8").splitlines()
    lines = (line.rpartition(": ") for line in read if not line.startswith("#"))
    return {title: [*map(_read, numbers.split())] for title, _, numbers in lines}


def _read(text: str) -> Length:
    nodes, _, parts = text.rstrip("=").partition("/")
    return Length(int(nodes), int(parts), text.endswith("="))


def objections(recorded_lengths: Lengths, measured_lengths: Lengths) -> Iterator[str]:
    """Yields the results that are larger than recorded or not recorded."""
    for title, lengths in measured_lengths.items():
        before = recorded_lengths.get(title, ())
        if len(before) != len(lengths):
            yield f"{title}: {len(lengths)} results, {len(before)} recorded"
        elif any(worse(*pair) for pair in zip(before, lengths, strict=True)):
            yield f"{title}: {_listed(lengths)}, {_listed(before)} recorded"


def worse(then: Length, now: Length) -> bool:
    """Returns whether a result is larger, or whether its equality with the original changed."""
    return now[:2] > then[:2] or now.kept != then.kept


def _listed(lengths: Sequence[Length]) -> str:
    return " ".join(map(str, lengths))

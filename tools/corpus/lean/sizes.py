# SPDX-License-Identifier: Apache-2.0
"""Counts nodes: of conversions beside an exporter's own export, and of a whole corpus."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import opshift
from onnx import GraphProto, ModelProto, NodeProto

from tools.lib.graphs import graphs_of, nodes_in, unread

FAMILY = re.compile(r"(.*)_op\d+(.*)")


@dataclass(frozen=True)
class ExportPair:
    """A conversion of one export, and what the exporter itself wrote at that opset."""

    family: str
    start: int
    to: int
    converted: int
    exported: int

    @property
    def ratio(self) -> float:
        return self.converted / self.exported


@dataclass
class Total:
    """What a conversion of all models to one opset makes of their nodes."""

    target: int
    models: int = 0
    refused: list[str] = field(default_factory=list)
    before: int = 0
    after: int = 0
    came_unread: int = 0
    left_unread: int = 0
    added: dict[str, int] = field(default_factory=dict)  # by operator and step
    grown: dict[str, int] = field(default_factory=dict)  # by model


@dataclass
class Modernized:
    """What `--modernize` finds in all models at one opset."""

    target: int
    models: int = 0  # those in which something was found
    without: int = 0  # the nodes of these models, converted without it
    nodes: int = 0
    sites: dict[str, int] = field(default_factory=dict)  # by operator
    replaced: dict[str, int] = field(default_factory=dict)  # nodes, by operator


def pairs(folders: Sequence[Path]) -> Iterator[ExportPair]:
    """Each export of a model converted to the opset of each other export of that model."""
    families: dict[str, dict[int, ModelProto]] = {}
    for folder in folders:
        named = FAMILY.fullmatch(folder.name)
        model = onnx.load(folder / "model.onnx")
        opset = _opset(model)
        if named and opset:
            families.setdefault("".join(named.groups()), {})[opset] = model
    for family, exports in sorted(families.items()):
        for start, model in sorted(exports.items()):
            for to, own in sorted(exports.items()):
                if start != to and (converted := _converted(model, to)) is not None:
                    count = nodes_without_constants(converted.model.graph)
                    exported = nodes_without_constants(own.graph)
                    yield ExportPair(family, start, to, count, exported)


def total(folders: Sequence[Path], target: int) -> Total:
    """All models converted to one opset."""
    found = Total(target)
    for folder in folders:
        model = onnx.load(folder / "model.onnx")
        result = _converted(model, target)
        if result is None:
            found.refused.append(folder.name)
            continue
        before, after = (len(list(nodes_in(one.graph))) for one in (model, result.model))
        found.models += 1
        found.before += before
        found.after += after
        found.grown[folder.name] = after - before
        came = len(list(unread_at_any_depth(model.graph)))
        found.came_unread += came
        found.left_unread += max(len(list(unread_at_any_depth(result.model.graph))) - came, 0)
        for step in result.report.steps:
            for work in step.rewritten:
                way = f"{work.op} {step.start}→{step.to}"
                more = work.count * (len(work.gives) - 1)
                found.added[way] = found.added.get(way, 0) + more
    return found


def modernized(folders: Sequence[Path], target: int) -> Modernized:
    """All models converted to one opset with `--modernize`."""
    found = Modernized(target)
    for folder in folders:
        model = onnx.load(folder / "model.onnx")
        result = _converted(model, target, modernize=True)
        if result is None or not result.report.modernized:
            continue
        sites = result.report.modernized
        found.models += 1
        found.nodes += len(list(nodes_in(result.model.graph)))
        for site in sites:
            found.sites[site.op] = found.sites.get(site.op, 0) + 1
            found.replaced[site.op] = found.replaced.get(site.op, 0) + site.nodes
        if (plain := _converted(model, target)) is not None:
            found.without += len(list(nodes_in(plain.model.graph)))
    return found


def _opset(model: ModelProto) -> int | None:
    own = (one.version for one in model.opset_import if one.domain in ("", "ai.onnx"))
    return next(own, None)


def _converted(model: ModelProto, target: int, *, modernize: bool = False) -> opshift.Result | None:
    try:
        return opshift.convert(model, target, modernize=modernize)
    except opshift.OpshiftError:
        return None


def nodes_without_constants(graph: GraphProto) -> int:
    """How many nodes compute something."""
    return sum(node.op_type != "Constant" for node in nodes_in(graph))


def unread_at_any_depth(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes on which no output of their graph depends."""
    yield from unread(graph)
    for node in graph.node:
        for inner in graphs_of(node):
            yield from unread_at_any_depth(inner)

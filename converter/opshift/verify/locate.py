# SPDX-License-Identifier: Apache-2.0
"""Finds the first value that differs between two models, its nodes, and their adapters.

A difference can vanish later (for example after a Relu) and another difference can begin, so a
binary search may not find the first difference. Therefore all common values are compared in order:
many values in one run, and half of the values if a run does not have enough memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opshift.author.registry import Registry
from opshift.convert.cheapest_strategy import convert
from opshift.convert.request import Request
from opshift.errors import OpshiftError
from opshift.model import cone, imports, walk, weights
from opshift.protos import GraphProto, ModelProto, NodeProto, ValueInfoProto
from opshift.protos.whole import onnx
from opshift.records import dataclass
from opshift.report import StepReport
from opshift.verify import cut, randomness
from opshift.verify.cases import InputSet
from opshift.verify.subject import Subject, save
from opshift.verify.verification import DIFFERENT, EQUAL, UNKNOWN, Cause, Row

if TYPE_CHECKING:
    from opshift.verify.pair import Pair

Values = Mapping[str, Any]
TOGETHER = 256  # the number of values in one run, which must all fit in memory
SHOWN = 12  # the number of operators that are listed one by one


def first(
    pair: Pair, engines: tuple[str, str], case: InputSet, reduce: str | os.PathLike[str] | None,
    folder: Path,
) -> Cause | None:  # fmt: skip
    """Returns the first common value that differs; None if all common values are equal."""
    models = (onnx.load(pair.a.path), onnx.load(pair.b.path))
    search = ValueSearch(pair, models, engines, case, folder)
    random = randomness.drawn(models[0])
    names = [name for name in _common(models[0].graph, models[1].graph) if name not in random]
    for start in range(0, len(names), TOGETHER):
        if difference := search.among(names[start : start + TOGETHER]):
            return search.cause(*difference, reduce)
    return None


def inside(
    pair: Pair,
    engines: tuple[str, str],
    cases: Sequence[InputSet],
    names: Sequence[str],
    folder: Path,
) -> Iterator[Row]:
    """Compares values that nodes of both models compute, for each set of inputs."""
    models = (onnx.load(pair.a.path), onnx.load(pair.b.path))
    random = randomness.drawn(models[0])
    common = {*_common(models[0].graph, models[1].graph)} - random
    shared = [name for name in names if name in common]
    for case in cases:
        search = ValueSearch(pair, models, engines, case, folder)
        for start in range(0, len(shared), TOGETHER):
            yield from search.rows(shared[start : start + TOGETHER])


def _common(a: GraphProto, b: GraphProto) -> list[str]:
    """Returns the values that nodes of both graphs compute, in the order of graph `b`."""
    mine = {name for node in a.node for name in node.output if name}
    return [name for node in b.node for name in node.output if name in mine]


@dataclass(slots=True)
class ValueSearch:
    """The search for the first difference of two models; `same` has the values that are equal."""

    pair: Pair
    models: tuple[ModelProto, ModelProto]
    engines: tuple[str, str]
    case: InputSet
    folder: Path
    same: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.same = dict(self.case.values)

    def among(self, names: list[str]) -> tuple[str, tuple[Any, Any]] | None:
        """Returns the first of the values `names` that differs, with both results, or None."""
        wider = tuple(exposing(model, names) for model in self.models)
        results = self._run(wider, self.case)
        if results is None and len(names) > 1:
            half = len(names) // 2
            return self.among(names[:half]) or self.among(names[half:])
        for name in names if results is not None else ():
            mine, other = (values[name] for values in results or ())
            if self.pair.difference(mine, other, name):
                return name, (mine, other)
            if isinstance(mine, np.ndarray):
                self.same[name] = mine
        return None

    def rows(self, names: list[str]) -> Iterator[Row]:
        """Yields a comparison for each value of `names`."""
        wider = tuple(exposing(model, names) for model in self.models)
        results = self._run(wider, self.case)
        for name in names:
            if results is None:
                yield Row(self.case.label, name, UNKNOWN, "no engine returned this value")
                continue
            mine, other = (values[name] for values in results)
            difference = self.pair.difference(mine, other, name)
            yield Row(self.case.label, name, DIFFERENT if difference else EQUAL, difference)

    def _run(self, models: tuple[ModelProto, ...], case: InputSet) -> list[dict[str, Any]] | None:
        """Returns the results of both models, or None if a model fails."""
        results = []
        for model, engine, letter in zip(models, self.engines, "ab", strict=True):
            path = self.folder / f"part-{letter}.onnx"
            save(model, path)
            values, error = self.pair.run(Subject(letter, path, model), engine, [case])[0]
            if error:
                return None
            results.append(values)
        return results

    def cause(
        self, name: str, values: tuple[Any, Any], reduce: str | os.PathLike[str] | None
    ) -> Cause:
        """Describes the first value that differs.

        A difference may grow over several nodes, each within the tolerance, so that the nodes after
        the last equal values do not reproduce the difference. If the difference grows slowly, all
        nodes between the inputs and the value are shown.
        """
        detail = self.pair.difference(values[0], values[1], name)
        nodes, small, inputs = self._cut(name, values, self.same)
        if not self._repeats(small, inputs, name):
            nodes, small, inputs = self._cut(name, values, self.case.values)
            detail += " (the difference grows over several nodes)"
        before, after = (_called(part) for part in nodes)
        adapters = tuple(_writers(small[0], imports.versions(self.models[1]), self.pair.adapters))
        saved = "" if reduce is None else cut.saved(Path(reduce), small, inputs)
        return Cause(self.case.label, name, before, after, adapters, detail, saved)

    def _cut(
        self, name: str, values: tuple[Any, Any], equal_values: Values
    ) -> tuple[list[list[NodeProto]], tuple[ModelProto, ModelProto], Values]:
        """Returns the nodes of each model between known values and `name`, also as two models."""
        nodes = [cone.needed(model.graph, [name], equal_values) for model in self.models]
        reads = {name for part in nodes for node in part for name in walk.reads(node)}
        inputs = {
            read_name: array for read_name, array in equal_values.items() if read_name in reads
        }
        a, b = (
            cut.piece(model, part, inputs, name, value)
            for model, part, value in zip(self.models, nodes, values, strict=True)
        )
        return nodes, (a, b), inputs

    def _repeats(self, small: tuple[ModelProto, ...], inputs: Values, name: str) -> bool:
        results = self._run(small, InputSet("reduced", inputs))
        if results is None:
            return False
        mine, other = (values[name] for values in results)
        return bool(self.pair.difference(mine, other, name))


def exposing(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """Returns a copy of the model whose outputs are the values of these names."""
    wider = ModelProto()
    wider.CopyFrom(model)
    declared = {info.name: info for info in (*model.graph.output, *model.graph.value_info)}
    del wider.graph.output[:]
    wider.graph.output.extend(declared.get(name, ValueInfoProto(name=name)) for name in names)
    return wider


def _called(nodes: list[NodeProto]) -> str:
    """Lists the operators of nodes; for a single node, also its name."""
    if len(nodes) > SHOWN:
        return f"{len(nodes)} nodes up to {_called(nodes[-1:])}"
    shown = " ".join(node.op_type for node in nodes) or "nothing"
    return f"{shown} {nodes[0].name!r}" if len(nodes) == 1 and nodes[0].name else shown


def _writers(small: ModelProto, target: Mapping[str, int], adapters: Registry) -> Iterator[str]:
    """Yields the adapters that rewrote these nodes, or the claims that no change is needed."""
    versions = imports.versions(small)
    goal = {
        domain: target[domain]
        for domain in versions
        if target.get(domain, 0) not in (0, versions[domain])
    }
    options = Request(goal, allow_approximate=True, check=False)
    try:
        steps = convert(lambda: weights.carve_model(small), options)[2].steps
    except OpshiftError:
        return
    for step in steps:
        for work in step.rewritten:
            yield f"{work.adapter} ({work.op} {step.start}->{step.to})"
    if not any(step.rewritten for step in steps):
        for step in steps:
            yield from _claims(small, step, adapters)


def _claims(small: ModelProto, step: StepReport, adapters: Registry) -> Iterator[str]:
    """Yields the claims in adapter files that a step need not change these operators."""
    for op in sorted({node.op_type for node, _ in imports.operators(small)}):
        claim = adapters.get(step.domain, op, step.start, step.to)
        if claim is not None:
            yield f"{claim.source} ({op} {step.start}->{step.to}, kept as it is)"

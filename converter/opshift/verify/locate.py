"""Finds the first value on which two models part, and cuts out the nodes that compute it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from opshift import weights
from opshift.convert import Options, convert
from opshift.errors import OpshiftError
from opshift.verify import randomness, walk
from opshift.verify.cases import Case
from opshift.verify.oracle.values import elem_type_of, type_of
from opshift.verify.outcome import Cause
from opshift.verify.subject import Subject, save

if TYPE_CHECKING:
    from opshift.verify.run import Pair

Values = Mapping[str, Any]


def first(
    pair: Pair, chosen: tuple[str, str], case: Case, reduce: str | os.PathLike[str] | None,
    folder: Path,
) -> Cause | None:  # fmt: skip
    """The first common value that differs; None where the models share too little to say."""
    a, b = (onnx.load(subject.path) for subject in (pair.a, pair.b))
    names = _common(a.graph, b.graph)
    found = []
    for model, engine, letter in zip((a, b), chosen, "ab", strict=True):
        path = folder / f"all-{letter}.onnx"
        save(_exposing(model, names), path)
        found.append(pair.run(Subject(letter, path, model), engine, [case])[0][0])
    random, same = randomness.drawn(a), dict(case.values)
    for name in names:
        if name in random or not all(name in values for values in found):
            continue
        detail = pair.difference(found[0][name], found[1][name])
        if detail:
            return _cause(Parting(a, b, name, same), case, detail, reduce)
        if isinstance(found[0][name], np.ndarray):
            same[name] = found[0][name]
    return None


def _common(a: GraphProto, b: GraphProto) -> list[str]:
    """The values that nodes of both graphs compute, in the order of the second."""
    mine = {name for node in a.node for name in node.output if name}
    return [name for node in b.node for name in node.output if name in mine]


def _exposing(model: ModelProto, names: list[str]) -> ModelProto:
    """The model with more of its values as outputs."""
    wider = ModelProto()
    wider.CopyFrom(model)
    shown = {info.name for info in model.graph.output}
    wider.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in shown)
    return wider


@dataclass(frozen=True, slots=True)
class Parting:
    """Two models, the first value on which they part, and values on which they agree."""

    a: ModelProto
    b: ModelProto
    value: str
    same: Values


def _cause(
    parting: Parting, case: Case, detail: str, reduce: str | os.PathLike[str] | None
) -> Cause:
    parts = [_nodes(model.graph, parting) for model in (parting.a, parting.b)]
    reads = {name for part in parts for node in part for name in walk.reads(node)}
    inputs = {name: value for name, value in parting.same.items() if name in reads}
    small = [
        _model(model, nodes, inputs, parting.value)
        for model, nodes in zip((parting.a, parting.b), parts, strict=True)
    ]
    before, after = (_called(part) for part in parts)
    adapters = _adapters(small[0], walk.imports(parting.b))
    saved = "" if reduce is None else _saved(Path(reduce), small, inputs)
    shown = f": {detail}" if detail else ""
    return Cause(case.label, parting.value, before, after, adapters, shown, saved)


def _nodes(graph: GraphProto, parting: Parting) -> list[NodeProto]:
    """The nodes that compute the value from those on which the models agree."""
    producers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    wanted, found = [parting.value], set()
    while wanted:
        name = wanted.pop()
        place = producers.get(name)
        if place is not None and place not in found and name not in parting.same:
            found.add(place)
            wanted += walk.reads(graph.node[place])
    return [graph.node[place] for place in sorted(found)]


def _model(model: ModelProto, nodes: list[NodeProto], inputs: Values, value: str) -> ModelProto:
    """A model of these nodes alone."""
    small = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    small.functions.extend(model.functions)
    small.graph.name = "reduced"
    small.graph.node.extend(nodes)
    reads = {name for node in nodes for name in walk.reads(node)} - inputs.keys()
    small.graph.initializer.extend(t for t in model.graph.initializer if t.name in reads)
    if model.ir_version < 4:
        small.graph.input.extend(i for i in model.graph.input if i.name in reads)
    declared = {info.name: info for info in (*model.graph.input, *model.graph.value_info)}
    for name, array in inputs.items():
        if isinstance(array, np.ndarray):
            elem_type = elem_type_of(array.dtype)
            small.graph.input.append(helper.make_tensor_value_info(name, elem_type, array.shape))
        else:
            small.graph.input.append(declared[name])
    outputs = [
        info for info in (*model.graph.output, *model.graph.value_info) if info.name == value
    ]
    small.graph.output.extend(outputs[:1] or [ValueInfoProto(name=value)])
    return small


def _called(nodes: list[NodeProto]) -> str:
    """The operators, and the name of the node where there is one alone."""
    shown = " ".join(node.op_type for node in nodes) or "nothing"
    return f"{shown} {nodes[0].name!r}" if len(nodes) == 1 and nodes[0].name else shown


def _adapters(small: ModelProto, target: Mapping[str, int]) -> tuple[str, ...]:
    """Who rewrites these nodes on the way to the other model's versions."""
    own = walk.imports(small)
    wanted = {domain: target[domain] for domain in own if target.get(domain, 0) > 0}
    options = Options(wanted, allow_approximate=True, check=False)
    try:
        report = convert(lambda: weights.carve_model(small), options)[2]
    except OpshiftError:
        return ()
    return tuple(
        f"{work.adapter} ({work.op} {step.start}->{step.to})"
        for step in report.steps
        for work in step.rewritten
    )


def _saved(folder: Path, small: list[ModelProto], inputs: Values) -> str:
    """Writes both small models and their inputs, and says how to verify them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "a.onnx", folder / "b.onnx"]
    for model, path in zip(small, paths, strict=True):
        save(model, path)
    plain = {name: _savable(value) for name, value in inputs.items()}
    np.savez(folder / "inputs.npz", **plain)
    return f"{paths[0]} {paths[1]} --inputs {folder / 'inputs.npz'}"


def _savable(value: Any) -> Any:
    return value.astype(str) if getattr(value, "dtype", None) == np.dtype(object) else value


def unlike(expected: Any, actual: Any) -> str:
    """How the types or shapes of two values differ, or nothing."""
    shapes = [list(getattr(value, "shape", ())) for value in (expected, actual)]
    types = [type_of(value) for value in (expected, actual)]
    if types[0] != types[1]:
        return f"{types[0]} expected, {types[1]} given"
    return "" if shapes[0] == shapes[1] else f"shape {shapes[0]} expected, {shapes[1]} given"

# SPDX-License-Identifier: Apache-2.0
"""Compares values inside subgraphs and functions by extracting the nodes that compute them.

The outputs of a model cannot contain a value of a subgraph, because a branch may not run and a Loop
computes the value many times. Therefore the nodes that compute the value in both models become two
small models with equal inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.model import cone, walk, weights
from opshift.model.arrays import from_array
from opshift.model.document import Document
from opshift.model.scope import Scope
from opshift.model.walk import Container
from opshift.model.weights import Weights
from opshift.protos import FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from opshift.protos.whole import onnx
from opshift.records import dataclass
from opshift.verify.pair import Pair
from opshift.verify.pair_results import compared, reference_of
from opshift.verify.subject import Subject, save
from opshift.verify.verification import UNKNOWN, Row, Verification


def with_values(
    verification: Verification, pair: Pair, names: Sequence[str], folder: Path
) -> Verification:
    """Adds a comparison for each of the values `names` in each subgraph or function that has it."""
    models = tuple(onnx.load(subject.path) for subject in (pair.a, pair.b))
    inner = [name for name in names if _is_inside(models[1], name)]
    if not inner:
        return verification
    sides = _Opened(models[0], pair.adapters), _Opened(models[1], pair.adapters)
    rows = [row for name in inner for row in _rows(pair, sides, name, folder)]
    return replace(verification, rows=(*verification.rows, *rows))


def _is_inside(model: ModelProto, name: str) -> bool:
    """Returns whether a node of a subgraph or of a function computes a value of this name."""
    inner = (graph for top in walk.tops(model) for graph in walk.containers_in(top))
    return any(_computes(graph, name) for graph in inner if graph is not model.graph)


def _computes(container: Container, name: str) -> bool:
    return any(name in node.output for node in container.node)


def _rows(pair: Pair, sides: tuple[_Opened, _Opened], name: str, folder: Path) -> Iterator[Row]:
    """Compares a value in each subgraph or function that computes it in both models."""
    for scopes in zip(*(side.places(name) for side in sides), strict=False):
        label = f"nodes of {name!r}"
        models = _pieces(sides, scopes, name)
        if isinstance(models, str):
            yield Row(label, name, UNKNOWN, models)
            continue
        subjects = []
        for letter, model in zip("ab", models, strict=True):
            path = folder / f"inner-{letter}.onnx"
            save(model, path)
            subjects.append(Subject(letter.upper(), path, model))
        inner = replace(pair, a=subjects[0], b=subjects[1])
        part = compared(inner, reference_of(inner, None), None, folder)
        yield from (replace(row, inputs=f"{label}: {row.inputs}", output=name) for row in part.rows)


def _pieces(
    sides: tuple[_Opened, _Opened], scopes: tuple[Scope, ...], name: str
) -> tuple[ModelProto, ModelProto] | str:
    """Returns two models that compute a value from equal inputs, or why this is impossible."""
    (a, b), (mine, other) = sides, scopes
    behind = b.cut(other, name, lambda read: a.varies(mine, read))
    before = a.cut(
        mine, name,
        lambda read: read in behind.inputs
        or (mine.owner(read) is not mine and a.varies(mine, read)),
    )  # fmt: skip
    inputs = []
    for read_name in dict.fromkeys((*before.inputs, *behind.inputs)):
        kind = a.facts.type(mine, read_name)
        if kind is None:
            return f"the type of {read_name!r} is unknown, so no inputs can be generated"
        inputs.append(ValueInfoProto(name=read_name, type=kind))
    return a.model_of(mine, before, inputs, name), b.model_of(other, behind, inputs, name)


@dataclass(frozen=True, slots=True)
class _Cut:
    """The nodes that compute a value, and the constants and other values that the nodes read."""

    nodes: list[NodeProto]
    constants: list[TensorProto]
    inputs: list[str]


class _Opened:
    """One of the two compared models, and the known types and constants of its graphs."""

    def __init__(self, model: ModelProto, adapters: Registry) -> None:
        self.model, self.document = model, Document(model)
        view = weights.checkable(weights.carve_model(model)[0])
        self.facts = Facts(self.document, Weights(), adapters, lambda: view)

    def places(self, name: str) -> Iterator[Scope]:
        """Yields the subgraphs and functions in which a node computes a value of this name."""
        for scope in self.document.scopes():
            if scope is not self.document.main and name in scope.producers:
                yield scope

    def varies(self, scope: Scope, name: str) -> bool:
        """Returns whether a value that the graph can read depends on an input."""
        waiting, visited = [name], set[str]()
        while waiting:
            read = waiting.pop()
            owner = scope.owner(read)
            if owner is None or read in visited or self._constant(owner, read) is not None:
                continue
            visited.add(read)
            if read not in owner.producers:
                return True
            waiting += walk.reads(owner.node(owner.producers[read]))
        return False

    def cut(self, scope: Scope, name: str, is_given: Callable[[str], bool]) -> _Cut:
        """Collects the nodes that compute a value from constants and from given values."""
        nodes = dict[tuple[int, int], NodeProto]()
        constants, inputs, waiting, visited = [], [], [name], set[str]()
        while waiting:
            read = waiting.pop()
            owner = scope.owner(read)
            if owner is None or read in visited:
                continue
            visited.add(read)
            constant = None if read == name else self._constant(owner, read)
            if constant is not None:
                constants.append(constant)
            elif read not in owner.producers or (read != name and is_given(read)):
                inputs.append(read)
            else:
                position = owner.producers[read]
                node = nodes[owner.depth, position] = owner.node(position)
                waiting += walk.reads(node)
        return _Cut([nodes[at] for at in sorted(nodes)], constants, inputs)

    def _constant(self, owner: Scope, name: str) -> TensorProto | None:
        if name in owner.initializers:
            return owner.initializers[name]
        value = self.facts.constant(owner, name) if name in owner.sparse else None
        return None if value is None else from_array(value, name)

    def model_of(
        self, scope: Scope, extracted: _Cut, inputs: Sequence[ValueInfoProto], name: str
    ) -> ModelProto:
        """Returns a model of the extracted nodes, whose only output is the value `name`."""
        top = scope.root.top.proto
        home = top if isinstance(top, FunctionProto) else self.model
        small = ModelProto(
            ir_version=max(self.model.ir_version, 4), opset_import=home.opset_import
        )  # below IR 4, constants would be inputs
        small.functions.extend(cone.called(self.model, extracted.nodes))
        small.graph.name = "reduced"
        small.graph.node.extend(extracted.nodes)
        small.graph.initializer.extend(extracted.constants)
        small.graph.input.extend(inputs)
        small.graph.output.append(ValueInfoProto(name=name))
        return small

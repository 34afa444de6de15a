# SPDX-License-Identifier: Apache-2.0
"""Handles shapes declared in subgraphs, which may be wrong because operators ignore them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from opshift.author.registry import Registry
from opshift.convert.legal import checker
from opshift.model import walk, weights
from opshift.opsets.types import tensors_in
from opshift.protos import GraphProto, ModelProto, TensorShapeProto, TypeProto
from opshift.protos.copies import copied
from opshift.records import dataclass

Shaped: TypeAlias = TypeProto.Tensor | TypeProto.SparseTensor


@dataclass(frozen=True, slots=True)
class NestedShape:
    """A shape that a subgraph declares for one of its values."""

    graph: str
    value: str
    tensor: Shaped
    shape: TensorShapeProto

    @staticmethod
    def of(graph: GraphProto, value: str, tensor: Shaped) -> NestedShape:
        shape = TensorShapeProto()
        shape.CopyFrom(tensor.shape)
        return NestedShape(graph.name, value, tensor, shape)

    def restore(self) -> None:
        """Restores the declared shape."""
        self.tensor.shape.CopyFrom(self.shape)

    def keep_rank(self) -> None:
        """Removes the declared lengths, but keeps the rank."""
        self.restore()
        for dim in self.tensor.shape.dim:
            dim.Clear()

    def forget(self) -> None:
        """Removes the declared shape."""
        self.tensor.ClearField("shape")

    def __str__(self) -> str:
        return f"{self.value!r} in graph {self.graph!r}"


def without(model: ModelProto) -> ModelProto:
    """Returns a copy of a model without the shapes that its subgraphs declare."""
    copy = copied(model)
    for one in _declared(copy):
        one.forget()
    return copy


def drop_contradicted(skeleton: ModelProto, adapters: Registry) -> list[str]:
    """Removes declared shapes in subgraphs that onnx rejects; returns the values with such shapes.

    A binary search finds these shapes, because onnx reports one contradiction without its origin.
    """
    declared = list(_declared(skeleton))
    if not declared:
        return []

    def fits() -> bool:
        return checker.lenient(weights.checkable(skeleton), adapters, full=True) is None

    for one in declared:
        one.forget()
    if not fits():
        _each(declared, NestedShape.restore)
        return []
    wrong = _misfits(declared, fits)
    for one in wrong:
        one.keep_rank()
        if not fits():
            one.forget()
    return [str(one) for one in wrong]


def _misfits(declared: Sequence[NestedShape], fits: Callable[[], bool]) -> list[NestedShape]:
    """Restores the declared shapes that onnx accepts, and returns the others."""
    _each(declared, NestedShape.restore)
    if fits():
        return []
    _each(declared, NestedShape.forget)
    if len(declared) == 1:
        return list(declared)
    middle = len(declared) // 2
    return [*_misfits(declared[:middle], fits), *_misfits(declared[middle:], fits)]


def _each(declared: Sequence[NestedShape], change: Callable[[NestedShape], None]) -> None:
    for one in declared:
        change(one)


def _declared(model: ModelProto) -> Iterator[NestedShape]:
    """Yields the shapes that subgraphs declare, including subgraphs of functions."""
    for top in walk.tops(model):
        for graph in (
            one for inner in walk.graphs_directly_in(top) for one in walk.graphs_in(inner)
        ):
            for value in (*graph.input, *graph.value_info, *graph.output):
                for tensor in tensors_in(value.type):
                    if tensor.HasField("shape"):
                        yield NestedShape.of(graph, value.name, tensor)

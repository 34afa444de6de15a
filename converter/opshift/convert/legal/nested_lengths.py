# SPDX-License-Identifier: Apache-2.0
"""Handles shapes declared in subgraphs, which may be wrong because operators ignore them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.author.scope_types import by_graph
from opshift.convert.legal import checker
from opshift.model import walk, weights
from opshift.model.cone import SingleNodes
from opshift.opsets.types import tensors_in
from opshift.protos import GraphProto, ModelProto, NodeProto, TensorShapeProto, TypeProto
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
    nested = (graph for top in walk.tops(copy) for graph in walk.graphs_directly_in(top))
    _each(_declared(nested), NestedShape.forget)
    return copy


def drop_contradicted(skeleton: ModelProto, adapters: Registry) -> list[str]:
    """Removes declared shapes in subgraphs that onnx rejects; returns the values with such shapes.

    A binary search finds these shapes, because onnx reports one contradiction without its origin.
    The search looks at each node of the main graph alone, and at the whole model only for the rest.
    """
    by_node = [
        (node, list(_declared(graph for _, graph in walk.graphs_of(node))))
        for node in skeleton.graph.node
    ]
    tops = (top for top in walk.tops(skeleton) if top is not skeleton.graph)
    in_other_graphs = _declared(graph for top in tops for graph in walk.graphs_directly_in(top))
    declared = [
        *(declaration for _, of_node in by_node for declaration in of_node),
        *in_other_graphs,
    ]
    if not declared:
        return []

    def fits(model: ModelProto = skeleton) -> bool:
        return checker.lenient(weights.checkable(model), adapters, full=True) is None

    _each(declared, NestedShape.forget)
    if not fits():
        _each(declared, NestedShape.restore)
        return []
    inferred = safe_inference.infer(weights.checkable(skeleton), adapters)
    parts = SingleNodes(skeleton, by_graph(inferred)[0].own)

    def fits_alone(node: NodeProto) -> bool:
        return fits(parts.model_of(node))

    wrong: list[NestedShape] = []
    for node, of_node in by_node:
        if of_node and fits_alone(node):
            wrong += _misfits(of_node, partial(fits_alone, node))
    wrong_ids = {id(declaration) for declaration in wrong}
    wrong += _misfits(
        [declaration for declaration in declared if id(declaration) not in wrong_ids], fits
    )
    _keep_ranks(wrong, fits)
    return [str(declaration) for declaration in wrong]


def _keep_ranks(wrong: Sequence[NestedShape], fits: Callable[[], bool]) -> None:
    """Restores the ranks of wrong shapes, unless onnx rejects a rank too."""
    _each(wrong, NestedShape.keep_rank)
    if fits():
        return
    _each(wrong, NestedShape.forget)
    for declaration in wrong:
        declaration.keep_rank()
        if not fits():
            declaration.forget()


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


def _each(declared: Iterable[NestedShape], change: Callable[[NestedShape], None]) -> None:
    for declaration in declared:
        change(declaration)


def _declared(graphs: Iterable[GraphProto]) -> Iterator[NestedShape]:
    """Yields the shapes that these graphs and their subgraphs declare."""
    for graph in (inner for outer in graphs for inner in walk.graphs_in(outer)):
        for value in (*graph.input, *graph.value_info, *graph.output):
            for tensor in tensors_in(value.type):
                if tensor.HasField("shape"):
                    yield NestedShape.of(graph, value.name, tensor)

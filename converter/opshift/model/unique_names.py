# SPDX-License-Identifier: Apache-2.0
"""Renames the values of subgraphs that have the name of a value of an outer graph."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.model.names import free_name
from opshift.model.rename import rename_defined
from opshift.model.walk import Container, containers, graphs_directly_in, own_names, tops
from opshift.protos import ModelProto


def make_unique(model: ModelProto) -> list[str]:
    """Renames each value of a subgraph whose name an outer graph defines; returns the old names.

    Runtimes accept such a name if the subgraph is computed before the outer value, but inference of
    onnx takes both values for one.
    """
    renaming = _Renaming(model)
    return [name for top in tops(model) for name in renaming.inside(top, frozenset())]


class _Renaming:
    """The names of a model, which are read when the first new name is needed."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.used: set[str] = set()

    def inside(self, container: Container, outer: frozenset[str]) -> Iterator[str]:
        """Renames values in the subgraphs of a graph or function, the outermost subgraph first."""
        graphs = list(graphs_directly_in(container))
        visible = outer.union(own_names(container)) if graphs else outer
        for graph in graphs:
            repeated = sorted(visible.intersection(filter(None, own_names(graph))))
            if repeated:
                rename_defined(graph, {name: self.new_name(name) for name in repeated})
            yield from repeated
            yield from self.inside(graph, visible)

    def new_name(self, name: str) -> str:
        if not self.used:
            for container in containers(self.model):
                self.used.update(own_names(container), *(node.input for node in container.node))
        new = free_name(name, self.used)
        self.used.add(new)
        return new

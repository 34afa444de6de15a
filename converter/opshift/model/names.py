# SPDX-License-Identifier: Apache-2.0
"""Indexes the names of values: their readers and their possible writers."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from typing import TypeAlias

from opshift import versions
from opshift.model.scope import Root, Scope
from opshift.protos import GraphProto, ModelProto, NodeProto

Owned: TypeAlias = tuple[Scope | None, str]  # the scope that defines a name, and the name


def unused_prefix(data: bytes) -> str:
    """Returns a prefix for new names that does not occur in the bytes of a model."""
    prefix, number = "opshift_", 0
    while prefix.encode() in data:
        number += 1
        prefix = f"opshift{number}_"
    return prefix


def free_name(name: str, used: Collection[str], first: int = 1) -> str:
    """Returns a name with the lowest number, from `first` on, for which the name is not used."""
    numbered = (f"{name}_{number}" for number in itertools.count(first))
    return next(candidate for candidate in numbered if candidate not in used)


class Names:
    """The reader counts of all values of a document, recomputed after each change of nodes.

    A training algorithm continues the main graph and reads its values, so both are counted
    together. The readers in each function are counted separately.
    """

    def __init__(self, model: ModelProto, roots: list[Root]) -> None:
        self.model = model
        self.roots = roots
        self._counts: dict[Root, Counter[Owned]] = {}
        self._by_name: dict[Root, Counter[str]] = {}
        self._bound: set[Owned] | None = None
        self._families: dict[Root, list[Root]] = {}

    def is_read(self, scope: Scope, name: str) -> bool:
        """Returns whether a node, output or annotation reads the value with this name."""
        return self.count((scope.owner(name), name), scope.root) > 0

    def count(self, value: Owned, root: Root) -> int:
        """Returns how often a value is read in its graph or function, at any depth."""
        if len(root.scopes) == 1 and len(self.family(root)) == 1:
            return self._names(root)[value[1]]
        return self.readers(root)[value]

    def readers(self, root: Root) -> Counter[Owned]:
        """Counts the reads of each value of a graph or function; branches may share a name."""
        family = self.family(root)
        if family[0] not in self._counts:
            counts = self._counts[family[0]] = Counter()
            for member in family:
                for scope in member.scopes:
                    producers = (
                        scope.producers
                    )  # contains most names, which saves a search outwards
                    for name, count in names_read(scope).items():
                        owner = scope if name in producers else scope.owner(name)
                        counts[owner, name] += count
            counts.update(self._from_outside(family))
        return self._counts[family[0]]

    def may_be_set(self, owner: Scope, name: str) -> bool:
        """Returns whether a caller or training may replace the value of an initializer.

        From IR 4 on, an initializer that is also a graph input is only the default of the input.
        """
        if name in owner.inputs and self.model.ir_version > 3:
            return True
        return (owner, name) in self.bound

    @property
    def bound(self) -> set[Owned]:
        """Returns the initializers that training sets."""
        if self._bound is None:
            self._bound = {value for value, _ in self._bindings()}
        return self._bound

    def _bindings(self) -> Iterator[tuple[Owned, Owned]]:
        """Yields the initializer and the new value of each training binding."""
        if not self.model.training_info:
            return
        tops = {root.name: root.top for root in self.roots if root.kind == "training"}
        main = self.roots[0].top
        for i, training in enumerate(self.model.training_info):
            first, step = (tops.get(f"training_info[{i}].{p}") for p in TRAINING_PARTS)
            for bindings, source in (
                (training.initialization_binding, first),
                (training.update_binding, step or main),
            ):
                for entry in bindings:
                    owner = step.owner(entry.key) if step is not None else None
                    value = (source.owner(entry.value) if source else None, entry.value)
                    yield (owner or main, entry.key), value

    def _from_outside(self, family: list[Root]) -> Iterator[Owned]:
        """Yields values named by training bindings, quantization annotations and attributes."""
        for both in self._bindings():
            yield from (value for value in both if value[0] and value[0].root in family)
        for root in family:
            named = [(scope, name) for scope in root.scopes for name in parameters_of(scope)]
            for scope, name in (*named, *_names_in_attributes(root)):
                yield scope.owner(name), name

    def _names(self, root: Root) -> Counter[str]:
        """Counts the readers of each name, for a graph or function without subgraphs."""
        if root not in self._by_name:
            counts = self._by_name[root] = names_read(root.top)
            counts.update(name for _, name in self._from_outside([root]))
        return self._by_name[root]

    def family(self, root: Root) -> list[Root]:
        """Returns the graphs that share values: the main graph and its training algorithms."""
        if root not in self._families:  # all at once: a model may have thousands of functions
            members: dict[Root, list[Root]] = {}
            for member in self.roots:
                above = member.top.parent.root if member.top.parent is not None else member
                self._families[member] = members.setdefault(above, [])
                self._families[member].append(member)
        return self._families[root]

    def forget(self) -> None:
        """Discards the reader counts after a change of nodes; the next use recomputes them."""
        self._counts.clear()
        self._by_name.clear()


TRAINING_PARTS = ("initialization", "algorithm")


def names_read(scope: Scope) -> Counter[str]:
    """Counts how often the nodes and outputs of one scope read each name."""
    names: list[str] = []  # one Counter of a list, because an update takes 2 µs for each node
    for i, node in enumerate(scope.proto.node):
        if i not in scope.removed:
            names.extend(node.input)
    names.extend(o if isinstance(o, str) else o.name for o in scope.proto.output)
    return Counter(names)


def parameters_of(scope: Scope) -> Iterator[str]:
    """Yields the names of scales and zero points in quantization annotations."""
    if isinstance(scope.proto, GraphProto):
        for note in scope.proto.quantization_annotation:
            yield from (entry.value for entry in note.quant_parameter_tensor_names)


def _names_in_attributes(root: Root) -> Iterator[tuple[Scope, str]]:
    """Yields names in attributes of training operators, such as the values to differentiate."""
    for key, places in root.index.items():
        if key[0] == versions.TRAINING:
            for scope, position in places:
                yield from ((scope, name) for name in _strings(scope.node(position)))


def _strings(node: NodeProto) -> Iterator[str]:
    for attribute in node.attribute:
        for text in (attribute.s, *attribute.strings):
            yield text.decode(errors="replace")


def bound_names(model: ModelProto) -> set[str]:
    """Returns the names of the initializers that training sets."""
    return {
        entry.key
        for training in model.training_info
        for entry in (*training.initialization_binding, *training.update_binding)
    }

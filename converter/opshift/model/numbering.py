# SPDX-License-Identifier: Apache-2.0
"""Numbers new names by their first use in the result, so that equal results have equal names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from opshift.model.rename import rename_annotations, rename_own
from opshift.model.walk import (
    Container,
    containers,
    graphs_in_defaults,
    graphs_of,
    stated_names,
    tops,
)
from opshift.protos import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

Named: TypeAlias = NodeProto | GraphProto | TensorProto | ValueInfoProto


def number(model: ModelProto, prefixes: Sequence[str]) -> dict[str, str]:
    """Numbers the names with these prefixes in the order in which the nodes mention them.

    All get the first prefix. Returns the new name of each changed name.
    """
    new = re.compile(rf"(?:{'|'.join(map(re.escape, prefixes))})[0-9]+_(.*)", re.DOTALL)
    names: dict[str, str] = {}
    for top in tops(model):
        for name in _mentioned(top):
            if name not in names and (found := new.fullmatch(name)) is not None:
                names[name] = f"{prefixes[0]}{len(names) + 1}_{found[1]}"
    names = {old: given for old, given in names.items() if old != given}
    for container in containers(model) if names else ():
        _rename(container, names)
    return names


def new_names(model: ModelProto, prefix: str) -> list[str]:
    """The numbered names with a prefix, in the order in which the nodes mention them."""
    new = re.compile(rf"{re.escape(prefix)}[0-9]+_.*", re.DOTALL)
    found = (name for top in tops(model) for name in _mentioned(top) if new.fullmatch(name))
    return list(dict.fromkeys(found))


def shift(model: ModelProto, prefix: str, to: str, by: int) -> None:
    """Gives the numbered names with a prefix another prefix, and higher numbers."""
    names = {}
    for name in new_names(model, prefix):
        number, _, hint = name[len(prefix) :].partition("_")
        names[name] = f"{to}{int(number) + by}_{hint}"
    for container in containers(model):
        _rename(container, names)


def _mentioned(container: Container) -> Iterator[str]:
    """The names in a container: first those in its nodes, node by node."""
    for node in container.node:
        yield from node.input
        yield from node.output
        yield node.name
        for _, graph in graphs_of(node):
            yield from _mentioned(graph)
    for graph in graphs_in_defaults(container):
        yield from _mentioned(graph)
    yield from _described(container)


def _described(container: Container) -> Iterator[str]:
    """The names that a graph mentions beside its nodes."""
    if isinstance(container, GraphProto):
        yield container.name
        yield from stated_names(container)
        yield from (one.name for one in container.output)
    yield from (one.name for one in container.value_info)


def _rename(container: Container, names: dict[str, str]) -> None:
    for node in container.node:
        rename_own(node, names)
    if isinstance(container, GraphProto):
        rename_annotations(container, names)
    for named in _named(container):
        if named.name in names:
            named.name = names[named.name]


def _named(container: Container) -> Iterator[Named]:
    """Everything in a container that has a name."""
    yield from container.node
    yield from container.value_info
    if isinstance(container, GraphProto):
        yield container
        yield from container.initializer
        yield from container.input
        yield from container.output
        yield from (sparse.values for sparse in container.sparse_initializer)

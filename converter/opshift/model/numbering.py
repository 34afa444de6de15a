# SPDX-License-Identifier: Apache-2.0
"""Numbers new names by their first use in the result, so that equal results have equal names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from opshift.model.bytes.outline import spans
from opshift.model.rename import described, rename_described, rename_field, rename_own
from opshift.model.walk import (
    Container,
    graphs_in_defaults,
    graphs_of,
    tops,
)
from opshift.protos import FunctionProto, GraphProto, ModelProto, NodeProto


def number(model: ModelProto, prefixes: Sequence[str]) -> dict[str, str]:
    """Renumbers the names with these prefixes in the order in which nodes mention them.

    All renumbered names begin with the first of the prefixes. Returns the new name of each changed
    name.
    """
    either = "|".join(map(re.escape, prefixes))
    new, mark = re.compile(rf"(?:{either})[0-9]+_(.*)", re.DOTALL), re.compile(either.encode())
    names: dict[str, str] = {}
    marked: list[tuple[Container, list[NodeProto]]] = []
    for top in tops(model):
        for name in _mentioned(top, mark, marked):
            if name not in names and (match := new.fullmatch(name)) is not None:
                names[name] = f"{prefixes[0]}{len(names) + 1}_{match[1]}"
    names = {old: new_name for old, new_name in names.items() if old != new_name}
    for container, nodes in marked if names else ():
        _rename(container, nodes, names)
    return names


def _marked(container: Container, mark: re.Pattern[bytes]) -> list[NodeProto]:
    """Returns the nodes whose bytes contain a prefix, which is faster than comparing names."""
    data = container.SerializeToString()
    if mark.search(data) is None:
        return []
    nodes = spans(data, of_function=isinstance(container, FunctionProto))
    return [container.node[i] for i, node in enumerate(nodes) if mark.search(node) is not None]


def _mentioned(
    container: Container, mark: re.Pattern[bytes], marked: list[tuple[Container, list[NodeProto]]]
) -> Iterator[str]:
    """Yields the names of a graph or function, first those of nodes that contain a prefix.

    Adds to `marked` each visited graph or function with its nodes that contain a prefix.
    """
    nodes = _marked(container, mark)
    marked.append((container, nodes))
    for node in nodes:
        yield from node.input
        yield from node.output
        yield node.name
        for _, graph in graphs_of(node):
            yield from _mentioned(graph, mark, marked)
    for graph in graphs_in_defaults(container):
        yield from _mentioned(graph, mark, marked)
    if isinstance(container, GraphProto):
        yield container.name
    yield from (message.name for message in described(container))


def _rename(container: Container, nodes: Collection[NodeProto], names: dict[str, str]) -> None:
    for node in nodes:
        rename_own(node, names)
    rename_described(container, names)
    for named in (*nodes, *([container] if isinstance(container, GraphProto) else ())):
        rename_field(named, "name", names)

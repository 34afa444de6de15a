# SPDX-License-Identifier: Apache-2.0
"""Finds functions that a runtime does not load, although it loads functions in general."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from opshift.model import walk

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease
    from opshift.protos import FunctionProto


def _has_graphs(function: FunctionProto) -> bool:
    return any(map(walk.holds_graphs, function.node))


def _has_unread_inputs(function: FunctionProto) -> bool:
    read = {*function.output, *(name for node in function.node for name in walk.reads(node))}
    return not read.issuperset(function.input)


CONTENTS = {
    "graphs": (_has_graphs, "a node that has a subgraph"),
    "unread inputs": (_has_unread_inputs, "an input that no node reads"),
}


def unloaded(functions: Iterable[FunctionProto], row: RuntimeRelease) -> Iterator[tuple[str, str]]:
    """Yields the name of each function that a runtime does not load, with the reason."""
    for function in functions:
        for name in row.texts("not_in_functions"):
            has, shown = CONTENTS[name]
            if has(function):
                yield function.name, f"{row.shown} cannot load a function with {shown}"

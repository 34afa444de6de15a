# SPDX-License-Identifier: Apache-2.0
"""The attributes, inputs, outputs and element types of contrib operators that a runtime lacks.

`python -m tools.corpus.runtimes.field_table` writes `fields.txt`. The first line names a runtime
and its measured releases. Each further line names an operator, its unknown fields, and the releases
that do not know each field. A field is the name of an attribute, or a number of outputs:
`outputs>2` stands for more than two outputs. A field such as `i1@0+2` means that the CPU has no
kernel if the first or third input is int8; `*` means that the CPU has no kernel for any type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from opshift import plugins
from opshift.opsets import measured
from opshift.opsets.kernels import LONG
from opshift.records import dataclass
from opshift.text import qualified

if TYPE_CHECKING:
    from opshift.protos import NodeProto

Key = tuple[str, str]  # (domain, operator)


@dataclass(frozen=True, slots=True)
class FieldTable:
    """The attributes, inputs and outputs that the measured releases of one runtime lack."""

    runtime: str
    releases: tuple[str, ...]
    # by operator and field: the numbers of the releases
    unknown: Mapping[Key, Mapping[str, tuple[int, ...]]]

    def covers(self, release: str) -> bool:
        """Returns whether a release was measured, or lies between two measured releases."""
        return bool(measured.around(release, self.releases))

    def of(self, key: Key, release: str) -> frozenset[str]:
        """Returns the attributes, inputs and outputs of an operator that a release lacks."""
        around = measured.around(release, self.releases)
        fields = self.unknown.get(key, {}).items() if around else ()
        return frozenset(field for field, releases in fields if around <= set(releases))


def given(node: NodeProto, unknown: Collection[str]) -> str | None:
    """Returns as text the first attribute, input or output of a node that is in `unknown`."""
    for attribute in node.attribute:
        if attribute.name in unknown:
            return f"an attribute {attribute.name}"
    for side, names in (("inputs", node.input), ("outputs", node.output)):
        for field in sorted(unknown):
            kind, _, most = field.partition(">")
            if kind == side and most and len(names) > int(most):
                return f"more than {most} {side}"
    return None


def without_kernel(
    node: NodeProto, unknown: Collection[str], type_of: Callable[[str], str]
) -> str | None:
    """Returns the element type for which a node has no kernel, "" for all types, or None."""
    if "*" in unknown:
        return ""
    for field in sorted(unknown):
        short, _, positions = field.partition("@")
        for i in positions.split("+") if positions else ():
            name = node.input[int(i)] if int(i) < len(node.input) else ""
            if name and type_of(name) == LONG[short]:
                return LONG[short]
    return None


@functools.cache
def shipped() -> Mapping[str, FieldTable]:
    """Returns opshift's own tables of missing attributes, inputs and outputs, by runtime."""
    table = read(plugins.data("opshift.opsets", "fields.txt").decode())
    return {table.runtime: table}


def read(text: str) -> FieldTable:
    """Parses a table from its text."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    runtime, *releases = lines[0].split()
    unknown: dict[Key, dict[str, tuple[int, ...]]] = {}
    for line in lines[1:]:
        name, *groups = line.split("; ")
        domain, _, op = name.rpartition(".")
        pairs = [group.split() for group in groups]
        unknown[domain, op] = {
            field: tuple(measured.numbers(where, releases)) for field, where in pairs
        }
    return FieldTable(runtime, tuple(releases), unknown)


def written(table: FieldTable) -> Iterator[str]:
    """Yields the lines of a table's text, which `read` parses."""
    yield " ".join([table.runtime, *table.releases])
    for (domain, op), fields in sorted(table.unknown.items()):
        groups = [
            f"{field} {measured.shown(where, table.releases)}"
            for field, where in sorted(fields.items())
        ]
        yield "; ".join([qualified(domain, op), *groups])

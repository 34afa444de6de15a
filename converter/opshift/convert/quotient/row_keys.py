# SPDX-License-Identifier: Apache-2.0
"""The keys of the rows that a step looks at, and the names of their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from opshift.convert.classes.node_class import NodeClass
from opshift.convert.classes.proof import Proof
from opshift.convert.classes.rows import GraphField, names_in
from opshift.convert.quotient import Key
from opshift.convert.quotient.class_plan import ClassPlan
from opshift.model.bytes import wire


class RowKeys:
    """What tells the rows of one class from each other: names, and who reads what."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof

    def of(self, plan: ClassPlan, classes: Sequence[NodeClass]) -> dict[int, Key]:
        """The key of each row that a step looks at."""
        proof, rows = self.proof, self.proof.rows
        touched = {one for one in dict.fromkeys(classes) if plan.touches(one.signature)}
        looked = [row for row, one in enumerate(classes) if one in touched]
        unread = {name for row in looked for name in rows.outputs_of(row) if name}
        unread.difference_update(rows.inputs)
        unread.difference_update(names_in(proof.data, proof.others, GraphField.OUTPUT))
        masks = {row: self._mask(row, unread) for row in looked} if unread else {}
        starts, ends = rows.name_starts, rows.name_ends
        alike = {one for one in touched if _has_equal_inputs(one)}
        firsts = {row: self._firsts(row) for row in looked if classes[row] in alike}
        return {
            row: (
                classes[row],
                masks.get(row, 0),
                ends[row] > starts[row] + 2,
                firsts.get(row, ()),
            )
            for row in looked
        }

    def _firsts(self, row: int) -> tuple[int, ...]:
        """Where each value that a row reads is among its inputs first, if one is read twice."""
        names, first = self.proof.rows.inputs_of(row), dict[bytes, int]()
        found = [first.setdefault(name, i) if name else i for i, name in enumerate(names)]
        return tuple(found) if found != [*range(len(names))] else ()

    def _mask(self, row: int, unread: Set[bytes]) -> int:
        """Which outputs of a row nothing reads."""
        outputs = self.proof.rows.outputs_of(row)
        return sum(1 << i for i, name in enumerate(outputs) if name in unread)

    def name(self, row: int) -> bytes:
        """The name of a node."""
        rows, data = self.proof.rows, self.proof.data
        if not rows.name_ends[row]:
            return b""
        _, start = wire.read_varint(data, rows.name_starts[row] + 1)
        return data[start : rows.name_ends[row]]

    def names(self, row: int) -> list[bytes]:
        """The names of a node and of those in its graphs."""
        name = self.name(row)
        inside = self.proof.nested[row].titles if row in self.proof.nested else []
        return [name, *inside] if name else inside

    def repeated(self) -> frozenset[bytes]:
        """The names that several nodes have."""
        rows = range(len(self.proof.classes))
        counts = Counter(name for row in rows for name in self.names(row))
        return frozenset(name for name, count in counts.items() if count > 1)


def _has_equal_inputs(one: NodeClass) -> bool:
    """Whether two inputs of a class have one facet, so that they may be one value."""
    return len(set(one.inputs)) < len(one.inputs)

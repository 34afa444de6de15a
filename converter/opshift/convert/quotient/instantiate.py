# SPDX-License-Identifier: Apache-2.0
"""Fills in the templates for each row, and copies the bytes of the model around them."""

from __future__ import annotations

import bisect
import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from opshift.convert.classes.frames import filled, framed
from opshift.convert.classes.proof import Proof
from opshift.convert.classes.rows import GraphField, name_of, names_in
from opshift.convert.quotient.class_journal import Order, at
from opshift.convert.quotient.template import (
    CONSTANT,
    FRESH,
    INPUT,
    OUTPUT,
    Answer,
    Beyond,
    Template,
)
from opshift.model.bytes import wire

_NODE, _NAME = 1 << 3 | 2, 3 << 3 | 2


class Instance:
    """One model in which templates replace nodes."""

    def __init__(self, proof: Proof, answers: dict[int, Answer], prefix: bytes) -> None:
        self.data = proof.data
        self.span = proof.graph
        self.rows = proof.rows
        self.others = proof.others
        self.answers = answers  # by row
        self.prefix = prefix
        self.made = 0
        self.constants: dict[bytes, bytes] = {}  # content -> name
        self.changed: dict[int, bytes] = {}  # row -> what stands in its place
        self.nested = proof.nested
        self.nodes = proof.nodes
        self.classes = proof.classes
        self.operations = proof.memo.operations
        self.gone: set[bytes] = set()

    def graph(self) -> list[bytes | memoryview]:
        """The fields of the graph, in pieces."""
        self._sweep()
        rows = [(row, a.template) for row, a in self.answers.items() if a.template is not None]
        for row, template in rows:
            if row not in self.changed:
                self.changed[row] = self._fill(row, template)
                self.nodes += len(template.nodes) + template.inside - self._size(row)
        cuts = [
            (self.rows.starts[row], self.rows.ends[row], new) for row, new in self.changed.items()
        ]
        cuts += [(start, end, b"") for start, end in self._useless()]
        return [*self._spliced(sorted(cuts)), *self._new_constants()]

    # -- templates ---------------------------------------------------------------------------

    def _fill(self, row: int, template: Template) -> bytes:
        rows = self.rows
        inputs, outputs = rows.inputs_of(row), rows.outputs_of(row)
        made: dict[int, bytes] = {}

        def fresh(number: int) -> bytes:
            if number not in made:
                made[number] = self._fresh(template.hints[number])
            return made[number]

        start, end = rows.name_starts[row], rows.name_ends[row]
        out = []
        for node in template.nodes:
            parts = []
            for tag, kind, number in node.places:
                if kind == INPUT:
                    name = inputs[number]
                elif kind == OUTPUT:
                    name = outputs[number]
                elif kind == FRESH:
                    name = fresh(number)
                elif kind == CONSTANT:
                    name = self._constant(template.constants[number])
                else:
                    name = b""
                parts.append(framed(tag, name))
            if node.main:
                parts.append(self.data[start:end])
            elif node.hint:
                parts.append(framed(_NAME, self._fresh(node.hint)))
            if node.graphs is None:
                parts.append(node.rest)
            else:
                names = self._inside(row, node.inside, template, fresh)
                parts.append(filled(node.graphs, names))
            if node.main:
                parts.append(self.data[rows.stops[row] : rows.ends[row]])
            out.append(framed(_NODE, b"".join(parts)))
        return b"".join(out)

    def _inside(
        self,
        row: int,
        inside: Sequence[tuple[str, int]],
        template: Template,
        fresh: Callable[[int], bytes],
    ) -> Iterator[bytes]:
        """The names of one row in the graphs of a node."""
        inputs = self.rows.inputs_of(row)
        names = self.nested[row].names if row in self.nested else ()
        for kind, number in inside:
            if kind == "n":
                yield names[number]
            elif kind == "i":
                yield inputs[number]
            elif kind == "c":
                yield self._constant(template.constants[number])
            else:
                yield fresh(number)

    def _size(self, row: int) -> int:
        """How many nodes a row is, with those inside it."""
        return 1 + (self.nested[row].nodes if row in self.nested else 0)

    def _fresh(self, hint: bytes) -> bytes:
        self.made += 1
        return self.prefix + b"%d_" % self.made + hint

    def _constant(self, content: bytes) -> bytes:
        name = self.constants.get(content)
        if name is None:
            name = self.constants[content] = self._fresh(b"const")
        return name

    def _new_constants(self) -> Iterator[bytes]:
        """The new initializers, in the order in which the steps would have placed them."""
        if not self.constants:
            return
        first: dict[bytes, Order] = {}
        seen: set[int] = set()
        for row, answer in sorted(self.answers.items()):
            if answer.placed and id(answer) not in seen:
                seen.add(id(answer))
                for order, content in answer.placed:
                    place = self.order(order, row)
                    if content not in first or place < first[content]:
                        first[content] = place
        for content in sorted(self.constants, key=first.__getitem__):
            body = content + framed(8 << 3 | 2, self.constants[content])
            yield wire.framed(GraphField.INITIALIZER, body)

    def order(self, order: Order, row: int) -> Order:
        """The order of a node of a class, for one row."""
        return at(order, row, self._begins.get(self._operator(row), 0))

    @functools.cached_property
    def _begins(self) -> dict[tuple[str, str], int]:
        """The first row of each operator, which counts only where nodes hold graphs."""
        found: dict[tuple[str, str], int] = {}
        for row in range(len(self.classes)) if self.nested else ():
            found.setdefault(self._operator(row), row)
        return found

    def _operator(self, row: int) -> tuple[str, str]:
        node = self.operations[self.classes[row].signature].proto
        return node.domain, node.op_type

    # -- what is left unread -----------------------------------------------------------------

    def unread_rows(self) -> Collection[int]:
        """The rows whose nodes only the replaced nodes read."""
        self._sweep()
        return self.changed.keys()

    def _sweep(self) -> None:
        """Removes the nodes and constants that only the replaced nodes read."""
        rows = self.rows
        lost = Counter[bytes]()
        for row, answer in self.answers.items():
            if answer.template is not None:
                inputs = rows.inputs_of(row)
                for position, count in answer.template.lost:
                    lost[inputs[position]] += count
        waiting = [name for name, count in lost.items() if count > 0]
        if not waiting:
            return
        reads = Counter(rows.inputs)
        reads.update(names_in(self.data, self.others, GraphField.OUTPUT))
        reads.subtract(lost)
        given = set(names_in(self.data, self.others, GraphField.INPUT))
        initializers = set(names_in(self.data, self.others, GraphField.INITIALIZER))
        writers: dict[bytes, int] | None = None
        while waiting:
            name = waiting.pop()
            if not name or reads[name] > 0 or name in given or name in self.gone:
                continue
            if name in initializers:
                self.gone.add(name)
                continue
            if writers is None:
                writers = {one: i for i, one in enumerate(rows.outputs)}
            row = bisect.bisect_right(rows.output_ends, writers[name])
            waiting += self._remove(row, reads)

    def _remove(self, row: int, reads: Counter[bytes]) -> list[bytes]:
        """Removes a node if nothing reads it; returns the names that it read."""
        rows = self.rows
        outputs = rows.outputs_of(row)
        answer = self.answers.get(row)
        if answer is not None and (answer.asked_readers or len(outputs) > 1):
            raise Beyond("a node whose readers go")
        if any(reads[name] > 0 for name in outputs if name):
            return []
        if self.operations[self.classes[row].signature].calls:
            raise Beyond("a call that nothing reads")
        inputs = rows.inputs_of(row)
        left = Counter(inputs)
        if answer is not None and answer.template is not None:
            for position, count in answer.template.lost:
                left[inputs[position]] -= count
        self.changed[row] = b""
        self.nodes -= self._size(row)
        self.gone.update(name for name in outputs if name)
        reads.subtract(left)
        return [name for name in left if name]

    def _useless(self) -> Iterator[tuple[int, int]]:
        """The fields of the graph that describe removed values."""
        for field in (GraphField.INITIALIZER, GraphField.VALUE_INFO) if self.gone else ():
            for start, body, end in self.others.get(field, ()):
                if name_of(self.data[body:end], field) in self.gone:
                    yield start, end

    def _spliced(self, cuts: Sequence[tuple[int, int, bytes]]) -> Iterator[bytes | memoryview]:
        """The graph with other bytes in some places; what is between stays as it is."""
        view = memoryview(self.data)
        pos, end = self.span
        for start, stop, new in cuts:
            if start > pos:
                yield view[pos:start]
            if new:
                yield new
            pos = stop
        yield view[pos:end]

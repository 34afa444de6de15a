# SPDX-License-Identifier: Apache-2.0
"""The refusal of a model from that of its classes: it names all nodes of each refused class."""

from __future__ import annotations

import functools
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from opshift.author import dynamic
from opshift.author.traits import Fold
from opshift.convert.classes.facets import VARIABLE
from opshift.convert.classes.proof import Proof
from opshift.convert.classes.rows import ABSENT, GraphField, names_in
from opshift.convert.quotient import Key
from opshift.convert.quotient.class_journal import Order
from opshift.convert.quotient.class_refusal import ClassRefusal
from opshift.convert.quotient.instantiate import Instance
from opshift.convert.quotient.refusing import RefusedPlace
from opshift.convert.quotient.step_counts import StepCounts
from opshift.convert.quotient.template import Answer, Beyond
from opshift.errors import Refused, RefusedNode
from opshift.model.scope import Key as Operator
from opshift.report import StepReport
from opshift.text import printable

_NAME = re.compile(r"(\0?)\bk(\d+)(?:([ion])(\d+))?\b\0?", re.ASCII)
_LEFT = re.compile(r"\bk\d", re.ASCII)

Part = str | Callable[[int], str]


class RefusedRows:
    """The nodes of a model whose classes are refused."""

    def __init__(
        self,
        proof: Proof,
        refusal: ClassRefusal,
        keys: Mapping[int, Key],
        name_of: Callable[[int], bytes],
    ) -> None:
        self.proof = proof
        self.refusal = refusal
        self.name_of = name_of
        answers = refusal.answers
        self.answers: dict[int, Answer] = {row: answers[key] for row, key in keys.items()}
        self.instance = Instance(proof, self.answers, b"")
        self._reason = functools.cache(self._why_dynamic)
        self.rows: dict[Key, list[int]] = defaultdict(list)
        for row, key in keys.items():
            self.rows[key].append(row)

    def refused(self, target: Mapping[str, int], node_budget: int | None) -> Refused:
        """The refusal; without a blocker that is left, or over the budget, the nodes decide."""
        self._require_budget(node_budget)
        found = [one for _, one in sorted(self._nodes(), key=lambda pair: pair[0])]
        if not found:
            raise Beyond("a refusal of nodes that nothing reads any more")
        told = self.refusal
        return Refused(found, dict(told.nearest), dict(target), self._steps(), told.dead_ends)

    def _require_budget(self, budget: int | None) -> None:
        """Goes on only if the steps certainly do not write more nodes than they may."""
        keys = self.refusal.keys
        written = ((keys[i], count) for i, count in self.refusal.written.items())
        if budget is not None and sum(n * len(self.rows[key]) for key, n in written) > budget:
            raise Beyond("the node budget")

    def _steps(self) -> Iterator[StepReport]:
        """What the steps before the refusal did in all."""
        counts = StepCounts[int](operator.itemgetter(0))
        for key, answer in self.refusal.answers.items():
            counts.add(answer, len(self.rows[key]))
        for number, domain, start, to in self.refusal.steps:
            yield counts.report(number, domain, start, to)

    # -- nodes -------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[tuple[tuple[Operator, Order], RefusedNode]]:
        """The refused nodes, each with its place in the order in which a step meets them."""
        gone = self.instance.unread_rows()
        for one in self.refusal.refused:
            key = self.refusal.keys[one.number]
            if self.proof.nested and one.order[0] != -1:
                raise Beyond("the order of what steps have written, beside graphs in nodes")
            node = self._parts(one, one.node.node, bytes.decode)
            detail = self._parts(one, one.node.detail, _plain)
            for row in self.rows[key]:
                if row not in gone:
                    place = (one.key, self.instance.order(one.order, row))
                    yield place, self._node(one.node, _filled(node, row), _filled(detail, row))

    def _node(self, one: RefusedNode, node: str, detail: str) -> RefusedNode:
        return RefusedNode(node, one.op, one.domain, one.boundary, one.why, detail, one.missed)

    def _parts(self, one: RefusedPlace, text: str, shown: Callable[[bytes], str]) -> list[Part]:
        """A text of a quotient, in which something stands for each name of a row."""
        parts, at = list[Part](), 0
        for found in _NAME.finditer(text):
            if int(found[2]) != one.number:
                raise Beyond("a name of another class in a refusal")
            parts.append(text[at : found.start()])
            parts.append(self._part(found, shown))
            at = found.end()
        parts.append(text[at:])
        left = [part for part in parts if isinstance(part, str)]
        own = [data.decode("latin-1") for data in self._bytes_of(one)]
        if any(map(_LEFT.search, (*left, *own))):
            raise Beyond("what looks like a name in a refusal")
        return parts

    def _bytes_of(self, one: RefusedPlace) -> Iterator[bytes]:
        """What a class shows of its own in a text: its attributes and constants."""
        memo, kind = self.proof.memo, self.refusal.keys[one.number][0]
        yield memo.operations[kind.signature].signature[0]
        for number in kind.inputs:
            facet = memo.facets[number]
            yield from filter(None, (facet.value, facet.folded))

    def _part(self, found: re.Match[str], shown: Callable[[bytes], str]) -> Callable[[int], str]:
        """What a name in a text of a quotient stands for in each row."""
        side, position = found[3], int(found[4] or 0)
        if found[1]:
            return lambda row: self._reason(self.proof.rows.inputs_of(row)[position])
        known = {
            "i": lambda row: self.proof.rows.inputs_of(row)[position],
            "o": lambda row: self.proof.rows.outputs_of(row)[position],
            "n": lambda row: self.proof.nested[row].names[position],
            None: self.name_of,
        }[side]
        return lambda row: shown(known(row))

    # -- reasons -----------------------------------------------------------------------------

    def _why_dynamic(self, name: bytes) -> str:
        """The reason why a value is no constant, as facts about the model find it."""
        seen = set[bytes]()
        while True:
            if name in self._replaceable:
                return dynamic.is_replaceable(name.decode())
            if name in self._inputs:
                return dynamic.is_input(name.decode())
            row = self._writers.get(name, -1)
            if row < 0:
                raise Beyond("a constant in the reason of a refusal")
            if (answer := self.answers.get(row)) is not None and answer.template is not None:
                raise Beyond("the reason of a refusal lies in what a step has written")
            source = self._dynamic_source(row, seen)
            if source is None:
                op, called = self._operator(row)[1], self.name_of(row).decode()
                return dynamic.is_computed(name.decode(), op, called)
            seen.add(source)
            name = source

    def _dynamic_source(self, row: int, seen: set[bytes]) -> bytes | None:
        """The first input that is no constant of a node that folding may follow."""
        key, proof = self._operator(row), self.proof
        if key not in proof.adapters.rules(Fold) and key != ("", "Identity"):
            return None
        signature = proof.memo.operations[proof.classes[row].signature].signature
        own = signature[1] & (1 << ABSENT) - 1
        sources = (one for one in proof.rows.inputs_of(row)[:own] if one and one not in seen)
        return next((one for one in sources if not self._is_constant(one)), None)

    def _is_constant(self, name: bytes) -> bool:
        """Whether a value is a constant, if its facet tells."""
        facet, known = self.proof.memo.facets[self.proof.values[name]], self._initializers
        if name in known and name not in self._replaceable:
            return True
        if facet.constant(self.proof.memo.ir_version) is not None:
            return True
        if not facet.trust & VARIABLE:
            raise Beyond("a value in the reason of a refusal that may be constant")
        return False

    def _operator(self, row: int) -> tuple[str, str]:
        proof = self.proof
        return proof.memo.operations[proof.classes[row].signature].key

    @functools.cached_property
    def _inputs(self) -> frozenset[bytes]:
        return frozenset(names_in(self.proof.data, self.proof.others, GraphField.INPUT))

    @functools.cached_property
    def _initializers(self) -> frozenset[bytes]:
        return frozenset(names_in(self.proof.data, self.proof.others, GraphField.INITIALIZER))

    @functools.cached_property
    def _replaceable(self) -> frozenset[bytes]:
        """The initializers that callers may replace."""
        return self._initializers & self._inputs if self.proof.memo.ir_version > 3 else frozenset()

    @functools.cached_property
    def _writers(self) -> dict[bytes, int]:
        """The row that gives each value."""
        rows = self.proof.rows
        count = range(len(self.proof.classes))
        return {name: row for row in count for name in rows.outputs_of(row) if name}


def _filled(parts: Sequence[Part], row: int) -> str:
    return "".join([part if isinstance(part, str) else part(row) for part in parts])


def _plain(name: bytes) -> str:
    """A name that every text shows as it is, in quotes or not."""
    text = name.decode()
    if repr(text) != f"'{text}'" or printable(text) != text:
        raise Beyond("a name that a text shows in another form")
    return text

# SPDX-License-Identifier: Apache-2.0
"""Finds the cheapest rewrite of operators that a runtime lacks into operators that it has.

An operator can be replaced by a rule if the runtime supports each new operator of the rule, or if
that operator can be replaced too. Costs are computed in ascending order, as in Dijkstra's
algorithm, so the search ends although the graph has cycles.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from opshift.author.registry import Registry
from opshift.author.verdicts import ALTERNATIVE, WORDS
from opshift.convert.plan_table import library
from opshift.model.scope import Key
from opshift.opsets import schemas
from opshift.records import dataclass

if TYPE_CHECKING:
    import networkx as nx

    from opshift.opsets.targets import RuntimeRelease

UNREAD = 1 << 20  # the cost of an operator that the runtime lacks and that no rule rewrites
INDEPENDENT = ("bool", "int64")  # element types of conditions, indices and sizes
Rule = tuple[Key, int]  # an operator, and the number of one of its rules


@dataclass
class OtherWords:
    """The operators that can be rewritten into operators of a runtime at one opset.

    If `kind` is an element type, the runtime must have kernels for this type.
    """

    adapters: Registry
    release: RuntimeRelease
    opset: int
    kind: str = ""
    of_kinds: dict[str, OtherWords] = field(default_factory=dict)
    costs: dict[Key, int] = field(default_factory=dict)
    cheapest: dict[Key, Rule] = field(default_factory=dict)

    @functools.cached_property
    def rules(self) -> nx.DiGraph:
        """The operators and their rules; most searches end without an import of networkx."""
        return library().DiGraph()

    def lead_from(self, key: Key) -> bool:
        """Returns whether rules lead from an operator to operators that the runtime has."""
        return self._cost(key) < UNREAD

    def of_kind(self, kind: str) -> OtherWords:
        """Returns a search like this one, but for nodes of one element type."""
        if kind not in self.of_kinds:
            self.of_kinds[kind] = OtherWords(self.adapters, self.release, self.opset, kind)
        return self.of_kinds[kind]

    def missing(self, key: Key) -> list[str]:
        """Returns the operators that the cheapest rewrite needs and the runtime lacks."""
        if self._cost(key) < UNREAD:
            return []
        lacked, waiting = set[Key](), [key]
        visited = {key}
        while waiting:
            rule = self.cheapest.get(operator := waiting.pop())
            if rule is None:
                lacked.add(operator)
            for needed in self.rules.successors(rule) if rule is not None else ():
                if self._cost(needed) >= UNREAD and needed not in visited:
                    visited.add(needed)
                    waiting.append(needed)
        return [op for _, op in sorted(lacked)]

    def _cost(self, key: Key) -> int:
        if self._is_read(key):
            return 0
        if key not in self.rules:
            self._extend(key)
            self._compute_costs()
        return self.costs.get(key, UNREAD)

    def _extend(self, key: Key) -> None:
        """Adds the rules of an operator, and the rules of all operators in these rules."""
        waiting = [key]
        self.rules.add_node(key)
        while waiting:
            operator = waiting.pop()
            for number, needed in enumerate(self._choices(operator)):
                self.rules.add_edge(operator, rule := (operator, number))
                for needed_operator in needed:
                    if needed_operator not in self.rules:
                        waiting.append(needed_operator)
                    self.rules.add_edge(rule, needed_operator)

    def _choices(self, key: Key) -> Iterator[set[Key]]:
        """Yields the new operators of each rule, unless the runtime has the operator itself."""
        if self._is_read(key):
            return
        schema, history = schemas.schema(*key, self.opset), schemas.history(*key)
        if schema is None and history:  # a newer operator is converted down to this opset
            born = history[0].since
            places = [(born, born - 1)]
        else:
            # An alternative may be for other element types than the type without a kernel.
            lacked = schema is None or self.release.unread(key, schema.since)
            places = [ALTERNATIVE, WORDS] if lacked else [WORDS]
        for adapter in filter(None, (self.adapters.get(*key, *place) for place in places)):
            # an adapter without `choices` has no known result
            for names in adapter.choices or (frozenset(),):
                yield {(name.rpartition(".")[0], name.rpartition(".")[2]) for name in names}

    def _is_read(self, key: Key) -> bool:
        schema = schemas.schema(*key, self.opset)
        if schema is None:
            return False
        return not self.release.unread(key, schema.since) and not self._lacks_kind(
            key, schema.since
        )

    def _lacks_kind(self, key: Key, since: int) -> bool:
        """Returns whether the runtime has no kernel of an operator for the element type `kind`."""
        missing = self.release.no_kernels(key, since, self.opset) if self.kind else None
        usual = {self.kind, *INDEPENDENT}
        return missing is not None and any(
            self.kind in types and usual.issuperset(types) for types in missing.choices
        )

    def _compute_costs(self) -> None:
        """Computes the cost of every operator, in ascending order."""
        operators = [rule for rule in self.rules if isinstance(rule[0], str)]
        open_counts = {
            rule: self.rules.out_degree(rule) for rule in self.rules if rule not in operators
        }
        number, self.costs, self.cheapest = itertools.count(), {}, {}
        waiting: list[tuple[int, int, Key, Rule | None]] = []

        def offer(cost: int, key: Key, rule: Rule | None) -> None:
            heapq.heappush(waiting, (cost, next(number), key, rule))

        for key in operators:
            if not self.rules.out_degree(key):
                offer(0 if self._is_read(key) else UNREAD, key, None)
        for rule in open_counts:
            if not open_counts[rule]:
                offer(1, rule[0], rule)
        while waiting:
            cost, _, key, chosen = heapq.heappop(waiting)
            if key in self.costs:
                continue
            self.costs[key] = cost
            if chosen is not None:
                self.cheapest[key] = chosen
            for rule in self.rules.predecessors(key):
                open_counts[rule] -= 1
                if not open_counts[rule]:
                    needed = self.rules.successors(rule)
                    offer(1 + sum(self.costs[operator] for operator in needed), rule[0], rule)

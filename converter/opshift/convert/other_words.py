# SPDX-License-Identifier: Apache-2.0
"""Finds the cheapest rewrite of operators that a runtime lacks into operators that it has.

An operator can be replaced by a rule if the runtime supports each new operator of the rule, or if
that operator can be replaced too. Costs only fall during their computation, so the search ends
although rules may lead back to an operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from opshift.author.registry import Registry
from opshift.author.verdicts import ALTERNATIVE, WORDS
from opshift.model.scope import Key
from opshift.opsets import schemas
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease

UNREAD = 1 << 20  # the cost of an operator that the runtime lacks and that no rule rewrites
INDEPENDENT = ("bool", "int64")  # element types of conditions, indices and sizes
Rule = frozenset[Key]  # the new operators of a rule


@dataclass(slots=True)
class OtherWords:
    """The operators that can be rewritten into operators of a runtime at one opset.

    If `kind` is an element type, the runtime must have kernels for this type.
    """

    adapters: Registry
    release: RuntimeRelease
    opset: int
    kind: str = ""
    of_kinds: dict[str, OtherWords] = field(default_factory=dict)
    rules: dict[Key, list[Rule]] = field(default_factory=dict)
    costs: dict[Key, float] = field(default_factory=dict)
    cheapest: dict[Key, Rule] = field(default_factory=dict)

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
        lacked, visited, waiting = set[Key](), {key}, [key]
        while waiting:
            rule = self.cheapest.get(operator := waiting.pop())
            if rule is None:
                lacked.add(operator)
                continue
            unread = {needed for needed in rule if self._cost(needed) >= UNREAD} - visited
            visited |= unread
            waiting += unread
        return [op for _, op in sorted(lacked)]

    def _cost(self, key: Key) -> float:
        if self._is_read(key):
            return 0
        if key not in self.rules:
            self._extend(key)
            self._compute_costs()
        return self.costs[key]

    def _extend(self, key: Key) -> None:
        """Adds the rules of an operator, and the rules of all operators in these rules."""
        waiting = [key]
        while waiting:
            operator = waiting.pop()
            if operator not in self.rules:
                self.rules[operator] = rules = [*self._choices(operator)]
                unruled = 0 if self._is_read(operator) else UNREAD
                self.costs[operator] = math.inf if rules else unruled
                waiting.extend(needed for rule in self.rules[operator] for needed in rule)

    def _choices(self, key: Key) -> Iterator[Rule]:
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
                yield frozenset(
                    (name.rpartition(".")[0], name.rpartition(".")[2]) for name in names
                )

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
        """Computes the cost of every operator, and its cheapest rule if that has a finite cost."""
        ruled = {key: rules for key, rules in self.rules.items() if rules}
        before = None
        while before != self.costs:
            before = dict(self.costs)
            for key, rules in ruled.items():
                self.costs[key] = min(map(self._cost_of, rules))
        self.cheapest = {
            key: min(rules, key=self._cost_of)
            for key, rules in ruled.items()
            if self.costs[key] < math.inf
        }

    def _cost_of(self, rule: Rule) -> float:
        return 1 + sum(self.costs[needed] for needed in rule)

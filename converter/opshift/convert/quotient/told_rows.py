# SPDX-License-Identifier: Apache-2.0
"""The classes of rows that lack types, with what the whole model tells of their values."""

from __future__ import annotations

import functools
from collections.abc import Collection

from opshift.author.facts import Facts
from opshift.convert.classes.facets import (
    COMPUTED,
    EXACT,
    PROVED,
    UNKNOWN,
    VARIABLE,
    Facet,
    is_static,
    value_of,
    without_symbols,
)
from opshift.convert.classes.node_class import NodeClass
from opshift.convert.classes.proof import Proof
from opshift.model.arrays import from_array
from opshift.opsets.types import claims_more, is_complete, is_vague
from opshift.protos import TypeProto

INFERRED = PROVED | EXACT
MOST_FOLDED = 512  # elements of a value that folding of the whole model finds


class ToldRows:
    """Asks the facts about a whole model for the values of some rows."""

    def __init__(self, proof: Proof, facts: Facts) -> None:
        self.proof = proof
        self.memo = proof.memo
        self.facts = facts
        self.scope = facts.document.main.root.top

    def classes(self, lacking: Collection[int]) -> list[NodeClass]:
        """The class of each row; those that lack types get what the whole model tells and lasts."""
        rows, found = self.proof.rows, self.proof.classes.copy()
        told = functools.cache(self._facet)
        with self.memo.lock:
            for row in lacking:
                ends = tuple(map(told, rows.outputs_of(row)))
                one = (found[row].signature, *map(told, rows.inputs_of(row)), *ends)
                found[row] = self.memo.classes.get(one) or self.memo.keep(one, ends)
        return found

    def _facet(self, name: bytes) -> int:
        """The facet of a value with what the whole model tells of it."""
        return self._with_facts(name.decode(), self.proof.values[name]) if name else UNKNOWN

    def _with_facts(self, name: str, number: int) -> int:
        facet = self.memo.facets[number]
        trust = facet.trust
        if not trust & EXACT or not trust & PROVED:
            found = self.facts.type(self.scope, name)
            if found is not None and self._lasts(name, found):
                facet = facet._replace(trust=trust | INFERRED, ranked=without_symbols(found))
        if trust & COMPUTED and not trust & VARIABLE and not facet.folded and not facet.value:
            facet = self._folded(name, facet)
        return self.memo.numbered(facet)

    def _folded(self, name: str, facet: Facet) -> Facet:
        """The facet with what folding of the whole model finds of a value."""
        value = self.facts.constant(self.scope, name)
        if value is None:
            return facet._replace(trust=facet.trust | VARIABLE)
        if facet.ranked is None or not is_static(facet.ranked):
            return facet  # a constant in the quotient would tell its lengths
        return facet._replace(folded=value_of(from_array(value), most=MOST_FOLDED))

    def _lasts(self, name: str, found: TypeProto) -> bool:
        """Whether no step can have more to tell of the type of a value."""
        if is_vague(found) or self.facts.is_assumed(self.scope, name):
            return False
        declared = self.scope.declared.get(name)
        return is_complete(found) or declared is None or not claims_more(declared, found)

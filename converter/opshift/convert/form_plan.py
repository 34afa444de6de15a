# SPDX-License-Identifier: Apache-2.0
"""Plans the other forms of operators that a conversion may write at the target version.

Each other form of an operator is an edge of the plan, to every operator that the form may write.
Keeping the present form writes no node and is cheapest. Other forms are used only for nodes that
cannot stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from opshift.author.misreadings import misreadings
from opshift.author.verdicts import FORM
from opshift.convert import request
from opshift.convert.plan_table import Edge
from opshift.convert.state import State
from opshift.convert.verdict_edges import FORMS, form_edge
from opshift.model.scope import Key


def plan_forms(state: State) -> None:
    """Plans the other forms of all operators in the plan, and of all operators in these forms."""
    newer = _newer(state) if state.options.modernize else {}
    waiting = state.plan.leads_to()
    known = set(waiting)
    while waiting:
        key = waiting.pop()
        for edge in (*_others(state, key), *([newer[key]] if key in newer else ())):
            state.plan.edges[(*key, edge.start, edge.to)] = edge
            waiting.update(one for one in edge.keys if one not in known)
            known.update(edge.keys)


def _others(state: State, key: Key) -> Iterator[Edge]:
    """Yields the forms that more runtimes run, and forms for a runtime without the operator."""
    for place in FORMS if _may_lack(state, key) else (FORM,):
        edge = form_edge(state.adapters, *key, place)
        if edge is not None:
            yield edge


def _may_lack(state: State, key: Key) -> bool:
    """Returns whether the runtime may lack a kernel for the present form of an operator."""
    row = state.runtime
    return row is not None and (
        row.may_lack(key)
        or any(misreadings(state.adapters, row, key))
        or (not key[0] and key[1] in row.other_forms)
    )


def _newer(state: State) -> dict[Key, Edge]:
    """Returns the newer operators, by the last operator of the nodes that each of them replaces."""
    from opshift.convert.modernize import edges

    newest = max([state.goal.get("", 0), *request.present(state.document, "")])
    return edges(state.adapters, newest)

# SPDX-License-Identifier: Apache-2.0
"""Plans the equivalent nodes that a conversion may write for operators at the target version.

The plan contains, for each operator, the operators of its equivalent nodes. Keeping a node is
cheapest. Equivalent nodes are written only for nodes that cannot stay.
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
    """Plans the equivalent nodes of each operator in the plan, and of the operators in these."""
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
    """Yields rewrites that more runtimes run, and rewrites for a runtime without the operator."""
    for place in FORMS if _may_lack(state, key) else (FORM,):
        edge = form_edge(state.adapters, *key, place)
        if edge is not None:
            yield edge


def _may_lack(state: State, key: Key) -> bool:
    """Returns whether the runtime may lack an operator, its kernel, or an attribute of it."""
    row = state.runtime
    return row is not None and (
        row.may_lack(key)
        or any(misreadings(state.adapters, row, key))
        or (not key[0] and key[1] in row.other_forms)
    )


def _newer(state: State) -> dict[Key, Edge]:
    """Returns the newer operators; the key is the last operator of the nodes that one replaces."""
    from opshift.convert.modernize import edges

    newest = max([state.goal.get("", 0), *request.present(state.document, "")])
    return edges(state.adapters, newest)

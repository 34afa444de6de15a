# SPDX-License-Identifier: Apache-2.0
"""Whether the nodes around a node make it one that a runtime does not run."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from opshift.author.facts import Facts
from opshift.model.scope import Scope
from opshift.opsets import cast_pairs
from opshift.opsets.elements import NAMED
from opshift.opsets.types import element_of
from opshift.protos import NodeProto

if TYPE_CHECKING:
    from opshift.opsets.targets import Form

# The nodes that read each value of one graph.
Readers: TypeAlias = "Callable[[Scope], Mapping[str, list[NodeProto]]]"


def readers(scope: Scope) -> Mapping[str, list[NodeProto]]:
    """The nodes of one graph that read each value."""
    found: dict[str, list[NodeProto]] = defaultdict(list)
    for at, node in enumerate(scope.proto.node):
        for name in node.input if at not in scope.removed else ():
            found[name].append(node)
    return found


def stand(scope: Scope, at: int, form: Form, facts: Facts, read_by: Readers) -> bool:
    """Whether the nodes before and behind a node are those of a form."""
    node = scope.node(at)
    return (
        (not form.ends_after or _ends(scope, node, form))
        and (not form.leads_to or _leads_to(node, form.leads_to, read_by(scope)))
        and (not form.read_within or _is_read_within(scope, node, form.moved_through, read_by))
        and (not form.behind or _is_behind(scope, node, form, facts))
        and (not form.holds_above or _holds(scope, node, form.holds_above, facts, operator.gt))
        and (not form.holds_below or _holds(scope, node, form.holds_below, facts, operator.lt))
        and (form.constant is None or facts.constant(scope, node.input[form.constant]) is not None)
        and (not form.narrowed or is_narrowed(scope, node, facts, read_by))
    )


def _leads_to(node: NodeProto, ops: Sequence[str], read_by: Mapping[str, list[NodeProto]]) -> bool:
    """Whether the first output of a node goes through some operators, as their first input."""
    name = node.output[0]
    if not ops:
        return True
    behind = (one for one in read_by.get(name, ()) if one.op_type == ops[0])
    return any(one.input[0] == name and _leads_to(one, ops[1:], read_by) for one in behind)


def _is_behind(scope: Scope, node: NodeProto, form: Form, facts: Facts) -> bool:
    """Whether one of some operators makes an input of a node, in the same graph.

    Operators that pass on what it makes may stand between, if they keep its type.
    """
    position = form.behind[0] if isinstance(form.behind[0], int) else 0
    waiting, seen = [*node.input[position : position + 1]], set[str]()
    kind = element_of(facts.type(scope, waiting[0])) if waiting and form.past else ""
    while waiting:
        name = waiting.pop()
        at = scope.producers.get(name)
        if at is None or name in seen:
            continue
        seen.add(name)
        made = scope.node(at)
        if made.op_type in form.behind:
            return True
        if made.op_type in form.past and element_of(facts.type(scope, name)) == kind:
            waiting += made.input
    return False


def _holds(
    scope: Scope,
    node: NodeProto,
    what: tuple[float, ...],
    facts: Facts,
    compare: Callable[[Any, float], Any],
) -> bool:
    """Whether an input is a constant with a number that compares so with another."""
    position, number = int(what[0]), what[1]
    name = node.input[position] if position < len(node.input) else ""
    known = facts.constant(scope, name) if name else None
    return known is not None and bool(compare(known, number).any())


def _is_read_within(
    scope: Scope, node: NodeProto, moved_through: Collection[str], read_by: Readers
) -> bool:
    """Whether graphs of other nodes read what a node makes, and nodes beside it, too.

    What it makes is its output, and what some operators make of that on the way to another node
    of its operator: only there is the node moved through them.
    """
    own, behind = node.output[0], read_by(scope)
    names, seen = [own], set[str]()
    deeper = meets = False
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        found = behind.get(name, ())
        if found and _is_read_deeper(scope, name, read_by):
            deeper = True
            meets = meets or name == own
        meets = meets or any(one.op_type == node.op_type for one in found)
        names += [o for one in found if one.op_type in moved_through for o in one.output if o]
    return deeper and meets


def _is_read_deeper(scope: Scope, name: str, read_by: Readers) -> bool:
    return any(
        name in read_by(other) and other.owner(name) is scope
        for other in scope.root.scopes
        if other is not scope
    )


def _ends(scope: Scope, node: NodeProto, form: Form) -> bool:
    """Whether a node gives an output of its graph, and the operators before it have the form."""
    if node.output[0] not in scope.outputs:
        return False
    for op in form.ends_after:
        made = (scope.producers.get(name) for name in node.input)
        found = (scope.node(at) for at in made if at is not None)
        before = next((one for one in found if one.op_type == op), None)
        if before is None:
            return False
        node = before
    return True


def is_narrowed(scope: Scope, node: NodeProto, facts: Facts, read_by: Readers) -> bool:
    """Whether a Cast gives other numbers if it is merged with the Cast before it.

    Two Casts are merged if only Casts beside them read the value between them.
    """
    middle = node.input[0]
    at = scope.producers.get(middle)
    first = scope.node(at) if at is not None else None
    if first is None or first.op_type != "Cast" or _has_other_readers(scope, middle, read_by):
        return False
    source = first.input[0]
    kinds = [element_of(facts.type(scope, name)) for name in (source, middle, node.output[0])]
    if not cast_pairs.narrows(*kinds):
        return False
    bounds, (low, high) = facts.bounds(scope, source), NAMED[kinds[1]].limits
    return bounds is None or bounds.lowest < low or bounds.highest > high


def _has_other_readers(scope: Scope, name: str, read_by: Readers) -> bool:
    """Whether a value is an output of its graph, or other nodes than Casts beside it read it."""
    return (
        name in scope.outputs
        or any(one.op_type != "Cast" for one in read_by(scope)[name])
        or _is_read_deeper(scope, name, read_by)
    )

# SPDX-License-Identifier: Apache-2.0
"""Changes element types in a whole model: values, weights, attributes, declared types.

If an operator does not accept the new type, its node keeps the old type, with Casts around it.
Weights are converted when the result is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from opshift import terms
from opshift.convert.change import Step
from opshift.convert.requests.scaled_codes import write_scaled
from opshift.convert.requests.type_choice import choose, collected, element_number
from opshift.convert.requests.type_groups import TypeChoice, changes_of, named_type
from opshift.convert.requests.type_rewriting import TypeRewriting
from opshift.convert.state import State
from opshift.errors import AdapterBug
from opshift.model.bytes.wire import raw_size
from opshift.model.functions import inline_functions
from opshift.model.scope import Scope
from opshift.opsets import schemas
from opshift.opsets.type_pairs import Change
from opshift.text import counted, size


def retype(state: State, changes: Mapping[str, str], *, keep_io: bool) -> None:
    """Changes the element types of a model, if the operators accept the new types."""
    number = schemas.element_number
    types = {number(start): number(to) for start, to in changes.items()}
    if not collected(state, types).kinds:
        names = " or ".join(map(named_type, types))
        state.notes.append(f"no element type changed, because no value has the type {names}")
        return
    if state.skeleton.functions:
        _inline_functions(state)
    write_scaled(state, types)
    choice = choose(state, types, keep_io=keep_io)
    expected = _expected(state, choice)
    notes = [*_kept(choice)]
    rewriting = TypeRewriting(state, choice, keep_io=keep_io)
    rewriting.run()
    state.notes += notes
    if rewriting.casts:
        casts = counted(rewriting.casts, "Cast")
        state.notes.append(f"added {casts} between the old and the new element type")
    if rewriting.interface:
        ends = _listed(dict.fromkeys(rewriting.interface))
        state.notes.append(
            f"the types of {ends} changed for callers; {terms.option('keep_io_types')} keeps them"
        )
    state.repaired |= (
        bool(state.inlined) or len(choice.stays) < len(choice.kinds) or bool(choice.narrow_ends)
    )
    state.document.sort()
    state.reopen()
    _require_expected(state, expected)
    version = state.document.imports.get("") or 0
    step = Step("", version, version)
    step.approximations += _statements(choice, rewriting)
    state.done(step)


def _inline_functions(state: State) -> None:
    """Inlines all functions, because types in a function are known only at its calls."""
    every = list(state.document.functions)
    called = inline_functions(state.skeleton, every, state.document.fresh)
    state.inlined += [which for which in every if which in called]
    state.reopen()


# -- what inference must find afterwards -----------------------------------------------------------


def _expected(state: State, choice: TypeChoice) -> list[dict[str, int]]:
    """Returns, for each graph, the new element types of its values by name."""
    types = defaultdict[Scope | None, dict[str, int]](dict)
    for (scope, name), kind in choice.kinds.items():
        if choice.changes(scope, name):
            types[scope][name] = choice.types[kind]
    return [types[scope] for scope in state.document.scopes()]


def _require_expected(state: State, expected: list[dict[str, int]]) -> None:
    """Raises AdapterBug if the inferred type of a value is not the new type."""
    for scope, types in zip(state.document.scopes(), expected, strict=True):
        for name, new_type in types.items():
            actual = element_number(state.facts.type(scope, name))
            if actual not in (0, new_type) and name in scope.producers:
                node = scope.node(scope.producers[name])
                if node.op_type != "Cast":
                    raise AdapterBug(
                        f"inference finds {named_type(actual)} for {name!r} of {node.op_type}, but"
                        f" its schema states {named_type(new_type)}"
                    )


# -- the report ------------------------------------------------------------------------------------

_MEANING = {
    Change.WIDENS: "the result is nearer to exact arithmetic than the model",
    Change.ROUNDS: "every number is rounded",
    Change.BOUNDED: "every number is proved to fit",
}


def _statements(choice: TypeChoice, rewriting: TypeRewriting) -> Iterator[str]:
    """Yields a sentence for each element type that changed."""
    changes = changes_of(choice.types)
    for start, to in choice.types.items():
        values = [owned for owned, kind in choice.kinds.items() if kind == start]
        if changed := sum(choice.changes(*value) for value in values):
            constants = counted(rewriting.weights[start], "constant")
            if count := rewriting.elements[start]:
                before, after = (size(raw_size(kind, count)) for kind in (start, to))
                constants += f", {before} before and {after} now"
            yield (
                f"{named_type(start)} became {named_type(to)} in {counted(changed, 'value')}"
                f" ({constants}); {_MEANING[changes[start]]}"
            )


def _kept(choice: TypeChoice) -> Iterator[str]:
    """Yields notes on values that keep their type or lose digits, by their old names."""
    unchanged, between = (defaultdict[tuple[int, str], list[str]](list) for _ in range(2))
    for value, reason in choice.stays.items():
        if value in choice.kinds:
            unchanged[choice.kinds[value], reason].append(value[1])
    for place, groups in choice.groups.items():
        scope, position = place
        node = scope.node(position)
        for group in groups:
            values = choice.values(place, group) if group.stays else ()
            if any(choice.changes(*value) for value in values):
                between[group.start, group.reason].append(node.name or node.output[0])
    for (kind, reason), names in unchanged.items():
        yield f"{named_type(kind)} stays in {_listed(names)}: {reason}"
    for (kind, reason), names in between.items():
        yield f"{named_type(kind)} stays in the nodes {_listed(names)}, between Casts: {reason}"
    if choice.not_run:
        yield (f"no value was tested for overflow of the narrower type: {choice.not_run}")
    if small := [name for owner, name in choice.small if choice.changes(owner, name)]:
        yield f"numbers below the smallest normal number lose digits in {_listed(small)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))

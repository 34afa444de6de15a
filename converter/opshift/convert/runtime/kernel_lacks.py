# SPDX-License-Identifier: Apache-2.0
"""Finds the nodes with element types for which a runtime has no kernel."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from opshift import versions
from opshift.author.facts import Facts
from opshift.author.node import Node
from opshift.author.surroundings import node_at
from opshift.convert.runtime.lack import RuntimeLack, Seen, fixed_shape, lack_of, probed, since_of
from opshift.convert.runtime.operator_lacks import unread_fields
from opshift.model.document import Document
from opshift.model.scope import Key, Place, Root, Scope
from opshift.opsets import schemas
from opshift.opsets.type_pairs import BY_NAMES
from opshift.opsets.types import element_of, elements_by_variable
from opshift.protos import NodeProto, TypeProto
from opshift.text import qualified

if TYPE_CHECKING:
    from opshift.opsets.kernels import Missing, Types
    from opshift.opsets.targets import RuntimeRelease

TypeOf: TypeAlias = Callable[[str], TypeProto | None]
# the marker for a type variable without an input or output
ABSENT = "absent"


def kernels(facts: Facts, release: RuntimeRelease, seen: Seen | None = None) -> list[RuntimeLack]:
    """Returns operators that occur with element types for which a runtime has no kernel."""
    document, seen = facts.document, seen or Seen()
    lacks = dict[str, tuple[Key, list[Place], str, str]]()
    for (scope, at), key, types, missing in _asked_of_table(facts, release, seen):
        if types not in missing.choices:
            continue
        kinds = ", ".join(kind for kind in types if kind)
        fate = probed.WORDS.get(missing.outcomes.get(types, ""), "has no kernel in {}")
        says = f"{qualified(*key)} of {kinds} {fate.format(f'{release.name} {release.release}')}"
        offer, shape = _other_types(types, missing), ""
        if offer and _has_own_type(node_at(facts, scope, at), offer.partition("=")[0], document):
            offer, shape = "", fixed_shape(document.model.graph)
        lacks.setdefault(says, (key, [], offer, shape))[1].append((scope, at))
    for place, key, types, _ in _unaccepted(facts, release, seen):
        kinds = ", ".join(kind for kind in types if kind not in ("", ABSENT))
        says = f"{release.shown}: {key[1]} of {kinds} is illegal at this opset and does not load"
        lacks.setdefault(says, (key, [], "", ""))[1].append(place)
    for place, key, element in contrib_without_kernel(facts, release):
        of = f" of {element}" if element else ""
        says = f"{key[0]}.{key[1]}{of} has no kernel on the CPU in {release.name} {release.release}"
        lacks.setdefault(says, (key, [], "", ""))[1].append(place)
    return [lack_of(key, places, says, *offers) for says, (key, places, *offers) in lacks.items()]


def _other_types(types: Types, missing: Missing) -> str:
    """Returns a change such as `double=float` after which the runtime has a kernel, or ""."""
    lacked = missing.choices | missing.in_doubt
    for start, to in BY_NAMES:
        if start in types and tuple(to if kind == start else kind for kind in types) not in lacked:
            return f"{start}={to}"
    return ""


def _has_own_type(node: Node, element: str, document: Document) -> bool:
    """Returns whether a new node computes in an element type that only new nodes introduced.

    Changing element types of the source model would not change such a node.
    """
    if not all(document.is_written(name) for name in node.proto.output):
        return False
    waiting, visited = list(node.inputs), set[str]()
    while waiting:
        current = waiting.pop()
        if current is None or current.name in visited or element_of(current.type) != element:
            continue
        visited.add(current.name)
        if not document.is_written(current.name):
            return False
        waiting.extend(current.producer.inputs if current.producer is not None else ())
    return True


def without_kernel(
    facts: Facts, release: RuntimeRelease, *, untried: bool = False
) -> list[tuple[Place, Key, Types, Missing]]:
    """Returns the nodes with element types for which a runtime has no kernel, and these types.

    With `untried`, the result also has nodes whose element types were not measured.
    """
    seen = Seen()
    return _unaccepted(facts, release, seen) + [
        (place, key, types, missing)
        for place, key, types, missing in _asked_of_table(facts, release, seen)
        if types in missing.choices or (untried and _is_open(place[0].root, key, missing, types))
    ]


def lacks_kernel(node: NodeProto, root: Root, release: RuntimeRelease, type_of: TypeOf) -> bool:
    """Returns whether a runtime is known to have no kernel for the element types of a node."""
    key = schemas.normal(node.domain), node.op_type
    missing = release.no_kernels(key, since_of(root, key), root.imports.get(key[0]) or 1)
    if missing is None or not missing.choices:
        return False
    types = element_types(node, root, type_of, missing.variables)
    return _with_absent(root, key, types, missing) in missing.choices


def _is_open(root: Root, key: Key, missing: Missing, types: Types) -> bool:
    """Returns whether a gap in the kernels leaves open these element types, which are untried."""
    from opshift.opsets import kernels  # only conversions for a runtime need the table

    if missing.is_late and kernels.LATE.isdisjoint(types):
        return False
    return not is_tried(root, key, missing.variables, types)


def is_tried(root: Root, key: Key, variables: Sequence[str], types: Types) -> bool:
    """Returns whether the kernels were measured for these element types."""
    left_out = _left_out(*key, since_of(root, key))
    pairs = zip(variables, types, strict=True)
    return not any(kind in left_out.get(variable, ()) for variable, kind in pairs)


@functools.cache
def _left_out(domain: str, op: str, since: int) -> dict[str, set[str]]:
    """Returns, for each type variable of an operator, the element types that were not measured."""
    from opshift.opsets import kernels  # only conversions for a runtime need the table

    schema = schemas.schema(domain, op, since)
    accepted = {
        variable: {t for t in kernels.SHORT if f"tensor({t})" in types}
        for variable, types in (schema.types_by_variable if schema is not None else {}).items()
    }
    pairs = zip(accepted.items(), kernels.tried(accepted.values()), strict=True)
    return {variable: types.difference(tried) for (variable, types), tried in pairs}


def in_doubt(facts: Facts, release: RuntimeRelease, seen: Seen) -> list[str]:
    """Returns notes on nodes for which it is not known whether the runtime has a kernel."""
    doubted: dict[str, list[Place]] = {}
    present = facts.present_types
    for place, key, types, missing in _asked_of_table(facts, release, seen):
        if release.probed is not None and not release.kernels:
            break  # `unknown` reports operators that were not probed
        if types in missing.choices:
            continue
        possible = (*missing.choices, *missing.in_doubt) if "" in types else ()
        doubt = types in missing.in_doubt or any(
            _may_be(types, choice, present) for choice in possible
        )
        if doubt or _is_open(place[0].root, key, missing, types):
            of = ", ".join(kind or "an unknown type" for kind in types)
            runtime_name = f"{release.name} {release.release}"
            says = f"whether {runtime_name} has a kernel for {qualified(*key)} of {of}"
            doubted.setdefault(says, []).append(place)
    return [str(lack_of(("", ""), places, says)) for says, places in doubted.items()]


def _may_be(types: Types, choice: Types, present: Collection[str]) -> bool:
    """Returns whether element types may be equal to `choice`; "" stands for an unknown type."""
    pairs = zip(types, choice, strict=True)
    return all(chosen in present if kind == "" else kind == chosen for kind, chosen in pairs)


def _asked_of_table(
    facts: Facts, release: RuntimeRelease, seen: Seen
) -> Iterator[tuple[Place, Key, Types, Missing]]:
    """Yields nodes of operators that lack a kernel for some element types, and the node's types."""
    for root, key, places in facts.document.operators():
        missing = release.no_kernels(key, since_of(root, key), root.imports.get(key[0]) or 1)
        if missing is None or not missing.variables:
            continue
        asked = (id(root), key, missing.variables)
        if asked not in seen.types:
            seen.types[asked] = [
                element_types(scope.node(at), root, functools.partial(facts.type, scope), asked[2])
                for scope, at in places
            ]
        for place, types in zip(places, seen.types[asked], strict=True):
            if ABSENT in types:
                types = _with_absent(root, key, types, missing)
            yield place, key, types, missing


def _unaccepted(
    facts: Facts, release: RuntimeRelease, seen: Seen
) -> list[tuple[Place, Key, Types, Missing]]:
    """Returns the nodes of illegal element types, which a runtime with measured kernels rejects."""
    from opshift.opsets.kernels import Missing  # only conversions for a runtime need the table

    if not release.kernels:
        return []
    if seen.unaccepted is not None:
        return seen.unaccepted
    illegal: list[tuple[Place, Key, Types, Missing]] = []
    for root, key, places in facts.document.operators():
        accepted = _accepted(*key, since_of(root, key)) if key[0] in versions.DOMAINS else {}
        for scope, at in places if accepted else ():
            node, variables = scope.node(at), tuple(accepted)
            types = element_types(node, root, functools.partial(facts.type, scope), variables)
            pairs = zip(accepted.values(), types, strict=True)
            if any(
                kind not in {"", ABSENT, *allowed} for allowed, kind in pairs if "(" not in kind
            ):
                illegal.append(((scope, at), key, types, Missing(variables, frozenset({types}))))
    seen.unaccepted = illegal
    return illegal


@functools.cache
def _accepted(domain: str, op: str, since: int) -> dict[str, frozenset[str]]:
    """Returns the element types of tensors that an operator accepts, by type variable of inputs.

    The result is empty for an operator of which a release of onnx accepted other types.
    """
    from opshift.opsets import late_changes

    schema = schemas.schema(domain, op, since)
    if schema is None or late_changes.table().get((domain, op, since)):
        return {}
    accepted: dict[str, frozenset[str]] = {}
    for param in schema.inputs:
        kinds = frozenset(kind.removeprefix("tensor(").removesuffix(")") for kind in param.types)
        accepted[param.variable] = accepted.get(param.variable, frozenset()) | kinds
    return accepted


def element_types(node: NodeProto, root: Root, type_of: TypeOf, variables: Sequence[str]) -> Types:
    """Returns the element types of a node for the given type variables.

    The text "" stands for an unknown type. A type variable of an absent input or output has the
    type ABSENT.
    """
    domain = schemas.normal(node.domain)
    schema = schemas.schema(domain, node.op_type, root.imports.get(domain) or 1)
    bound = elements_by_variable(node, schema, type_of) if schema is not None else {}
    return tuple(bound.get(variable, ABSENT) for variable in variables)


def _with_absent(root: Root, key: Key, types: Types, missing: Missing) -> Types:
    """Returns the element types of a node; absent inputs get a type for which a kernel exists.

    A runtime uses the first kernel that accepts the present inputs.
    """
    from opshift.opsets import kernels  # only conversions for a runtime need the table

    schema = schemas.schema(*key, root.imports.get(key[0]) or 1)
    accepted = schema.types_by_variable if schema is not None else {}
    plain = unnamed(types)
    if plain in missing.choices or plain in missing.in_doubt:
        return plain  # a probe ran models without this input
    free = [
        [name for name in kernels.SHORT if f"tensor({name})" in accepted.get(variable, ())]
        if kind == ABSENT
        else [kind]
        for variable, kind in zip(missing.variables, types, strict=True)
    ]
    return min(
        itertools.product(*free),
        key=lambda kind: (kind in missing.choices, kind in missing.in_doubt),
        default=plain,
    )


def unnamed(types: Types) -> Types:
    """Returns element types as a probe writes them, with "" for an absent input or output."""
    return tuple("" if kind == ABSENT else kind for kind in types)


def contrib_without_kernel(
    facts: Facts, release: RuntimeRelease
) -> Iterator[tuple[Place, Key, str]]:
    """Yields nodes of onnxruntime's own operators without a kernel, with the element type."""
    from opshift.opsets import fields  # only conversions for a runtime need the tables

    for key, (scope, at), unknown in unread_fields(facts.document, release):
        type_of = functools.partial(_element_of, facts, scope)
        element = fields.without_kernel(scope.node(at), unknown, type_of)
        if element is not None:
            yield (scope, at), key, element


def _element_of(facts: Facts, scope: Scope, name: str) -> str:
    return element_of(facts.type(scope, name))

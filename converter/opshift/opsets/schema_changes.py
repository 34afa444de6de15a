# SPDX-License-Identifier: Apache-2.0
"""Describes the differences between two implementations of an operator."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.opsets import schemas
from opshift.opsets.schemas import ANY, Attribute, Param, Schema
from opshift.protos import AttributeProto
from opshift.records import dataclass
from opshift.text import counted


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A change; `breaks` says whether it can make a model of the older opset illegal or wrong."""

    text: str
    """The change in a sentence."""
    breaks: bool
    """Whether the change can make a model illegal or wrong."""


def between(domain: str, op: str, start: int, to: int) -> tuple[SchemaChange, ...]:
    """Returns the changes of an operator between two known versions."""
    old, new = schemas.schema(domain, op, start), schemas.schema(domain, op, to)
    if new is None or old == new:
        return ()
    if old is None:
        return (SchemaChange("the operator is new", False),)
    return tuple(_changes(old, new))


def _changes(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    if new.deprecated and not old.deprecated:
        yield SchemaChange("the operator is deprecated", True)
    if not (old.stated and new.stated):
        text = "inputs, outputs, types and attributes are not stated, so what changed is not known"
        yield SchemaChange(text, True)
        yield from _prose(old, new)
        return
    yield from _attributes(old, new)
    yield from _parameters("input", old.inputs, new.inputs)
    yield from _parameters("output", old.outputs, new.outputs)
    yield from _types(old, new)
    yield from _arity("input", (old.min_input, old.max_input), (new.min_input, new.max_input))
    yield from _arity("output", (old.min_output, old.max_output), (new.min_output, new.max_output))
    yield from _prose(old, new)


def _attributes(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    for name, attribute in sorted(new.attributes.items()):
        before = old.attributes.get(name)
        if before is None:
            yield SchemaChange(
                f"attribute {name} was added, {_state(attribute)}", attribute.required
            )
        else:
            yield from _attribute(before, attribute)
    for name in sorted(old.attributes.keys() - new.attributes.keys()):
        yield SchemaChange(f"attribute {name} was removed", True)


def _attribute(old: Attribute, new: Attribute) -> Iterator[SchemaChange]:
    if old.kind != new.kind:
        kinds = [AttributeProto.AttributeType.Name(attribute.kind) for attribute in (old, new)]
        yield SchemaChange(
            f"attribute {old.name} changed its type from {kinds[0]} to {kinds[1]}", True
        )
    if old.required != new.required:
        state = "required" if new.required else "optional"
        yield SchemaChange(f"attribute {old.name} became {state}", new.required)
    elif repr(old.default) != repr(new.default):
        text = f"the default of attribute {old.name} changed from {old.default} to {new.default}"
        yield SchemaChange(text, True)


def _state(attribute: Attribute) -> str:
    if attribute.required:
        return "required"
    return "optional" if attribute.default is None else f"with the default {attribute.default!r}"


def _pairs(
    old: tuple[Param, ...], new: tuple[Param, ...]
) -> Iterator[tuple[int, Param, int, Param]]:
    """Yields each old parameter with the new parameter of equal name, or else of equal position."""
    place = {param.name: at for at, param in enumerate(new)}
    names = {param.name for param in old}
    for at, before in enumerate(old):
        to = place.get(before.name, at)
        if before.name in place or (to < len(new) and new[to].name not in names):
            yield at, before, to, new[to]


def _parameters(
    kind: str, old: tuple[Param, ...], new: tuple[Param, ...]
) -> Iterator[SchemaChange]:
    pairs = list(_pairs(old, new))
    for at, before, to, after in pairs:
        if before.name != after.name:
            yield SchemaChange(f"{kind} {before.name} is now called {after.name}", False)
        if at != to:
            text = f"{kind} {after.name} moved from place {at + 1} to place {to + 1}"
            yield SchemaChange(text, True)
        if before.optional != after.optional:
            state = "optional" if after.optional else "required"
            yield SchemaChange(f"{kind} {after.name} became {state}", not after.optional)
        if before.variadic != after.variadic:
            state = "variadic" if after.variadic else "a single value"
            yield SchemaChange(f"{kind} {after.name} became {state}", not after.variadic)
    paired_new = {to for _, _, to, _ in pairs}
    for added in (param for at, param in enumerate(new) if at not in paired_new):
        state = "optional" if added.optional or added.variadic else "required"
        yield SchemaChange(f"{kind} {added.name} was added, {state}", state == "required")
    paired_old = {at for at, _, _, _ in pairs}
    for removed in (param for at, param in enumerate(old) if at not in paired_old):
        yield SchemaChange(f"{kind} {removed.name} was removed", True)


def _types(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    """Yields the changed types; parameters with equal changes share a sentence."""
    alike: dict[tuple[str, frozenset[str]], list[str]] = {}
    for kind, befores, afters in (
        ("input", old.inputs, new.inputs),
        ("output", old.outputs, new.outputs),
    ):
        for _, before, _, after in _pairs(befores, afters):
            for verb, types in (
                ("gained", after.types - before.types),
                ("lost", before.types - after.types),
            ):
                if types:
                    alike.setdefault((verb, types), []).append(f"{kind} {after.name}")
    for (verb, types), names in alike.items():
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        yield SchemaChange(f"{listed} {verb} {_listed(types)}", verb == "lost")


def _listed(types: frozenset[str]) -> str:
    """Returns tensor types by element type, and the number of other types."""
    kinds: dict[str, list[str]] = {}
    for type_name in sorted(types):
        kind, _, element = type_name.removesuffix(")").partition("(")
        kinds.setdefault(kind, []).append(element)
    parts = [
        f"{kind}({', '.join(elements)})" if len(elements) < 6 else f"{len(elements)} {kind} types"
        for kind, elements in kinds.items()
    ]
    return ", ".join(parts)


def _arity(kind: str, old: tuple[int, int], new: tuple[int, int]) -> Iterator[SchemaChange]:
    if old == new:
        return
    least, most = (str(n) if n != ANY else "any number" for n in new)
    count = counted(new[0], kind) if new[0] == new[1] else f"{least} to {most} {kind}s"
    narrower = new[0] > old[0] or (new[1] != ANY and (old[1] == ANY or new[1] < old[1]))
    yield SchemaChange(f"a node has {count}", narrower)


def _prose(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before, after = (
        schemas.prose(implementation.domain, implementation.name, implementation.since)[0]
        for implementation in (old, new)
    )
    if _normal(before) != _normal(after):
        yield SchemaChange("the text of the documentation changed", False)
    if old.has_body != new.has_body:
        verb = "gained" if new.has_body else "lost"
        yield SchemaChange(f"the operator {verb} a function body", False)
    elif old.has_body and _body(old) != _body(new):
        yield SchemaChange("the function body changed", False)


def _normal(text: str) -> str:
    return " ".join(text.split())


def _body(schema: Schema) -> list[str]:
    body = schemas.body(
        schema.domain, schema.name, schema.since, schemas.latest(schema.domain) or schema.since
    )
    return [node.SerializeToString(deterministic=True).hex() for node in body.node] if body else []

# SPDX-License-Identifier: Apache-2.0
"""Compares a node with its operator's schema: attributes, inputs, outputs and their types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from opshift.model.walk import named
from opshift.opsets import schemas
from opshift.protos import AttributeProto, NodeProto

Form: TypeAlias = tuple[Any, ...]
TypeOf: TypeAlias = Callable[[str], str | None]  # the type of a value as text, if it is known
MOST_FORMS = 10_000
# Results of `fits`, by the id of the schema and by the relevant parts of the node. The schema is
# stored in the value, so that its id is not reused.
_fitting: dict[tuple[int, Form], tuple[schemas.Schema, bool]] = {}


def fits(node: NodeProto, schema: schemas.Schema | None) -> bool:
    """Returns whether the node has the attributes, inputs and outputs that its schema requires.

    A node of an operator without any schema fits. If the operator has a schema only at other
    versions, the node does not fit.
    """
    if schema is None:
        history = schemas.history(schemas.normal(node.domain), node.op_type)
        return not any(implementation.stated for implementation in history)
    kinds = [(attribute.name, attribute.type) for attribute in node.attribute]
    omitted = [at for at, name in enumerate(node.input) if not name]
    form: Form = (len(node.input), len(node.output), *kinds, *omitted)
    cached = _fitting.get((id(schema), form))
    if cached is None:
        if len(_fitting) >= MOST_FORMS:
            _fitting.clear()
        cached = schema, next(unfit(node, schema, schema.since), None) is None
        _fitting[id(schema), form] = cached
    return cached[1]


def unfit(
    node: NodeProto, schema: schemas.Schema, version: int, *, is_inner: bool = False,
    elsewhere: Collection[str] = (),
) -> Iterator[str]:  # fmt: skip
    """Yields the attributes, inputs and outputs of a node that do not fit its operator's schema.

    The set `elsewhere` has the names of attributes that the node gets later. In a function
    (`is_inner`), onnx accepts an attribute whose type differs from its schema. If the schema is
    `open`, the node may have more attributes, inputs and outputs than the schema.
    """
    kind = AttributeProto.AttributeType.Name
    for attribute in node.attribute if schema.stated else ():
        formal = schema.attributes.get(attribute.name)
        if formal is None and schema.open:
            continue
        if formal is None:
            text = f"{node.op_type}-{schema.since} has no attribute {attribute.name!r}"
            yield f"{named(node)}: {text}"
        elif attribute.type != formal.kind and not is_inner:
            text = f"is {kind(attribute.type)}, not {kind(formal.kind)}"
            yield f"{named(node)}: attribute {attribute.name!r} {text}"
    written = [attribute.name for attribute in node.attribute]
    for name in repeated(written) if len(written) > 1 else ():
        yield f"{named(node)}: attribute {name!r} is set twice"
    present = {*written, *elsewhere}
    for formal in schema.attributes.values():
        if formal.required and formal.name not in present:
            yield f"{named(node)}: attribute {formal.name!r} is missing"
    for what, count, low, high in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if count < low or (0 <= high < count and not schema.open):
            allowed = f"at least {low}" if high < 0 or schema.open else f"{low} to {high}"
            yield f"{named(node)} has {count} {what}; at opset {version} it must have {allowed}"
    for param, name in zip(schema.inputs, node.input, strict=False):
        if not (name or param.optional or param.variadic):
            yield f"{named(node)} omits its input {param.name!r}, which {schema.name} needs"


class UnfitInput(NamedTuple):
    """An input of a type that the schema does not accept, alone or with an earlier input.

    `other` is the earlier input with the same type variable, and its type.
    """

    position: int
    name: str
    kind: str
    other: tuple[str, str] | None = None

    def __str__(self) -> str:
        if self.other is None:
            return f"reads {self.name!r} of type {self.kind}, which the operator does not accept"
        name, kind = self.other
        return f"reads {name!r} of type {kind} and {self.name!r} of type {self.kind} as one type"


def unfit_types(node: NodeProto, schema: schemas.Schema, type_of: TypeOf) -> Iterator[UnfitInput]:
    """Yields the inputs of a node whose known types do not fit its operator's schema."""
    bound: dict[str, tuple[str, str]] = {}
    for position, name in enumerate(node.input):
        param = schema.input_at(position)
        kind = type_of(name) if name and param is not None else None
        if param is None or kind is None:
            continue
        if kind not in param.types:
            yield UnfitInput(position, name, kind)
        elif param.homogeneous and bound.setdefault(param.variable, (name, kind))[1] != kind:
            yield UnfitInput(position, name, kind, bound[param.variable])


def faults(node: NodeProto, schema: schemas.Schema, type_of: TypeOf) -> Iterator[str]:
    """Yields everything in a node that no release of its operator accepts.

    A later release than the description of an `open` schema may accept more types. In every
    release, all inputs of one type variable have the same type.
    """
    yield from unfit(node, schema, schema.since)
    for misfit in unfit_types(node, schema, type_of):
        if misfit.other is not None or not schema.open:
            yield f"{named(node)} {misfit}"


def repeated(names: Iterable[str]) -> list[str]:
    """Returns the names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)

# SPDX-License-Identifier: Apache-2.0
"""Compares a node with its operator's schema: attributes and counts of inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeAlias

from opshift.model.walk import named
from opshift.opsets import schemas
from opshift.protos import AttributeProto, NodeProto

Form: TypeAlias = tuple[Any, ...]
MOST_FORMS = 10_000
# Results of `fits`, by the id of the schema and by the relevant parts of the node. The schema is
# stored in the value, so that its id is not reused.
_fitting: dict[tuple[int, Form], tuple[schemas.Schema, bool]] = {}


def fits(node: NodeProto, schema: schemas.Schema | None) -> bool:
    """Returns whether the node has the attributes, inputs and outputs that its schema requires.

    A node of an operator without any schema fits, and so does a node whose schema accepts any
    parameters (`open`). If the operator has a schema only at other versions, the node does not fit.
    """
    if schema is None:
        known = schemas.history(schemas.normal(node.domain), node.op_type)
        return not any(one.stated for one in known)
    if schema.open:
        return True
    kinds = [(one.name, one.type) for one in node.attribute]
    form: Form = (len(node.input), len(node.output), *kinds)
    held = _fitting.get((id(schema), form))
    if held is None:
        if len(_fitting) >= MOST_FORMS:
            _fitting.clear()
        held = schema, next(unfit(node, schema, schema.since), None) is None
        _fitting[id(schema), form] = held
    return held[1]


def unfit(
    node: NodeProto, schema: schemas.Schema, version: int, *, is_inner: bool = False,
    elsewhere: Collection[str] = (),
) -> Iterator[str]:  # fmt: skip
    """Yields the attributes, inputs and outputs of a node that do not fit its operator's schema.

    The set `elsewhere` has the names of attributes that the node gets later. In a function
    (`is_inner`), onnx accepts an attribute whose type differs from its schema.
    """
    kind = AttributeProto.AttributeType.Name
    for attribute in node.attribute if schema.stated else ():
        known = schema.attributes.get(attribute.name)
        if known is None:
            text = f"{node.op_type}-{schema.since} has no attribute {attribute.name!r}"
            yield f"{named(node)}: {text}"
        elif attribute.type != known.kind and not is_inner:
            text = f"is {kind(attribute.type)}, not {kind(known.kind)}"
            yield f"{named(node)}: attribute {attribute.name!r} {text}"
    written = [attribute.name for attribute in node.attribute]
    for name in repeated(written) if len(written) > 1 else ():
        yield f"{named(node)}: attribute {name!r} is set twice"
    present = {*written, *elsewhere}
    for known in schema.attributes.values():
        if known.required and known.name not in present:
            yield f"{named(node)}: attribute {known.name!r} is missing"
    for what, count, low, high in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if count < low or 0 <= high < count:
            allowed = f"at least {low}" if high < 0 else f"{low} to {high}"
            yield f"{named(node)} has {count} {what}; at opset {version} it must have {allowed}"


def repeated(names: Iterable[str]) -> list[str]:
    """Returns the names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)

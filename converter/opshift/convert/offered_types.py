# SPDX-License-Identifier: Apache-2.0
"""Finds a change of element types that would avoid a refusal."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.author.env import ModelEnv
from opshift.opsets import schemas
from opshift.opsets.elements import NAMED
from opshift.opsets.schemas import Param
from opshift.opsets.type_pairs import replacements
from opshift.opsets.types import element_of
from opshift.protos import NodeProto


def offered_types(env: ModelEnv, node: NodeProto, version: int, *, scales: bool) -> str:
    """Returns a change such as `bfloat16=float` to an element type that the operator accepts.

    Returns "" if no change helps. With `scales`, the operator scales float8 numbers and can be
    rewritten for any wider type.
    """
    schema = schemas.schema(schemas.normal(node.domain), node.op_type, version)
    if schema is None or not schema.stated:
        return ""
    ends = [(name, schema.input_at(i)) for i, name in enumerate(node.input) if name]
    ends += [(name, schema.output_at(i)) for i, name in enumerate(node.output) if name]
    for start, accepted in _refused(env, ends):
        wider = scales and NAMED[start].is_float8
        fits = [to for to in replacements(start) if wider or f"tensor({to})" in accepted]
        if fits:
            return f"{start}={fits[-1]}"
    return ""


def _refused(
    env: ModelEnv, ends: list[tuple[str, Param | None]]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields the element types that a schema rejects, with the types that it accepts instead."""
    for name, param in ends:
        kind = element_of(env.type(name))
        if param is not None and kind in NAMED and f"tensor({kind})" not in param.types:
            yield kind, param.types

# SPDX-License-Identifier: Apache-2.0
"""Nodes of a later opset, which an adapter may write: they are converted down at once."""

from __future__ import annotations

import copy
import weakref
from typing import TYPE_CHECKING

from opshift.author.node import Node, Value
from opshift.author.verdicts import Keep
from opshift.errors import AdapterBug
from opshift.opsets import schemas
from opshift.protos import NodeProto
from opshift.records import dataclass
from opshift.text import qualified

if TYPE_CHECKING:
    from opshift.author.builder import Builder

MOST_NESTED = 40  # adapters, each of which writes for the one before


@dataclass(frozen=True, slots=True)
class Later:
    """The opset at which an adapter writes that converts a node down on the way to the model's."""

    domain: str
    version: int
    depth: int  # the number of such adapters around it


def convert_down(op: Builder, node: NodeProto, schema: schemas.Schema) -> tuple[Value, ...]:
    """Writes what replaces a node of a later opset: each boundary is crossed by its verdict."""
    domain, start = schema.domain, schema.since
    depth = op.later.depth + 1 if op.later is not None else 1
    if depth > MOST_NESTED:
        raise AdapterBug(f"what replaces {schema.name}-{start} at {start - 1} needs itself")
    below = _at(op, Later(domain, start - 1, depth))
    below.env.later = node, start
    answer = op.crossing.cross(Node(node, schema, below.env), start, start - 1, below)
    if isinstance(answer, Keep):
        older = schemas.schema(domain, schema.name, start - 1)
        if older is None or older.deprecated:
            raise AdapterBug(f"{qualified(domain, schema.name)}-{start} is kept below {start}")
        found = below.place(node, older)
    else:
        found = answer if isinstance(answer, tuple) else (answer,)
    if len(found) < len(node.output) or op.made.unread is not None:
        raise AdapterBug(f"{schema.name}-{start} has no replacement with its outputs below {start}")
    return tuple(Value(value.name, op.env) for value in found[: len(node.output)])


def _at(op: Builder, later: Later) -> Builder:
    """A Builder that adds to the same nodes, for an adapter that writes at a later opset."""
    below, below.env = copy.copy(op), copy.copy(op.env)
    below.later, below.subject = later, None
    below.env.written_by = weakref.ref(below)
    return below

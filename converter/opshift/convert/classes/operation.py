# SPDX-License-Identifier: Apache-2.0
"""What the nodes of one signature have in common."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from opshift.convert.classes.rows import Signature, Unproven, inputs_of
from opshift.convert.classes.shown_bytes import named
from opshift.model.bytes import wire
from opshift.model.illegible import is_legible
from opshift.model.scope import FunctionId, call_id
from opshift.opsets import schemas
from opshift.protos import NodeProto


class Operation(NamedTuple):
    """A signature with what is read from it once."""

    signature: Signature
    proto: NodeProto
    key: tuple[str, str]  # the domain and the name of the operator
    schema: schemas.Schema | None
    inputs: tuple[bytes, ...]  # the names of what it reads
    written: bytes  # the node as a field of a graph
    calls: bool  # whether it calls a function of the model

    @classmethod
    def of(
        cls,
        signature: Signature,
        versions: Mapping[str, int],
        functions: Container[FunctionId] = (),
    ) -> Operation:
        """The operation of a signature in a model with these imports and functions."""
        data = named(signature)
        proto = NodeProto.FromString(data)
        if not is_legible(proto, data):
            raise Unproven("a text that is no UTF-8")
        key = key_of(proto)
        schema = schemas.schema(*key, versions.get(proto.domain, 0))
        written, calls = wire.framed(1, data), call_id(proto) in functions
        return cls(signature, proto, key, schema, inputs_of(signature), written, calls)


def key_of(node: NodeProto) -> tuple[str, str]:
    """The domain and the name of an operator."""
    return schemas.normal(node.domain), node.op_type

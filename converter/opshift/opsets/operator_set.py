# SPDX-License-Identifier: Apache-2.0
"""Reads and writes operator sets as documents, in ONNX's OperatorSetProto.

OperatorSetProto has no field for accepted types. Therefore opshift ends the documentation of each
operator with its signature; see `signature_text`. Without a signature, any inputs, outputs, types
and attributes are accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.errors import BadTarget
from opshift.opsets import schema
from opshift.opsets.identity import normal
from opshift.opsets.opset_changelog_pb2 import Attribute, Change, Parameter
from opshift.opsets.schema import Param, Schema
from opshift.opsets.signature_text import (
    SIGNATURE,
    default_text,
    kind_name,
    read_schema,
    signature_of,
    unstated,
)
from opshift.protos import IR_VERSION, FunctionProto
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.protos.operator_messages import OperatorProto, OperatorSetProto

MAGIC = "ONNXOPSET"
NEWEST = 10_000  # the highest accepted version, because a conversion makes a step for each version
# onnx has 200; each operator needs a thousand times the memory of its bytes
MOST_OPERATORS = 10_000


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a set: its schema, its prose, and whether it is experimental."""

    schema: Schema
    documentation: str
    experimental: bool = False

    def change(self) -> Change:
        """Returns the entry of this implementation for the operator version database."""
        one = self.schema
        return Change(
            op_type=one.name,
            deprecated=one.deprecated,
            has_function_body=one.has_body,
            types=one.listed_types,
            inputs=map(_parameter, one.inputs),
            outputs=map(_parameter, one.outputs),
            attributes=[_attribute(a) for _, a in sorted(one.attributes.items())],
            experimental=self.experimental,
        )


def _parameter(one: Param) -> Parameter:
    option = "variadic" if one.variadic else "optional" if one.optional else ""
    return Parameter(name=one.name, type=one.variable, option=option, rank=one.rank)


def _attribute(one: schema.Attribute) -> Attribute:
    default = "" if one.default is None else default_text(one.default)
    return Attribute(
        name=one.name, type=kind_name(one.kind), required=one.required, default=default
    )


@dataclass(frozen=True, slots=True)
class OperatorSet:
    """All operators of a version of a domain, with the function bodies that exist."""

    domain: str
    version: int
    operators: tuple[Operator, ...]
    functions: tuple[FunctionProto, ...] = ()

    def body(self, op: str) -> FunctionProto | None:
        """Returns the function body of an operator, or None."""
        return next((one for one in self.functions if one.name == op), None)


# -- the message ---------------------------------------------------------------------------------


def write(found: OperatorSet) -> bytes:
    """Returns an operator set as the bytes of an OperatorSetProto."""
    from opshift.protos.operator_messages import OperatorSetProto

    proto = OperatorSetProto(
        magic=MAGIC, ir_version=IR_VERSION, domain=found.domain, opset_version=found.version,
        functions=found.functions,
    )  # fmt: skip
    for one in found.operators:
        signature = signature_of(one.schema) if one.schema.stated else ""
        text = "\n\n".join(filter(None, (one.documentation.strip(), signature)))
        status = 0 if one.experimental else 1  # EXPERIMENTAL and STABLE of OperatorStatus
        proto.operator.add(
            op_type=one.schema.name, since_version=one.schema.since, status=status, doc_string=text
        )
    return bytes(proto.SerializeToString(deterministic=True))


def read(data: bytes, origin: str) -> OperatorSet:
    """Parses an operator set from the bytes of an OperatorSetProto."""
    from opshift.protos.operator_messages import OperatorSetProto

    proto = OperatorSetProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf raises errors of several classes
        raise BadTarget(f"{origin} is not an OperatorSetProto: {error}") from None
    if proto.magic != MAGIC:
        raise BadTarget(
            f"{origin} is not an OperatorSetProto: its magic is {proto.magic!r}; give a document as"
            " `opshift ops --export` writes it"
        )
    if not _is_legible(proto):
        raise BadTarget(f"{origin} has a text that is not UTF-8; write the document again")
    if proto.opset_version < 1:
        raise BadTarget(f"{origin} does not state the version of its operator set")
    if proto.opset_version > NEWEST:
        raise BadTarget(
            f"{origin} describes version {proto.opset_version} of its domain; versions above"
            f" {NEWEST:,} are not read"
        )
    if len(proto.operator) > MOST_OPERATORS:
        raise BadTarget(
            f"{origin} describes {len(proto.operator):,} operators; more than {MOST_OPERATORS:,}"
            " are not read"
        )
    names = [one.op_type for one in proto.operator]
    if len(set(names)) < len(names):
        raise BadTarget(f"{origin} describes an operator twice; keep one description of each")
    domain = normal(proto.domain)
    return OperatorSet(
        domain,
        proto.opset_version,
        tuple(_operator(one, domain, proto, origin) for one in proto.operator),
        tuple(proto.functions),
    )


def _is_legible(proto: OperatorSetProto) -> bool:
    """Whether the names and texts are UTF-8, which protobuf does not require when it reads them."""
    try:
        texts = [proto.domain, *(one.name for one in proto.functions)]
        texts += [text for one in proto.operator for text in (one.op_type, one.doc_string)]
    except UnicodeDecodeError:
        return False
    return all(isinstance(text, str) for text in texts)


def _operator(proto: OperatorProto, domain: str, owner: OperatorSetProto, origin: str) -> Operator:
    where = f"{origin}: operator {proto.op_type!r}"
    if not 1 <= proto.since_version <= owner.opset_version:
        raise BadTarget(
            f"{where} begins at version {proto.since_version}, and the set is version"
            f" {owner.opset_version}; correct since_version"
        )
    prose, sign, signature = f"\n{proto.doc_string}".rpartition(f"\n{SIGNATURE}\n")
    has_body = proto.op_type in {one.name for one in owner.functions}
    name, since = proto.op_type, proto.since_version
    if sign:
        found = read_schema(signature, domain, name, since, where, has_body=has_body)
    else:
        found, prose = unstated(domain, name, since, has_body=has_body), proto.doc_string
    return Operator(found, prose.strip(), experimental=proto.status == 0)

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
        schema = self.schema
        return Change(
            op_type=schema.name,
            deprecated=schema.deprecated,
            has_function_body=schema.has_body,
            types=schema.listed_types,
            inputs=map(_parameter, schema.inputs),
            outputs=map(_parameter, schema.outputs),
            attributes=[_attribute(a) for _, a in sorted(schema.attributes.items())],
            experimental=self.experimental,
        )


def _parameter(param: Param) -> Parameter:
    option = "variadic" if param.variadic else "optional" if param.optional else ""
    return Parameter(name=param.name, type=param.variable, option=option, rank=param.rank)


def _attribute(attribute: schema.Attribute) -> Attribute:
    default = "" if attribute.default is None else default_text(attribute.default)
    return Attribute(
        name=attribute.name,
        type=kind_name(attribute.kind),
        required=attribute.required,
        default=default,
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
        return next((function for function in self.functions if function.name == op), None)


# -- the message ---------------------------------------------------------------------------------


def write(operator_set: OperatorSet) -> bytes:
    """Returns an operator set as the bytes of an OperatorSetProto."""
    from opshift.protos.operator_messages import OperatorSetProto

    proto = OperatorSetProto(
        magic=MAGIC, ir_version=IR_VERSION, domain=operator_set.domain,
        opset_version=operator_set.version, functions=operator_set.functions,
    )  # fmt: skip
    for operator in operator_set.operators:
        signature = signature_of(operator.schema) if operator.schema.stated else ""
        text = "\n\n".join(filter(None, (operator.documentation.strip(), signature)))
        status = 0 if operator.experimental else 1  # EXPERIMENTAL and STABLE of OperatorStatus
        proto.operator.add(
            op_type=operator.schema.name,
            since_version=operator.schema.since,
            status=status,
            doc_string=text,
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
            f"{origin} describes version {proto.opset_version} of its domain; opshift reads"
            f" versions up to {NEWEST:,}"
        )
    if len(proto.operator) > MOST_OPERATORS:
        raise BadTarget(
            f"{origin} describes {len(proto.operator):,} operators; opshift reads at most"
            f" {MOST_OPERATORS:,}"
        )
    names = [operator.op_type for operator in proto.operator]
    if len(set(names)) < len(names):
        raise BadTarget(f"{origin} describes an operator twice; keep one description of each")
    domain = normal(proto.domain)
    return OperatorSet(
        domain,
        proto.opset_version,
        tuple(_operator(operator, domain, proto, origin) for operator in proto.operator),
        tuple(proto.functions),
    )


def _is_legible(proto: OperatorSetProto) -> bool:
    """Returns whether all names and texts are UTF-8, which protobuf does not check on reading."""
    try:
        texts = [proto.domain, *(function.name for function in proto.functions)]
        texts += [
            text for operator in proto.operator for text in (operator.op_type, operator.doc_string)
        ]
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
    has_body = proto.op_type in {function.name for function in owner.functions}
    name, since = proto.op_type, proto.since_version
    if sign:
        schema = read_schema(signature, domain, name, since, where, has_body=has_body)
    else:
        schema, prose = unstated(domain, name, since, has_body=has_body), proto.doc_string
    return Operator(schema, prose.strip(), experimental=proto.status == 0)

# SPDX-License-Identifier: Apache-2.0
"""The only module that imports onnx.defs: full schemas of the operators in the database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from opshift.opsets import changelog, described, registration
from opshift.opsets.changelog import Changelog, OperatorId
from opshift.opsets.identity import normal as normal
from opshift.opsets.schema import ANY as ANY
from opshift.opsets.schema import GRAPHS
from opshift.opsets.schema import Attribute as Attribute
from opshift.opsets.schema import Param as Param
from opshift.opsets.schema import Schema as Schema
from opshift.protos import AttributeProto, FunctionProto, TensorProto, TypeProto, helper
from opshift.protos.library import defs

_RESERVED = "ai.onnx.training"  # a domain that onnx registers without operators


@described.remembered
def schema(domain: str, op: str, version: int) -> Schema | None:
    """Returns the implementation of an operator at `version`, or None."""
    entry = known().meaning(domain, op, version)
    return _described(entry.operator) if entry else None


@described.remembered
def history(domain: str, op: str) -> tuple[Schema, ...]:
    """Returns all implementations of an operator in the installed onnx, oldest first."""
    implementations = (_described(entry.operator) for entry in known().history(domain, op))
    return tuple(implementation for implementation in implementations if implementation is not None)


@described.remembered
def may_hold_graphs(domain: str, op: str) -> bool:
    """Returns whether nodes of an operator can have subgraphs; true for unknown operators."""
    per_implementation = [_attribute_kinds(entry.operator) for entry in known().history(domain, op)]
    kinds = [kind_set for kind_set in per_implementation if kind_set is not None]
    return not kinds or any(not GRAPHS.isdisjoint(kind_set) for kind_set in kinds)


def operators(domain: str) -> Iterator[str]:
    """Yields the names of all operators of a domain that the installed onnx has."""
    return (op for op in known().operators(domain) if history(domain, op))


@described.remembered
def changed(domain: str, version: int) -> frozenset[str]:
    """Returns the operators with an implementation that begins at `version`."""
    return known().changed(domain, version)


@described.remembered
def latest(domain: str) -> int | None:
    """Returns the newest version that the database and the installed onnx know, or None."""
    described = known().newest(domain) if domain in known_domains() else None
    return changelog.reached(domain, described)


@described.remembered
def known_domains() -> frozenset[str]:
    """Returns the known domains of which the installed onnx has at least one operator."""
    return frozenset(domain for domain in known().domains if next(operators(domain), None))


@described.remembered
def known() -> Changelog:
    """Returns the operator version database, extended by domains that onnx registers."""
    shipped = changelog.default()
    registration.register()
    domains = set(map(normal, defs.schema_version_map()))
    if domains <= shipped.domains | {_RESERVED}:  # reading all schemas from onnx is slow
        return shipped
    alone = (
        registered
        for registered in _registered()
        if normal(registered.domain) not in shipped.domains
    )
    ids = [
        OperatorId(normal(registered.domain), registered.name, registered.since_version)
        for registered in alone
    ]
    return shipped.completed(ids) if ids else shipped


def is_documented(domain: str) -> bool:
    """Returns whether only documents, not onnx, describe the operators of a domain."""
    return domain in changelog.default().documented


def body(domain: str, op: str, since: int, version: int) -> FunctionProto | None:
    """Returns the static function body for the newest version up to `version`, or None."""
    if is_documented(domain):
        return described.body(domain, op, since)
    onnx_schema = raw(domain, op, since)
    fits = [v for v in onnx_schema.function_opset_versions if v <= version]
    return _parsed(onnx_schema.get_function_with_opset_version(max(fits))) if fits else None


def body_for_node(
    domain: str, op: str, since: int, version: int, node: bytes, types: list[bytes]
) -> FunctionProto | None:
    """Returns the function body for a node's attributes and input types, or None."""
    onnx_schema = raw(domain, op, since)
    fits = [v for v in onnx_schema.context_dependent_function_opset_versions if v <= version]
    if not fits:
        return None
    text = onnx_schema.get_context_dependent_function_with_opset_version(max(fits), node, types)
    return _parsed(text) if text else None


def _parsed(text: bytes | FunctionProto) -> FunctionProto:
    if isinstance(text, FunctionProto):
        return text
    function = FunctionProto()
    function.ParseFromString(text)
    return function


@described.remembered
def fingerprint(domain: str, op: str, since: int) -> str:
    """Returns six hex digits that identify the structure of a schema and its predecessor."""
    return fingerprint_of(
        [implementation for implementation in history(domain, op) if implementation.since <= since][
            -2:
        ]
    )


def fingerprint_of(pair: Sequence[Schema]) -> str:
    return hashlib.sha256("".join(map(_structure, pair)).encode()).hexdigest()[:6]


def _structure(schema: Schema) -> str:
    params = [
        (p.name, sorted(p.types), p.optional, p.variadic) for p in (*schema.inputs, *schema.outputs)
    ]
    attributes = [
        (a.name, a.kind, a.required, repr(a.default)) for _, a in sorted(schema.attributes.items())
    ]
    return repr((schema.name, schema.since, schema.deprecated, params, attributes))


@described.remembered
def raw(domain: str, op: str, since: int) -> Any:  # the stubs of onnx know half of OpSchema
    """Returns onnx's schema object, with function bodies and inference."""
    if is_documented(domain) and (operator := described.operator(domain, op, since)) is not None:
        return registration.as_onnx(operator)
    registration.register()
    return defs.get_schema(op, since, domain)


def prose(domain: str, op: str, since: int) -> tuple[str, bool]:
    """Returns the documentation of an implementation, and whether it is experimental."""
    if is_documented(domain) and (operator := described.operator(domain, op, since)) is not None:
        return operator.documentation, operator.experimental
    onnx_schema = raw(domain, op, since)
    return (
        onnx_schema.doc or "",
        onnx_schema.support_level == defs.OpSchema.SupportType.EXPERIMENTAL,
    )


def installed(domain: str) -> list[Schema]:
    """Returns the schemas of a domain in the installed onnx, oldest first."""
    if is_documented(domain):
        documents = described.described().items()
        implementations = [
            implementation.schema
            for (described_domain, _), same in documents
            for implementation in same
            if described_domain == domain
        ]
    else:
        implementations = [
            _describe(registered)
            for registered in _registered()
            if normal(registered.domain) == domain
        ]
    return sorted(
        implementations, key=lambda implementation: (implementation.name, implementation.since)
    )


def newest_installed(domain: str) -> int:
    """Returns the newest version of a domain in onnx or in a document."""
    if is_documented(domain):
        return changelog.default().newest(domain) or 0
    registration.register()
    return int(defs.schema_version_map()[domain][1])


def _registered() -> Sequence[Any]:
    registration.register()
    return defs.get_all_schemas_with_history()


@described.remembered
def _described(operator: OperatorId) -> Schema | None:
    """Returns the full schema of an implementation, or None if the installed onnx lacks it."""
    if is_documented(operator.domain):
        operator_document = described.operator(
            operator.domain, operator.op_type, operator.since_version
        )
        return None if operator_document is None else operator_document.schema
    onnx_schema = _installed(operator)
    return None if onnx_schema is None else _describe(onnx_schema)


def _installed(operator: OperatorId) -> Any:
    """Returns onnx's schema object of an implementation, or None if onnx lacks it."""
    try:
        onnx_schema = raw(operator.domain, operator.op_type, operator.since_version)
    except defs.SchemaError:
        return None
    return onnx_schema if onnx_schema.since_version == operator.since_version else None


def _attribute_kinds(operator: OperatorId) -> set[int] | None:
    """Returns the attribute kinds of an implementation, or None if the installed onnx lacks it."""
    if is_documented(operator.domain):
        implementation = _described(operator)
        return (
            None
            if implementation is None
            else {attribute.kind for attribute in implementation.attributes.values()}
        )
    onnx_schema = _installed(operator)
    return (
        None
        if onnx_schema is None
        else {attribute.type.value for attribute in onnx_schema.attributes.values()}
    )


def _describe(onnx_schema: Any) -> Schema:
    unbounded = 2**31 - 1
    return Schema(
        domain=normal(onnx_schema.domain),
        name=onnx_schema.name,
        since=onnx_schema.since_version,
        deprecated=onnx_schema.deprecated,
        inputs=tuple(_param(onnx_schema, p) for p in onnx_schema.inputs),
        outputs=tuple(_param(onnx_schema, p) for p in onnx_schema.outputs),
        attributes={name: _attribute(a) for name, a in onnx_schema.attributes.items()},
        min_input=onnx_schema.min_input,
        max_input=ANY if onnx_schema.max_input == unbounded else onnx_schema.max_input,
        min_output=onnx_schema.min_output,
        max_output=ANY if onnx_schema.max_output == unbounded else onnx_schema.max_output,
        has_body=onnx_schema.has_function or onnx_schema.has_context_dependent_function,
        input_positions={p.name: i for i, p in enumerate(onnx_schema.inputs)},
        output_positions={p.name: i for i, p in enumerate(onnx_schema.outputs)},
    )


def _types(schema: Any, param: Any) -> frozenset[str]:
    """Returns the types that a parameter accepts."""
    try:
        return frozenset(param.types)
    except TypeError:  # onnx 1.20 cannot convert this set, but its constraints are readable
        named = {
            constraint.type_param_str: constraint.allowed_type_strs
            for constraint in schema.type_constraints
        }
        return frozenset(named.get(param.type_str, (param.type_str,)))


def _param(schema: Any, param: Any) -> Param:
    option = defs.OpSchema.FormalParameterOption
    return Param(
        name=param.name,
        types=_types(schema, param),
        variable=param.type_str,
        optional=param.option == option.Optional,
        variadic=param.option == option.Variadic,
        homogeneous=param.is_homogeneous,
    )


def _attribute(attribute: Any) -> Attribute:
    default = AttributeProto.FromString(attribute._default_value)
    value = helper.get_attribute_value(default) if default.name else None
    if isinstance(value, bytes):
        value = value.decode()
    return Attribute(attribute.name, attribute.type.value, attribute.required, value)


def element_name(element: int) -> str | None:
    """Returns an element type in the spelling of schemas, or None for unknown types."""
    return _ELEMENTS.get(element)


def element_number(name: str) -> int:
    return _NUMBERS[name]


_ELEMENTS = {
    number: name.lower() for name, number in TensorProto.DataType.items() if name != "UNDEFINED"
}
_NUMBERS = {name: number for number, name in _ELEMENTS.items()}


def type_name(proto: TypeProto | None) -> str | None:
    """Returns a type in the spelling of schemas, or None if the type is unknown or incomplete."""
    if proto is None:
        return None
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        element = element_name(proto.tensor_type.elem_type)
        return f"tensor({element})" if element else None
    if kind == "sequence_type":
        inner = type_name(proto.sequence_type.elem_type)
        return f"seq({inner})" if inner else None
    if kind == "optional_type":
        inner = type_name(proto.optional_type.elem_type)
        return f"optional({inner})" if inner else None
    if kind == "map_type":
        inner = type_name(proto.map_type.value_type)
        key = element_name(proto.map_type.key_type)
        return f"map({key},{inner})" if inner and key else None
    if kind == "sparse_tensor_type":
        element = element_name(proto.sparse_tensor_type.elem_type)
        return f"sparse_tensor({element})" if element else None
    return None

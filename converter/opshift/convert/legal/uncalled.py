# SPDX-License-Identifier: Apache-2.0
"""Calls of functions that nothing calls, so that inference and the checker look into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.author.types_by_name import types_in
from opshift.convert.legal import checker
from opshift.convert.legal.function_rules import never_called
from opshift.model.document import Document, function_id
from opshift.model.walk import nodes_in
from opshift.opsets import schemas
from opshift.opsets.types import rank_of
from opshift.protos import (
    AttributeProto,
    FunctionProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

RANKS = (2, 1, 3, 4, 5)  # of the inputs
OTHER_RANKS = (0, None)  # where no other rank is accepted; None: unknown
KINDS = ("float", "int64", "bool", "string", "int32", "uint8", "double", "float16")
_FIXED = {"int64": 1, "bool": 0}  # ranks of inputs that have no other type: axes and conditions
_VALUES = {
    AttributeProto.INT: AttributeProto(i=1),
    AttributeProto.FLOAT: AttributeProto(f=1.0),
    AttributeProto.INTS: AttributeProto(ints=[1]),
    AttributeProto.FLOATS: AttributeProto(floats=[1.0]),
}


def faulty_calls(before: ModelProto, after: ModelProto, adapters: Registry) -> Iterator[ModelProto]:
    """The calls that onnx accepts before a conversion and not behind it, each as a model.

    Inference accepts some ranks that an operator does not have, so a function is at fault only if
    no rank that is accepted before is accepted behind.
    """
    document = Document(before)
    now = {function_id(one): one for one in after.functions}
    for which in never_called(document):
        if which not in now:
            continue
        for ranks in (RANKS, *((one,) for one in OTHER_RANKS)):
            made = (_accepted(before, document.functions[which], one, adapters) for one in ranks)
            calls = [call for call in made if call is not None]
            if calls and not any(_is_sound(_again(call, after), adapters) for call in calls):
                yield calls[0]
            if calls:
                break


def _accepted(
    model: ModelProto, function: FunctionProto, rank: int | None, adapters: Registry
) -> ModelProto | None:
    """A call of a function with inputs of one rank; None if onnx does not accept it."""
    kinds = {name: _kind(function, name) for name in function.input}
    given = _attributes(function)
    if None in kinds.values() or given is None:
        return None
    call = _call(model, function, given)
    for name, kind in kinds.items():
        call.graph.input.append(_value(name, kind or "", rank))
    if not _is_sound(call, adapters):
        return None
    found = types_in(safe_inference.infer(call, adapters))
    for name in function.output:
        told = found.get(name)
        if told is not None and schemas.type_name(told) is not None:
            call.graph.output.append(ValueInfoProto(name=name, type=_without_lengths(told)))
    return call if call.graph.output and _is_sound(call, adapters) else None


def _again(call: ModelProto, model: ModelProto) -> ModelProto:
    """The same call of the functions of another model."""
    found = _header(model, call.graph.node[0].domain)
    found.graph.CopyFrom(call.graph)
    return found


def _header(model: ModelProto, domain: str) -> ModelProto:
    """The versions and functions of a model without its graph."""
    found = ModelProto(ir_version=model.ir_version)
    found.opset_import.extend(model.opset_import)
    found.functions.extend(model.functions)
    if domain not in {one.domain for one in model.opset_import}:
        found.opset_import.add(domain=domain, version=1)
    return found


def _call(
    model: ModelProto, function: FunctionProto, given: Iterable[AttributeProto]
) -> ModelProto:
    found = _header(model, function.domain)
    found.graph.name = function.name
    call = NodeProto(op_type=function.name, domain=function.domain, attribute=given)
    call.overload = function.overload
    call.input.extend(function.input)
    call.output.extend(function.output)
    found.graph.node.append(call)
    return found


def _is_sound(call: ModelProto, adapters: Registry) -> bool:
    return checker.lenient(call, adapters, full=True) is None


def _kind(function: FunctionProto, name: str) -> str | None:
    """The first element type that every node which reads an input accepts."""
    allowed, imports = set(KINDS), {one.domain: one.version for one in function.opset_import}
    for node in nodes_in(function):
        schema = schemas.schema(
            schemas.normal(node.domain), node.op_type, imports.get(node.domain, 0)
        )
        for i, read in enumerate(node.input if schema is not None else ()):
            param = schema.input_at(i) if schema is not None and read == name else None
            if param is not None:
                allowed = {kind for kind in allowed if f"tensor({kind})" in param.types}
    return next((kind for kind in KINDS if kind in allowed), None)


def _attributes(function: FunctionProto) -> list[AttributeProto] | None:
    """A value for each attribute without a default; None if a kind has no obvious value."""
    kinds = {one.ref_attr_name: one.type for node in nodes_in(function) for one in node.attribute}
    given = []
    for name in function.attribute:
        if name not in kinds:
            continue
        if kinds[name] not in _VALUES:
            return None
        value = AttributeProto(name=name, type=kinds[name])
        value.MergeFrom(_VALUES[kinds[name]])
        given.append(value)
    return given


def _value(name: str, kind: str, rank: int | None) -> ValueInfoProto:
    """An input with dimensions of unknown length."""
    found = ValueInfoProto(name=name)
    found.type.tensor_type.elem_type = TensorProto.DataType.Value(kind.upper())
    if rank is not None:
        found.type.tensor_type.shape.SetInParent()
    for _ in range(_FIXED.get(kind, rank) if rank is not None else 0):
        found.type.tensor_type.shape.dim.add()
    return found


def _without_lengths(kind: TypeProto) -> TypeProto:
    found = TypeProto()
    found.CopyFrom(kind)
    if rank_of(kind) is not None:
        for dim in found.tensor_type.shape.dim:
            dim.Clear()
    return found

# SPDX-License-Identifier: Apache-2.0
"""Calls of functions that nothing calls, so that inference and the checker look into them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.author.scope_types import by_graph
from opshift.convert.legal import checker
from opshift.convert.legal.function_rules import never_called
from opshift.model.document import Document, function_id
from opshift.model.functions import functions_of
from opshift.model.scope import call_id
from opshift.model.walk import nodes_in
from opshift.opsets import schemas
from opshift.opsets.types import without_lengths
from opshift.protos import (
    AttributeProto,
    FunctionProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)

RANKS = (2, 1, 3, 4)  # of an only input, which is hardly ever a scalar
RANKS_BESIDE = (*RANKS, 0)  # of an input beside others
MOST_INPUTS = 3  # of a function that is called with every combination of ranks
KINDS = ("float", "double", "float16", "string", "bool", "uint8", "int32", "int64")
_VALUES = {
    AttributeProto.INT: AttributeProto(i=1),
    AttributeProto.FLOAT: AttributeProto(f=1.0),
    AttributeProto.INTS: AttributeProto(ints=[1]),
    AttributeProto.FLOATS: AttributeProto(floats=[1.0]),
}


def faulty_calls(before: ModelProto, after: ModelProto, adapters: Registry) -> Iterator[ModelProto]:
    """The calls that onnx accepts before a conversion and not behind it, each as a model.

    Inference accepts some types and ranks that an operator does not have. Therefore a function is
    at fault only if no call that is accepted before is accepted behind.
    """
    document = Document(before)
    now = {function_id(one): one for one in after.functions}
    for which in never_called(document):
        function, found = document.functions[which], None
        written = which in now and now[which].node != function.node
        for inputs in _inputs(function) if written else ():
            call = _accepted(before, function, inputs, adapters)
            if call is not None and _is_sound(_again(call, after), adapters):
                break
            found = found or call
        else:
            if found is not None:
                yield found


def _inputs(function: FunctionProto) -> Iterator[list[ValueInfoProto]]:
    """Types of the inputs of a function that its nodes may accept."""
    count = len(function.input)
    ranks: Iterable[int | None] = RANKS if count == 1 else RANKS_BESIDE
    each = [ranks if count <= MOST_INPUTS else (None,)] * count
    for order in (KINDS, tuple(reversed(KINDS))):
        kinds = [_kind(function, name, order) for name in function.input]
        if None not in kinds:
            for chosen in itertools.product(*each):
                yield list(map(_value, function.input, kinds, chosen))


def _accepted(
    model: ModelProto,
    function: FunctionProto,
    inputs: Iterable[ValueInfoProto],
    adapters: Registry,
) -> ModelProto | None:
    """A call of a function with some inputs; None if onnx does not accept it."""
    if (given := _attributes(function)) is None:
        return None
    call = _call(model, function, given)
    call.graph.input.extend(inputs)
    if not _is_sound(call, adapters):
        return None
    found = by_graph(safe_inference.infer(call, adapters))[0].own
    for name in function.output:
        told = found.get(name)
        if told is not None and schemas.type_name(told) is not None:
            call.graph.output.append(ValueInfoProto(name=name, type=without_lengths(told)))
    return call if call.graph.output and _is_sound(call, adapters) else None


def _again(call: ModelProto, model: ModelProto) -> ModelProto:
    """The same call of the functions of another model."""
    found = _header(model, call.graph.node[0])
    found.graph.CopyFrom(call.graph)
    return found


def _header(model: ModelProto, call: NodeProto) -> ModelProto:
    """The versions of a model, and the functions behind a call."""
    found = ModelProto(ir_version=model.ir_version)
    found.opset_import.extend(model.opset_import)
    if call.domain not in {one.domain for one in model.opset_import}:
        found.opset_import.add(domain=call.domain, version=1)
    known, waiting = functions_of(model), [call]
    while waiting:
        function = known.pop(call_id(waiting.pop()), None)
        if function is not None:
            found.functions.append(function)
            waiting += nodes_in(function)
    return found


def _call(
    model: ModelProto, function: FunctionProto, given: Iterable[AttributeProto]
) -> ModelProto:
    call = NodeProto(op_type=function.name, domain=function.domain, attribute=given)
    call.overload = function.overload
    call.input.extend(function.input)
    call.output.extend(function.output)
    found = _header(model, call)
    found.graph.name = function.name
    found.graph.node.append(call)
    return found


def _is_sound(call: ModelProto, adapters: Registry) -> bool:
    return checker.lenient(call, adapters, full=True) is None


def _kind(function: FunctionProto, name: str, order: Iterable[str]) -> str | None:
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
    return next((kind for kind in order if kind in allowed), None)


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


def _value(name: str, kind: str | None, rank: int | None) -> ValueInfoProto:
    """An input with dimensions of unknown length."""
    found = ValueInfoProto(name=name)
    found.type.tensor_type.elem_type = TensorProto.DataType.Value((kind or "").upper())
    if rank is not None:
        found.type.tensor_type.shape.SetInParent()
    for _ in range(rank or 0):
        found.type.tensor_type.shape.dim.add()
    return found

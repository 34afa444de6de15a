# SPDX-License-Identifier: Apache-2.0
"""Checks a node strictly against the operator schema of its version."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from opshift.model.arrays import to_array
from opshift.protos import AttributeProto, NodeProto, SparseTensorProto
from opshift.protos.whole import defs, helper
from opshift.records import dataclass
from opshift.verify.oracle.values import OracleError, Value, fits, tensor, type_of

_ONE_AXIS = "ArgMax ArgMin Concat Flatten Split Compress Softmax LogSoftmax Hardmax Add Sub Mul Div"
_MORE_OF_ONE = "Pow And Or Xor Equal Greater Less"
_MANY_AXES = (
    "Squeeze Unsqueeze Slice ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean"
    " ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
NEGATIVE_AXIS_SINCE_11 = {
    **dict.fromkeys(f"{_ONE_AXIS} {_MORE_OF_ONE}".split(), ("axis", 0)),
    **dict.fromkeys(_MANY_AXES.split(), ("axes", 0)),
    **dict.fromkeys(("OneHot", "TopK"), ("axis", -1)),
}

DEPRECATED_BUT_DEFINED = {("GroupNormalization", 18)}


@dataclass(frozen=True, slots=True)
class Formal:
    """One formal input or output of a schema."""

    name: str
    variable: str
    allowed: tuple[str, ...]
    optional: bool
    bound: bool
    """Whether all values of this type variable must have the same type."""


@dataclass(frozen=True, slots=True)
class CheckedSchema:
    """The inputs and outputs of an operator schema, prepared for the check of nodes."""

    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    open_inputs: bool
    open_outputs: bool


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A node with its attributes, including the defaults of its own version."""

    node: NodeProto
    schema: defs.OpSchema
    opset: int
    attributes: dict[str, Any]

    @property
    def op(self) -> str:
        """The name of the operator."""
        return self.node.op_type

    @property
    def since(self) -> int:
        """The version of the operator at the imported opset."""
        return self.schema.since_version

    def __getitem__(self, name: str) -> Any:
        """Returns the value of an attribute; None if it is absent and has no default."""
        return self.attributes.get(name)

    def wants(self, index: int) -> bool:
        """Returns whether the node has output number `index`."""
        return index < len(self.node.output) and self.node.output[index] != ""


@cache
def schema_of(op: str, opset: int, domain: str) -> defs.OpSchema:
    """Returns the schema of an operator at an opset; raises OracleError for removed operators."""
    try:
        schema = defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        raise OracleError(f"{domain or 'ai.onnx'} {opset} has no operator {op}") from None
    if schema.deprecated and (op, schema.since_version) not in DEPRECATED_BUT_DEFINED:
        raise OracleError(f"{op} does not exist any more at opset {opset}")
    return schema


@cache
def _signature(op: str, since: int, domain: str) -> CheckedSchema:
    schema = schema_of(op, since, domain)
    option = defs.OpSchema.FormalParameterOption
    variables = {constraint.type_param_str for constraint in schema.type_constraints}

    def formals(parameters: Sequence[Any]) -> tuple[Formal, ...]:
        return tuple(
            Formal(
                p.name,
                p.type_str,
                tuple(sorted(p.types)),
                p.option != option.Single,
                p.type_str in variables and p.is_homogeneous,
            )
            for p in parameters
        )

    def variadic(parameters: Sequence[Any]) -> bool:
        return bool(parameters) and parameters[-1].option == option.Variadic

    return CheckedSchema(
        formals(schema.inputs),
        formals(schema.outputs),
        variadic(schema.inputs),
        variadic(schema.outputs),
    )


def attribute_value(attribute: AttributeProto) -> Any:
    """Returns an attribute as a Python value: text as str, tensors as arrays, graphs unchanged."""
    value = helper.get_attribute_value(attribute)
    match attribute.type:
        case AttributeProto.STRING:
            return value.decode()
        case AttributeProto.STRINGS:
            return [item.decode() for item in value]
        case AttributeProto.INTS | AttributeProto.FLOATS:
            return list(value)
        case AttributeProto.TENSOR:
            return tensor(to_array(value))
        case AttributeProto.SPARSE_TENSOR:
            return dense(value)
    return value


def dense(sparse: SparseTensorProto) -> np.ndarray:
    """Converts a sparse tensor; its indices are linear, or one row of coordinates per value."""
    values = to_array(sparse.values)
    indices = to_array(sparse.indices)
    result = np.zeros(tuple(sparse.dims), dtype=values.dtype)
    if indices.ndim == 2:
        result[tuple(indices.T)] = values
    else:
        result.reshape(-1)[indices] = values
    return result


@lru_cache(maxsize=4096)
def prepare(serialized: bytes, opset: int) -> Call:
    """Checks the attributes of a serialized node, and returns the node ready to be called."""
    node = NodeProto.FromString(serialized)
    schema = schema_of(node.op_type, opset, node.domain)
    attributes = {}
    for attribute in node.attribute:
        formal = schema.attributes.get(attribute.name)
        if formal is None:
            raise OracleError(f"{_at(schema)} has no attribute {attribute.name!r}")
        if int(formal.type) != attribute.type:
            raise OracleError(f"{_at(schema)}: attribute {attribute.name!r} has the wrong type")
        if attribute.name in attributes:
            raise OracleError(f"{_at(schema)}: attribute {attribute.name!r} is given twice")
        attributes[attribute.name] = attribute_value(attribute)
    for name, formal in schema.attributes.items():
        if name in attributes:
            continue
        if formal.required:
            raise OracleError(f"{_at(schema)} needs attribute {name!r}")
        if formal.default_value.type:
            attributes[name] = attribute_value(formal.default_value)
    _check_axes(node, schema.since_version, attributes)
    return Call(node, schema, opset, attributes)


def completed(call: Call) -> NodeProto:
    """Returns the node with the defaults of its version written out, without consumed_inputs."""
    node = NodeProto()
    node.CopyFrom(call.node)
    del node.attribute[:]
    node.attribute.extend(a for a in call.node.attribute if a.name != "consumed_inputs")
    present = {attribute.name for attribute in node.attribute}
    for name, formal in call.schema.attributes.items():
        if name not in present and formal.default_value.type:
            node.attribute.append(formal.default_value)
    return node


def _check_axes(node: NodeProto, since: int, attributes: dict[str, Any]) -> None:
    name, lowest = NEGATIVE_AXIS_SINCE_11.get(node.op_type, ("", 0))
    axes = attributes.get(name)
    if node.domain or since >= 11 or axes is None:
        return
    if min([axes] if isinstance(axes, int) else axes, default=0) < lowest:
        raise OracleError(
            f"{node.op_type}-{since}: a negative {name} is legal only from opset 11 on"
        )


def check_inputs(call: Call, values: Sequence[Value]) -> dict[str, str]:
    """Checks input values; returns the types that the type variables of the schema stand for."""
    bound: dict[str, str] = {}
    signature = _signature(call.op, call.since, call.node.domain)
    names = call.node.input
    _check_count(call, "input", len(names), call.schema.min_input, call.schema.max_input)
    for index, (name, value) in enumerate(zip(names, values, strict=True)):
        formal = signature.inputs[min(index, len(signature.inputs) - 1)]
        if name == "":
            if not formal.optional:
                raise OracleError(f"{_at(call.schema)}: input {formal.name!r} is missing")
            continue
        _bind(call, formal, value, bound)
    return bound


def check_outputs(call: Call, values: Sequence[Value], bound: dict[str, str]) -> None:
    """Raises OracleError unless every named output exists and has a type that the schema allows."""
    signature = _signature(call.op, call.since, call.node.domain)
    names = call.node.output
    _check_count(call, "output", len(names), call.schema.min_output, call.schema.max_output)
    if len(values) < max((i + 1 for i, name in enumerate(names) if name), default=0):
        raise OracleError(f"{_at(call.schema)}: the engine returned only {len(values)} outputs")
    for index, (name, value) in enumerate(zip(names, values, strict=False)):
        if name:
            _bind(call, signature.outputs[min(index, len(signature.outputs) - 1)], value, bound)


def _check_count(call: Call, what: str, count: int, low: int, high: int) -> None:
    if not low <= count <= high:
        raise OracleError(f"{_at(call.schema)} takes {low} to {high} {what}s, {count} given")


def _bind(call: Call, formal: Formal, value: Value, bound: dict[str, str]) -> None:
    actual = type_of(value)
    if not any(fits(actual, allowed) for allowed in formal.allowed):
        raise OracleError(f"{_at(call.schema)}: {formal.name!r} cannot be {actual}")
    if formal.bound and "?" not in actual:
        expected = bound.setdefault(formal.variable, actual)
        if expected != actual:
            raise OracleError(
                f"{_at(call.schema)}: {formal.variable} is {expected}, {formal.name!r} is {actual}"
            )


def _at(schema: defs.OpSchema) -> str:
    return f"{schema.name}-{schema.since_version}"

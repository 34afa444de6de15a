# SPDX-License-Identifier: Apache-2.0
"""Asserts that one operator converts up to the newest version, or down from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift import versions
from opshift.model.arrays import from_array
from opshift.opsets import schemas
from opshift.protos import GraphProto, ModelProto, TensorProto, ValueInfoProto
from opshift.protos.whole import helper, onnx, shape_inference
from opshift.testing.models import assert_model_converts
from opshift.text import suggestion
from opshift.verify import oracle
from opshift.verify.oracle.values import elem_type_of

Shape = Sequence[int | str]


def assert_op_upgrades(op: str, since: int, **how: Any) -> ModelProto:
    """Asserts that an operator of version `since` converts to the newest version.

    The test becomes meaningful as soon as a later version changes the operator. Until then it
    passes if the node is valid.
    """
    return _converts(op, since, None, **how)


def assert_op_downgrades(op: str, since: int, **how: Any) -> ModelProto:
    """Asserts that an operator of the newest version converts to version `since`."""
    return _converts(op, None, since, **how)


def _converts(
    op: str,
    start: int | None,
    end: int | None,
    *,
    input_shapes: Sequence[Shape | None] = ((3, 4, 5),),
    domain: str = "",
    to: int | None = None,
    input_types: Sequence[int] | None = None,
    output_shapes: Sequence[Shape] | None = None,
    output_types: Sequence[int] | None = None,
    constants: Mapping[int, Any] | None = None,
    attrs: Mapping[str, Any] | None = None,
    outputs: int = 1,
    imports: Mapping[str, int] | None = None,
    **how: Any,
) -> ModelProto:
    """Converts a model of one node; None as `start` or `end` means `to`, or the newest version."""
    newest = schemas.latest(domain) if to is None else to
    if newest is None:
        raise AssertionError(f"the versions of domain {domain!r} are unknown")
    all_imports = {**(imports or {}), domain: newest if start is None else start}
    _require_operator(op, domain, all_imports[domain])
    model = operator(
        op, all_imports, domain, input_shapes, input_types, constants or {}, attrs or {},
        _declared(output_shapes, output_types) or outputs,
    )  # fmt: skip
    return assert_model_converts(model, {domain: newest if end is None else end}, **how)


def _require_operator(op: str, domain: str, version: int) -> None:
    """Raises an AssertionError if this version of a domain does not have the operator."""
    name, newest = domain or "ai.onnx", schemas.latest(domain) or 0
    if not 1 <= version <= newest:
        raise AssertionError(f"{name} has the versions 1 to {newest}, but not {version}")
    history = schemas.history(domain, op)
    if not history:
        near = suggestion(op, list(schemas.operators(domain)))
        raise AssertionError(f"{name} has no operator {op!r}{near}")
    schema = schemas.schema(domain, op, version)
    if schema is None:
        raise AssertionError(
            f"{name} {version} has no {op}, which exists from {history[0].since} on"
        )
    if schema.deprecated:
        raise AssertionError(
            f"{name} {version} has no {op}, which version {schema.since} deprecated"
        )


def operator(
    op: str, imports: Mapping[str, int], domain: str, shapes: Sequence[Shape | None],
    types: Sequence[int] | None, constants: Mapping[int, Any], attrs: Mapping[str, Any],
    outputs: list[ValueInfoProto] | int,
) -> ModelProto:  # fmt: skip
    """Returns a model of one node; a shape of None omits an input, constants are initializers."""
    graph = GraphProto(name="operator")
    names = []
    for place, shape in enumerate(shapes):
        name = f"x{place}" if shape is not None or place in constants else ""
        names.append(name)
        if place in constants:
            graph.initializer.append(from_array(constants[place], name))
        elif shape is not None:
            elem_type = types[place] if types else TensorProto.FLOAT
            graph.input.append(helper.make_tensor_value_info(name, elem_type, shape))
    declared = outputs if isinstance(outputs, list) else None
    results = [
        f"y{place}" for place in range(outputs if isinstance(outputs, int) else len(outputs))
    ]
    graph.node.append(helper.make_node(op, names, results, domain=domain, **attrs))
    entries = [helper.make_opsetid(name, version) for name, version in imports.items()]
    # Below IR 4, an initializer is also a graph input, and therefore not a constant.
    model = ModelProto(ir_version=max(versions.ir_for(imports), 4), graph=graph)
    model.opset_import.extend(entries)
    model.graph.output.extend(declared or _inferred(model, results))
    onnx.checker.check_model(model)
    return model


def _declared(shapes: Sequence[Shape] | None, types: Sequence[int] | None) -> list[ValueInfoProto]:
    """Returns the output types that the caller states; float if the caller states none."""
    kinds = types or [TensorProto.FLOAT] * len(shapes or ())
    pairs = zip(kinds, shapes or (), strict=False)
    return [helper.make_tensor_value_info(f"y{i}", *pair) for i, pair in enumerate(pairs)]


def _inferred(model: ModelProto, names: Sequence[str]) -> list[ValueInfoProto]:
    open_model = ModelProto()
    open_model.CopyFrom(model)
    open_model.graph.output.extend(ValueInfoProto(name=name) for name in names)
    outputs = shape_inference.infer_shapes(open_model, data_prop=True).graph.output
    if any(info.type.WhichOneof("value") is None for info in outputs):
        return _computed(open_model)
    return list(outputs)


def _computed(model: ModelProto) -> list[ValueInfoProto]:
    """Computes the types in our evaluator, because onnx infers few types below opset 6."""
    unsaid = AssertionError("the types of the outputs cannot be inferred; give output_shapes=")
    dims = (dim for info in model.graph.input for dim in info.type.tensor_type.shape.dim)
    if not all(dim.HasField("dim_value") for dim in dims):
        raise unsaid
    try:
        values = oracle.evaluate(model, oracle.make_inputs(model))
    except oracle.OracleError as error:
        raise unsaid from error
    if not all(isinstance(value, np.ndarray) for value in values):
        raise unsaid
    return [
        helper.make_tensor_value_info(info.name, elem_type_of(value.dtype), value.shape)
        for info, value in zip(model.graph.output, values, strict=True)
    ]

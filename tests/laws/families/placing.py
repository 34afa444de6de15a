# SPDX-License-Identifier: Apache-2.0
"""Puts a random operator into a model: its inputs, its declarations and its scope."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
    helper,
    shape_inference,
)
from opshift import versions
from opshift.opsets import schemas
from opshift.verify import oracle
from opshift.verify.oracle.values import elem_type_of

from families.making import Given, Making
from families.scoping import Parts, as_function, into_branches, into_loop, tensor_of

DATA = ("input",) * 7 + ("initializer", "constant", "fed")
FIXED = ("initializer", "initializer", "constant", "constant", "folded", "input", "fed")
DECLARED = ("static",) * 4 + ("symbols", "shared", "rank", "hidden", "mixed")
PLACES = ("main",) * 6 + ("if", "if", "function", "function", "loop")
FLOATING = (1, 10, 11)


def place(m: Making) -> tuple[ModelProto, dict[str, Any]]:
    """Returns a model with the drawn nodes, and its inputs."""
    imports = _imports(m)
    opset, where = imports[""], m.one(*PLACES)
    old_ir = opset <= 8 and not m.domain and where == "main" and m.one(True, False, False, False)
    parts = Parts(opset, old_ir)
    how = m.one(*DECLARED)
    for given in m.given:
        _present(m, parts, given, how)
    nodes, functions = [*itertools.chain(*parts.before), *m.nodes], []
    if where == "function" and opset >= 7:
        nodes, function = as_function(m, parts, imports)
        functions.append(function)
        imports = {**imports, "own": 1}
    outputs = [ValueInfoProto(name=name) for name in m.unused]
    ir = 3 if old_ir else max(versions.ir_for(imports), 8 if functions else 4)
    model = ModelProto(ir_version=ir, functions=functions)
    model.opset_import.extend(helper.make_opsetid(d, v) for d, v in imports.items())
    model.graph.CopyFrom(
        GraphProto(
            name="made", node=nodes, input=parts.inputs, output=outputs,
            initializer=parts.initializers,
        )
    )  # fmt: skip
    _declare_outputs(m, model, parts.feeds, how)
    if where == "if":
        into_branches(m, model, parts)
    elif where == "loop":
        into_loop(model, parts)
    return model, parts.feeds


def _imports(m: Making) -> dict[str, int]:
    newest = schemas.latest("") or 1
    if not m.domain:
        return {"": m.opset}
    return {"": min(m.one(13, 17, 21), newest), m.domain: m.opset}


# ------------------------------------------------------------------ inputs


def _present(m: Making, parts: Parts, given: Given, how: str) -> None:
    value = given.value
    if given.declared is not None or not isinstance(value, np.ndarray):
        parts.inputs.append(ValueInfoProto(name=given.name, type=_type_of(given)))
        parts.feeds[given.name] = value
        return
    form = m.one(*(FIXED if given.fixed else DATA))
    elem = elem_type_of(value.dtype)
    if form == "folded" and (value.dtype != np.int64 or parts.opset < 9):
        form = "constant"
    if form == "constant" and parts.opset < 9 and elem not in FLOATING:
        form = "initializer"
    match form:
        case "initializer":
            parts.own(given.name, value)
        case "constant":
            parts.before.append([_constant(given.name, value)])
        case "folded":
            narrow = f"{given.name}_narrow"
            cast = helper.make_node("Cast", [narrow], [given.name], to=7)
            parts.before.append([_constant(narrow, value.astype(np.int32)), cast])
        case _:
            if how == "mixed":
                how = m.one("static", "symbols", "shared", "rank", "hidden")
            if how == "hidden" and _reshapes(parts.opset, value):
                _hide(parts, given.name, value)
                return
            name = f"{given.name}_in" if form == "fed" else given.name
            parts.inputs.append(_declared(m, name, value, how))
            parts.feeds[name] = value
            if form == "fed":
                parts.before.append([helper.make_node("Identity", [name], [given.name])])


def _reshapes(opset: int, value: Any) -> bool:
    if opset < 5 or not value.size:
        return False
    name = f"tensor({schemas.element_name(elem_type_of(value.dtype))})"
    return name in schemas.schema("", "Reshape", opset).input_at(0).types


def _hide(parts: Parts, name: str, value: Any) -> None:
    """A Reshape at run time hides even the rank of a value."""
    elem, flat, shape = elem_type_of(value.dtype), f"{name}_flat", f"{name}_shape"
    parts.inputs.append(helper.make_tensor_value_info(flat, elem, [value.size]))
    parts.inputs.append(helper.make_tensor_value_info(shape, 7, [f"{name}_rank"]))
    parts.feeds[flat], parts.feeds[shape] = value.reshape(-1), np.array(value.shape, np.int64)
    parts.before.append([helper.make_node("Reshape", [flat, shape], [name])])


def _constant(name: str, value: Any) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=tensor_of(value))


def _type_of(given: Given) -> TypeProto:
    if given.declared is not None:
        return given.declared
    value, found = given.value, TypeProto()
    if isinstance(value, list):
        found.sequence_type.elem_type.tensor_type.elem_type = elem_type_of(value[0].dtype)
        return found
    key, item = next(iter(value.items()))
    found.map_type.key_type = elem_type_of(np.asarray(key).dtype)
    kind = np.float32 if isinstance(item, float) else np.asarray(item).dtype
    found.map_type.value_type.tensor_type.elem_type = elem_type_of(np.dtype(kind))
    return found


def _declared(m: Making, name: str, value: Any, how: str) -> ValueInfoProto:
    elem = elem_type_of(value.dtype)
    shape: list[Any] = list(value.shape)
    if how == "symbols":
        shape = [f"{name}_{i}" if m.flag() else n for i, n in enumerate(value.shape)]
    elif how == "shared":
        shape = [f"of_{n}" for n in value.shape]
    elif how != "static":
        shape = [None] * value.ndim
    return helper.make_tensor_value_info(name, elem, shape)


# ------------------------------------------------------------------ outputs


def _declare_outputs(m: Making, model: ModelProto, feeds: dict[str, Any], how: str) -> None:
    """Declares types and ranks, and also lengths if those of the inputs are declared."""
    values = oracle.evaluate(model, feeds)
    for info, value in zip(model.graph.output, values, strict=True):
        if isinstance(value, np.ndarray):
            elem = elem_type_of(value.dtype)
            told = how == "static" and m.flag() and not oracle.doubtful(model)
            shape = value.shape if told else [None] * value.ndim
            info.CopyFrom(helper.make_tensor_value_info(info.name, elem, shape))
        else:
            info.type.CopyFrom(_inferred(model, info.name))


def _inferred(model: ModelProto, name: str) -> TypeProto:
    inferred = shape_inference.infer_shapes(model)
    for info in (*inferred.graph.output, *inferred.graph.value_info):
        if info.name == name and info.type.WhichOneof("value"):
            return info.type
    raise oracle.OracleError(f"nobody infers the type of {name}")

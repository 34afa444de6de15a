"""Puts a made-up operator into a model: where its inputs come from, what is declared, which scope."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
    helper,
    shape_inference,
)
from opshift import arrays, schemas, versions
from opshift.verify import oracle
from opshift.verify.oracle.values import elem_type_of

from families.making import Given, Making

DATA = ("input",) * 7 + ("initializer", "constant", "fed")
FIXED = ("initializer", "initializer", "constant", "constant", "folded", "input", "fed")
DECLARED = ("static",) * 4 + ("symbols", "shared", "rank", "hidden", "mixed")
PLACES = ("main",) * 6 + ("if", "if", "function", "function")
FLOATING = (1, 10, 11)


@dataclass
class Parts:
    """What becomes a graph: inputs, initializers and the nodes before the operator's own."""

    opset: int
    old_ir: bool
    inputs: list[ValueInfoProto] = field(default_factory=list)
    initializers: list[Any] = field(default_factory=list)
    before: list[list[NodeProto]] = field(default_factory=list)  # by the input they make
    feeds: dict[str, Any] = field(default_factory=dict)

    def own(self, name: str, value: Any) -> None:
        """An initializer, which is an input as well in the oldest models."""
        tensor = _tensor(value, name)
        self.initializers.append(tensor)
        if self.old_ir:
            self.inputs.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))


def place(m: Making) -> tuple[ModelProto, dict[str, Any]]:
    """The model around what was made, and what it is to be fed."""
    imports = _imports(m)
    opset, where = imports[""], m.one(*PLACES)
    old_ir = opset <= 8 and not m.domain and where == "main" and m.one(True, False, False, False)
    parts = Parts(opset, old_ir)
    how = m.one(*DECLARED)
    for given in m.given:
        _present(m, parts, given, how)
    nodes, functions = [*itertools.chain(*parts.before), *m.nodes], []
    if where == "function" and opset >= 7:
        nodes, function = _function(m, parts, imports)
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
        _into_branches(m, model, parts)
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
    """Not even the rank is known of what is reshaped at run time."""
    elem, flat, shape = elem_type_of(value.dtype), f"{name}_flat", f"{name}_shape"
    parts.inputs.append(helper.make_tensor_value_info(flat, elem, [value.size]))
    parts.inputs.append(helper.make_tensor_value_info(shape, 7, [f"{name}_rank"]))
    parts.feeds[flat], parts.feeds[shape] = value.reshape(-1), np.array(value.shape, np.int64)
    parts.before.append([helper.make_node("Reshape", [flat, shape], [name])])


def _tensor(value: Any, name: str = "") -> Any:
    return arrays.from_array(value, name)


def _constant(name: str, value: Any) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=_tensor(value))


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
    """Types and ranks from the values; lengths too where the inputs have theirs."""
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
    found = shape_inference.infer_shapes(model)
    for info in (*found.graph.output, *found.graph.value_info):
        if info.name == name and info.type.WhichOneof("value"):
            return info.type
    raise oracle.OracleError(f"nobody infers the type of {name}")


# ------------------------------------------------------------------ scopes


def _into_branches(m: Making, model: ModelProto, parts: Parts) -> None:
    """The operator in one branch of an If; the other has a copy under other names."""
    graph = model.graph
    schema = schemas.schema("", "If", parts.opset)
    result = schema.output_at(0)
    kinds = [schemas.type_name(info.type) for info in graph.output]
    if not all(kind in result.types for kind in kinds):
        return
    inner = list(graph.node)
    outer: list[NodeProto] = []
    if m.flag():
        own = {out for node in m.nodes for out in node.output}
        inner = [node for node in graph.node if own & set(node.output)]
        outer = [node for node in graph.node if not own & set(node.output)]
        if len(inner) + len(outer) != len(graph.node) or not inner:
            return
    branches = [_branch(graph, inner, suffix) for suffix in ("_then", "_else")]
    condition = "which"
    call = helper.make_node(
        "If", [condition], [info.name for info in graph.output],
        then_branch=branches[0], else_branch=branches[1],
    )  # fmt: skip
    del graph.node[:]
    graph.node.extend([*outer, call])
    if m.flag():
        graph.input.append(helper.make_tensor_value_info(condition, 9, []))
        parts.feeds[condition] = np.array(m.flag())
    else:
        graph.initializer.append(_tensor(np.array(m.flag()), condition))


def _branch(graph: GraphProto, nodes: list[NodeProto], suffix: str) -> GraphProto:
    names = {out: out + suffix for node in nodes for out in node.output if out}
    branch = GraphProto(name=f"branch{suffix}")
    for node in nodes:
        copy = branch.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [names.get(name, name) for name in node.output]
        for attribute in copy.attribute:
            _rename(attribute, names, suffix)
    for info in graph.output:
        branch.output.add().CopyFrom(info)
        branch.output[-1].name = names.get(info.name, info.name)
    return branch


def _rename(attribute: AttributeProto, names: dict[str, str], suffix: str) -> None:
    """Names of bodies must differ between the branches too."""
    if attribute.type != AttributeProto.GRAPH:
        return
    body = attribute.g
    inner = dict(names)
    defined = [*body.input, *body.initializer]
    inner |= {one.name: one.name + suffix for one in defined}
    inner |= {out: out + suffix for node in body.node for out in node.output if out}
    for one in (*defined, *body.output):
        one.name = inner.get(one.name, one.name)
    for node in body.node:
        node.input[:] = [inner.get(name, name) for name in node.input]
        node.output[:] = [inner.get(name, name) for name in node.output]
        for held in node.attribute:
            _rename(held, inner, suffix)


def _function(m: Making, parts: Parts, imports: dict[str, int]) -> tuple[list[NodeProto], Any]:
    """The operator in a function of the model; now and then an attribute is the caller's."""
    inside, outside = [], []
    for group in parts.before:
        (inside if m.flag() else outside).extend(group)
    body = [NodeProto.FromString(n.SerializeToString()) for n in (*inside, *m.nodes)]
    own = {out for node in body for out in node.output if out}
    needed = sorted({name for node in body for name in _reads(node) if name and name not in own})
    call = helper.make_node("Made", needed, list(m.unused), domain="own")
    names = []
    plain = [a for a in body[-1].attribute if a.type in (1, 2, 3) and not a.ref_attr_name]
    if plain and m.flag():
        chosen = plain[m.int(0, len(plain) - 1)]
        given = AttributeProto.FromString(chosen.SerializeToString())
        given.name = f"own_{chosen.name}"
        call.attribute.append(given)
        names.append(given.name)
        name, kind = chosen.name, chosen.type
        chosen.CopyFrom(AttributeProto(name=name, type=kind, ref_attr_name=given.name))
    entries = [helper.make_opsetid(d, v) for d, v in imports.items()]
    function = helper.make_function("own", "Made", needed, list(m.unused), body, entries, names)
    return [*outside, call], function


def _reads(node: NodeProto) -> set[str]:
    """What a node and the bodies it holds take from outside."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            body = attribute.g
            inner = {one.name for one in (*body.input, *body.initializer)}
            inner |= {out for one in body.node for out in one.output}
            for one in body.node:
                found |= _reads(one) - inner
            found |= {one.name for one in body.output} - inner
    return found

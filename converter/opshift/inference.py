"""The types that onnx's inference finds: of a whole model, of one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    helper,
)
from onnx.shape_inference import InferenceError

from opshift import schemas, survive
from opshift.arrays import from_array
from opshift.census import TYPE_ATTRIBUTES
from opshift.declare import Array
from opshift.knowledge import is_small
from opshift.order import reads
from opshift.scope import Root, graphs_of, may_hold_graphs

Inferred = dict[str, TypeProto | None]


def infer_all(model: bytes | ModelProto) -> Inferred:
    """Value types over all scopes by name; None where two scopes disagree about a name."""
    try:
        inferred = survive.infer(model, data_prop=True)
    except (InferenceError, RuntimeError, onnx.checker.ValidationError):
        # A model that inference rejects is converted by what it declares itself.
        return {}
    found: Inferred = {}
    graphs = [inferred.graph]
    while graphs:
        graph = graphs.pop()
        for info in (*graph.value_info, *graph.output, *graph.input):
            if info.HasField("type"):
                known = found.setdefault(info.name, info.type)
                if known is not None and known != info.type:
                    found[info.name] = None
        for node in graph.node:
            if may_hold_graphs((node.domain, node.op_type)):
                graphs += [inner for _, inner in graphs_of(node)]
    return found


def infer_node(
    node: NodeProto,
    root: Root,
    type_of: Callable[[str], TypeProto | None],
    constant_of: Callable[[str], Array | None],
    version: int | None = None,
) -> dict[str, TypeProto]:
    """One node's output types from its input types, by the schema's own inference."""
    schema = root.schema_of(node, version)
    if schema is None:
        return {}
    domain = schema.domain
    imports = [helper.make_opsetid(d, root.imports[d]) for d in root.imports if d != domain]
    imports.append(helper.make_opsetid(domain, version or root.imports[domain]))
    if any(a.type == AttributeProto.GRAPH for a in node.attribute):
        return infer_alone(node, type_of, imports)
    types = {n: type_of(n) or TypeProto() for n in node.input if n}
    data = {}
    for name in node.input:
        found = constant_of(name) if name and is_small(types.get(name)) else None
        if found is not None:
            data[name] = from_array(found, name)
    raw = schemas.raw(domain, node.op_type, schema.since)
    try:
        inferred = onnx.shape_inference.infer_node_outputs(
            raw, node, types, data, opset_imports=imports
        )
    except (InferenceError, RuntimeError, ValueError, onnx.checker.ValidationError):
        # Inference that cannot say is no inference; the adapter refuses if it needs the type.
        return {}
    for name, kind in _element_types(node, schema, types).items():
        known = inferred.setdefault(name, TypeProto())
        if schemas.type_name(known) is None:
            known.tensor_type.elem_type = kind  # beside the shape, if there is one
    return dict(inferred)


def infer_alone(
    node: NodeProto,
    type_of: Callable[[str], TypeProto | None],
    imports: Sequence[OperatorSetIdProto],
) -> dict[str, TypeProto]:
    """The output types of a node with subgraphs: those of a model that holds this node alone."""
    model = ModelProto(ir_version=onnx.IR_VERSION, opset_import=imports)
    model.graph.name = node.op_type
    model.graph.node.append(node)
    for name in dict.fromkeys(reads(node)):
        found = type_of(name) if name else None
        if found is not None:
            model.graph.input.add(name=name).type.CopyFrom(found)
    inferred = infer_all(model)
    return {name: found for name in node.output if (found := inferred.get(name)) is not None}


def _element_types(
    node: NodeProto, schema: schemas.Schema, types: Mapping[str, TypeProto]
) -> dict[str, int]:
    """Element types as schema and attributes say them: nobody infers some of the old operators."""
    known: dict[str, int] = {}
    for index, name in enumerate(node.input):
        param = schema.input_at(index)
        element = types[name].tensor_type.elem_type if name in types else 0
        if element and param is not None and not param.variadic:
            known.setdefault(param.variable, element)
    found = {}
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES and attribute.type == AttributeProto.STRING:
            # As Cast named its type before 6.
            found[node.output[0]] = dict(TensorProto.DataType.items()).get(attribute.s.decode(), 0)
    for index, name in enumerate(node.output):
        param = schema.output_at(index)
        if not name or param is None or param.variadic:
            continue
        if param.variable in known:
            found[name] = known[param.variable]
        elif len(param.types) == 1 and (only := next(iter(param.types))).startswith("tensor("):
            found[name] = schemas.element_number(only[len("tensor(") : -1])
    return found

# SPDX-License-Identifier: Apache-2.0
"""Generates models of one node, for each operator version and choice of element types.

If a runtime loads such a model, it has a kernel for these element types.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import onnx
from onnx import AttributeProto, TensorProto, defs, helper
from opshift.opsets import kernels
from opshift.opsets.schemas import history

FLOOR = {"": 7, "ai.onnx.ml": 1}  # runtimes have no kernels below these opsets
NUMBERS = {name: getattr(TensorProto, name.upper()) for name in kernels.SHORT}
# Attributes that choose an element type, with the type variable that they choose.
CHOOSES = {"to": "T2", "dtype": "T2"}


class Probe(NamedTuple):
    """One operator at one opset, with one element type for each of its type variables."""

    domain: str
    op: str
    opset: int
    variables: tuple[str, ...]
    types: tuple[str, ...]
    since: int

    def models(self) -> Iterator[str]:
        """Yields the node with inputs of unknown rank, then with inputs of each small rank."""
        schema = defs.get_schema(self.op, self.since, self.domain)
        for rank in (None, 1, 2, 3, 4, 0):
            yield _model(schema, self, rank)


def bare(op: str, domain: str) -> str:
    """Returns a model of one node without inputs, to test whether a runtime has an operator."""
    outputs = [onnx.ValueInfoProto(name="y")]
    return packed(helper.make_node(op, [], ["y"], domain=domain), [], outputs)


def packed(
    node: onnx.NodeProto, inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto], version: int = 1,
) -> str:  # fmt: skip
    """Returns a model of one node, at a version of its domain, encoded in base64."""
    graph = helper.make_graph([node], "g", inputs, outputs)
    imports = [helper.make_opsetid("", 8 if node.domain else version)]
    if node.domain:
        imports.append(helper.make_opsetid(node.domain, version))
    model = helper.make_model(graph, opset_imports=imports, ir_version=3)
    return base64.b64encode(model.SerializeToString()).decode()


def measured() -> list[defs.OpSchema]:
    """Returns the operator versions from the lowest tested opset on, without graph attributes."""
    graph = defs.OpSchema.AttrType.GRAPH
    return [
        schema
        for schema in defs.get_all_schemas_with_history()
        if schema.domain in FLOOR
        and _end(schema) > FLOOR[schema.domain]
        and not any(attribute.type == graph for attribute in schema.attributes.values())
    ]


def opsets(schema: defs.OpSchema) -> list[int]:
    """Returns the opsets of the models: the version, and its later opsets if it has a body."""
    version = schema.since_version
    has_body = schema.has_function or schema.has_context_dependent_function
    later = range(max(version, FLOOR[schema.domain]) + 1, _end(schema)) if has_body else ()
    return [version, *later]


def _end(schema: defs.OpSchema) -> int:
    """Returns the first opset after the opsets of an operator version."""
    every = (version.since for version in history(schema.domain, schema.name))
    return next((n for n in every if n > schema.since_version), defs.onnx_opset_version() + 1)


def of(schema: defs.OpSchema) -> list[Probe]:
    """Returns probes for the choices of element types; none if an input is not a tensor."""
    key, names, since = (schema.domain, schema.name), variables(schema), schema.since_version
    types = {c.type_param_str: elements(c.allowed_type_strs) for c in schema.type_constraints}
    allowed = [types[name] for name in names]
    each = itertools.product(*kernels.tried(allowed), opsets(schema)) if all(allowed) else ()
    return [Probe(*key, opset, names, tuple(types), since) for *types, opset in each]


def variables(schema: defs.OpSchema) -> tuple[str, ...]:
    """Returns the type variables of an operator version, without those of a sequence it makes."""
    read = {formal.type_str for formal in schema.inputs}
    kinds = ((c.type_param_str, c.allowed_type_strs) for c in schema.type_constraints)
    return tuple(name for name, types in kinds if name in read or elements(types))


def elements(types: list[str] | set[str]) -> list[str]:
    """Extracts element types from type texts such as `tensor(float)`."""
    return sorted(t[7:-1] for t in types if t.startswith("tensor(") and t[7:-1] in kernels.SHORT)


def _model(schema: defs.OpSchema, probe: Probe, rank: int | None) -> str:
    chosen = dict(zip(probe.variables, probe.types, strict=True))
    shape = None if rank is None else [f"d{i}" for i in range(rank)]

    def value(name: str, formal: defs.OpSchema.FormalParameter) -> onnx.ValueInfoProto:
        element = chosen.get(formal.type_str) or elements([formal.type_str])[0]
        return helper.make_tensor_value_info(name, NUMBERS[element], shape)

    needed = _needed(schema, chosen)
    inputs = [
        value(f"x{i}", formal)
        for i, formal in enumerate(schema.inputs)
        if i < needed or formal.option == formal.option.Variadic
    ]
    outputs = [
        onnx.ValueInfoProto(name=f"y{i}")
        for i, _ in enumerate(schema.outputs[: max(schema.min_output, 1)])
    ]
    node = helper.make_node(
        schema.name, [x.name for x in inputs], [y.name for y in outputs], domain=schema.domain
    )
    node.attribute.extend(_attributes(schema, chosen))
    return packed(node, inputs, outputs, max(probe.opset, FLOOR[schema.domain]))


def _needed(schema: defs.OpSchema, chosen: dict[str, str]) -> int:
    """Returns how many inputs, counted from the first, determine all type variables."""
    needed, read = max(schema.min_input, 1), set[str]()
    for i, formal in enumerate(schema.inputs):
        if i >= needed and formal.type_str in chosen and formal.type_str not in read:
            needed = i + 1
        read.add(formal.type_str)
    return needed


def _attributes(schema: defs.OpSchema, chosen: dict[str, str]) -> Iterator[AttributeProto]:
    kind = defs.OpSchema.AttrType
    values = {
        kind.INT: 1, kind.INTS: [1], kind.FLOAT: 1.0, kind.FLOATS: [1.0], kind.STRING: "a",
        kind.STRINGS: ["a"],
    }  # fmt: skip
    read = {formal.type_str for formal in schema.inputs}
    free = [name for name in chosen if name not in read]
    for name, attribute in schema.attributes.items():
        if name in CHOOSES and free and attribute.type == kind.INT:
            yield helper.make_attribute(name, NUMBERS[chosen[free[0]]])
        elif name == "value" and free and attribute.type == kind.TENSOR:
            number = NUMBERS[chosen[free[0]]]
            blank = [b""] if chosen[free[0]] == "string" else [0]
            yield helper.make_attribute(name, helper.make_tensor("v", number, [1], blank))
        elif attribute.required and attribute.type in values:
            yield helper.make_attribute(name, values[attribute.type])

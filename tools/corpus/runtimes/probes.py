# SPDX-License-Identifier: Apache-2.0
"""Generates models of one node, for each operator version and choice of element types.

If a runtime loads such a model, it has a kernel for these element types.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
from onnx import AttributeProto, TensorProto, defs, helper
from opshift.opsets import kernels

FLOOR = {"": 7}  # runtimes have no kernels below this opset
NUMBERS = {name: getattr(TensorProto, name.upper()) for name in kernels.SHORT}
# Attributes that choose an element type, with the type variable that they choose.
CHOOSES = {"to": "T2", "dtype": "T2"}


@dataclass(frozen=True)
class Probe:
    """One operator at one version, with one element type for each of its type variables."""

    domain: str
    op: str
    since: int
    variables: tuple[str, ...]
    types: tuple[str, ...]
    imported: int

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


def schemas(domain: str) -> list[defs.OpSchema]:
    """Returns the operator versions from the lowest tested opset on, without graph attributes."""
    graph, floor = defs.OpSchema.AttrType.GRAPH, FLOOR.get(domain, 1)
    every = [schema for schema in defs.get_all_schemas_with_history() if schema.domain == domain]
    first: dict[str, int] = {}  # the version of each operator at the floor
    for schema in every:
        if first.get(schema.name, 1) <= schema.since_version <= floor:
            first[schema.name] = schema.since_version
    return [
        schema
        for schema in every
        if schema.since_version >= first.get(schema.name, 1)
        and not any(attribute.type == graph for attribute in schema.attributes.values())
    ]


def of(schema: defs.OpSchema) -> list[Probe]:
    """Returns a probe for each choice of element types; none if an input is not a tensor."""
    variables = [c.type_param_str for c in schema.type_constraints]
    allowed = [elements(c.allowed_type_strs) for c in schema.type_constraints]
    if not all(allowed):
        return []
    imported = max(schema.since_version, FLOOR.get(schema.domain, 1))
    combinations = choices(allowed)
    return [
        Probe(schema.domain, schema.name, schema.since_version, tuple(variables), types, imported)
        for types in combinations
    ]


def choices(allowed: list[list[str]]) -> list[tuple[str, ...]]:
    """Returns choices of element types for type variables, only common types if there are many."""
    return list(itertools.product(*kernels.tried(allowed)))


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
    return packed(node, inputs, outputs, probe.imported)


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

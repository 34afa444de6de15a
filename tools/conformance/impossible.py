# SPDX-License-Identifier: Apache-2.0
"""Separates accepted refusals (impossible.toml) from refusals that need an exact conversion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, NodeProto, helper
from opshift import toml
from opshift.errors import RefusedNode
from opshift.opsets import schemas

DATA = Path(__file__).with_name("impossible.toml")


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A set of operators, and conditions on the nodes of these operators."""

    operators: frozenset[str]
    types: frozenset[str] = frozenset()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()

    def names(self, domain: str, op: str) -> bool:
        return bool(self.operators & {"*", f"{domain}.{op}" if domain else op})

    def conditional(self) -> bool:
        return bool(self.types or self.attributes or self.computed)


@dataclass(frozen=True, slots=True)
class NoExactForm:
    """Nodes that cannot be converted exactly below a version."""

    row: NodeCondition
    below: int
    says: re.Pattern[str]

    def excuses(self, refusal: RefusedNode, subject: AskedModel) -> bool:
        return (
            refusal.boundary == (self.below, self.below - 1)
            and self.row.names(refusal.domain, refusal.op)
            and self.says.search(refusal.detail) is not None
            and (not self.row.conditional() or subject.has(self.row))
        )


class Catalogue:
    """The accepted refusals in a file."""

    def __init__(self, path: Path = DATA) -> None:
        data = toml.loads(path.read_text("utf-8"))
        self.impossible = [
            NoExactForm(_row(entry), entry["below"], re.compile(entry.get("says", "")))
            for entry in data["impossible"]
        ]

    def unexcused(
        self, model: ModelProto, refusals: Iterable[RefusedNode]
    ) -> tuple[RefusedNode, ...]:
        """Returns the refused nodes, or nothing if an entry of the file accepts one of them."""
        refusals, subject = tuple(refusals), AskedModel(model)
        if any(row.excuses(refusal, subject) for refusal in refusals for row in self.impossible):
            return ()
        return refusals


class AskedModel:
    """Tests conditions on the nodes of the source model."""

    def __init__(self, model: ModelProto) -> None:
        graph = onnx.shape_inference.infer_shapes(model).graph
        self._nodes = list(graph.node)
        self._opsets = {schemas.normal(i.domain): i.version for i in model.opset_import}
        self._types = {
            info.name: _element(info.type)
            for info in (*graph.input, *graph.value_info, *graph.output)
        }
        self._constants = {tensor.name for tensor in graph.initializer}
        self._constants |= {n.output[0] for n in graph.node if n.op_type == "Constant"}

    def has(self, row: NodeCondition) -> bool:
        """Returns whether a node has an operator of the condition and fulfils it."""
        return any(self._fulfils(node, row) for node in self._nodes)

    def _fulfils(self, node: NodeProto, row: NodeCondition) -> bool:
        if not row.names(schemas.normal(node.domain), node.op_type):
            return False
        if row.types and self._types.get(next(iter(node.input), "")) not in row.types:
            return False
        return self._attributes(node, row) and self._computed(node, row)

    def _attributes(self, node: NodeProto, row: NodeCondition) -> bool:
        if not row.attributes:
            return True
        schema = self._schema(node)
        values = {name: attribute.default for name, attribute in schema.attributes.items()}
        values |= {a.name: helper.get_attribute_value(a) for a in node.attribute}
        return all(_text(values.get(name)) == want for name, want in row.attributes.items())

    def _computed(self, node: NodeProto, row: NodeCondition) -> bool:
        if not row.computed:
            return True
        schema = self._schema(node)
        params = [schema.input_at(i) for i in range(len(node.input))]
        return any(
            param is not None and param.name in row.computed and name not in self._constants
            for param, name in zip(params, node.input, strict=True)
            if name
        )

    def _schema(self, node: NodeProto) -> schemas.Schema:
        domain = schemas.normal(node.domain)
        schema = schemas.schema(domain, node.op_type, self._opsets[domain])
        if schema is None:
            raise ValueError(f"{node.op_type} is not known at {domain} {self._opsets[domain]}")
        return schema


def _row(entry: Mapping[str, Any]) -> NodeCondition:
    words = {name: frozenset(entry.get(name, "").split()) for name in ("types", "computed")}
    operators = frozenset(entry["operators"].split())
    return NodeCondition(operators, words["types"], entry.get("attributes", {}), words["computed"])


def _element(proto: onnx.TypeProto) -> str:
    if proto.WhichOneof("value") != "tensor_type":
        return ""
    return schemas.element_name(proto.tensor_type.elem_type) or ""


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value

# SPDX-License-Identifier: Apache-2.0
"""Proves quickly that the declared shapes of a model agree with the types of its inputs.

onnx infers the types of each node separately, and once for all nodes with equal operators,
attributes and types of inputs. Types that onnx infers node by node follow only from the inputs of
the model. Inference of the whole model may find more types, but never different ones. A declared
shape is therefore right if it agrees with these inferred types.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from opshift.author import declared, safe_inference
from opshift.author.env import TypesOnly
from opshift.author.inference import give_rank, ranks_by_rule
from opshift.author.model_bytes import ModelBytes
from opshift.author.traits import DeclaredRules, OutputRanks, OutputShapes
from opshift.model import imports
from opshift.model.bytes.outline import parts_of_node, spans
from opshift.model.scope import tensor_type
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.opsets.types import confirms, is_countable, rank_of
from opshift.protos import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from opshift.protos.copies import copy_of
from opshift.protos.shape_inference import infer_node_outputs


def is_proven(
    model: bytes | ModelProto, values: Iterable[ValueInfoProto], adapters: DeclaredRules
) -> bool:
    """Returns whether the values provably have their declared types; False leaves this open."""
    source = ModelBytes.of(model)
    if not source.content.is_flat or safe_inference.is_at_risk(source, adapters):
        return False
    bare = declared.without(source.data, nested=False)
    imported = imports.versions(bare)
    corrected = (op for domain, op in adapters.rules(OutputShapes) if domain in imported)
    if not source.operators.isdisjoint(corrected):
        return False
    declared_types = (value for value in values if rank_of(value.type) is not None)
    claims = {value.name.encode(): value.type for value in declared_types}
    kinds = _Kinds(bare, adapters)
    return all(name not in claims or confirms(kind, claims[name]) for name, kind in kinds)


class _Kind(NamedTuple):
    """The type of a value, with the content if the value is a short list of integers."""

    type: TypeProto
    content: TensorProto | None = None


_UNKNOWN = _Kind(TypeProto())


class _Kinds:
    """Infers the types of the values of a graph without subgraphs, starting from its inputs."""

    def __init__(self, model: ModelProto, adapters: DeclaredRules) -> None:
        self.versions, self.rules = imports.versions(model), adapters.rules(OutputRanks)
        self.known: dict[Hashable, _Kind] = {}
        self.by_name: dict[bytes, _Kind] = {}
        for tensor in model.graph.initializer:
            self.by_name[tensor.name.encode()] = self._of_tensor(tensor)
        for value in model.graph.input:
            self.by_name.setdefault(value.name.encode(), self._of_type(value.type))
        self.graph = model.graph

    def _of_type(self, kind: TypeProto) -> _Kind:
        return self.known.setdefault(kind.SerializeToString(deterministic=True), _Kind(kind))

    def _of_tensor(self, tensor: TensorProto) -> _Kind:
        key = (tensor.data_type, *tensor.dims)
        kind = self.known.get(key)
        if kind is None:
            kind = self.known[key] = self._of_type(tensor_type(tensor))
        if not is_countable(kind.type) or Weights.is_stub(tensor):
            return kind
        content = copy_of(tensor)
        content.ClearField("name")
        return self.known.setdefault(content.SerializeToString(), _Kind(kind.type, content))

    def __iter__(self) -> Iterator[tuple[bytes, TypeProto]]:
        """Yields the name and the type of each node output, in the order of the nodes."""
        by_node: dict[Hashable, list[_Kind]] = {}
        kinds = self.by_name
        for i, node in enumerate(spans(self.graph.SerializeToString(), of_function=False)):
            inputs, outputs, operation = parts_of_node(node)
            of_inputs = [kinds.get(name, _UNKNOWN) for name in inputs]
            key = (len(outputs), *map(id, of_inputs), *operation)  # `known` keeps the types alive
            results = by_node.get(key)
            if results is None:
                results = by_node[key] = self._of_outputs(self.graph.node[i], of_inputs)
            for name, kind in zip(outputs, results, strict=True):
                if name:
                    kinds[name] = kind
                    yield name, kind.type

    def _of_outputs(self, node: NodeProto, kinds: list[_Kind]) -> list[_Kind]:
        """Returns the types of a node's outputs, inferred by its operator's schema."""
        if not node.domain and node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    return [self._of_tensor(attribute.t)]
        domain = schemas.normal(node.domain)
        schema = schemas.schema(domain, node.op_type, self.versions.get(domain, 0))
        inputs = {name: kind for name, kind in zip(node.input, kinds, strict=True) if name}
        if schema is None or not all(schemas.type_name(kind.type) for kind in inputs.values()):
            return [_UNKNOWN] * len(node.output)
        types = {name: kind.type for name, kind in inputs.items()}
        data = {name: kind.content for name, kind in inputs.items() if kind.content is not None}
        raw = schemas.raw(domain, node.op_type, schema.since)
        try:
            inferred = infer_node_outputs(raw, node, types, data, self.versions)
        except safe_inference.COMPLAINTS:
            return [_UNKNOWN] * len(node.output)
        rule = self.rules.get((domain, node.op_type))
        ranks = ranks_by_rule(rule, node, schema, TypesOnly(types))
        for name, rank in zip(node.output, ranks, strict=False):
            if name in inferred and rank_of(inferred[name]) is None:
                give_rank(inferred[name].tensor_type, rank)
        return [
            self._of_type(inferred[name]) if name in inferred else _UNKNOWN for name in node.output
        ]

# SPDX-License-Identifier: Apache-2.0
"""Infers changed models with the guards of opshift, and records how onnx's inference ends.

Each attribute, constant, input and declared shape of the source models is changed in turn. It is a
finding if the inference ended the process or did not end, or if an operator gives a negative size
that no adapter declares with `shrinks`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import node_changes
from google.protobuf.message import DecodeError
from onnx import ModelProto
from opshift.author import registry, safe_inference
from opshift.author.scope_types import by_graph
from opshift.author.traits import Shrinks
from opshift.convert.legal import rules
from opshift.errors import InvalidModel
from opshift.model.walk import nodes
from opshift.opsets import schemas
from opshift.opsets.types import tensors_in
from opshift.protos import isolation
from opshift.protos.onnx_calls import OnnxEnded
from opshift.protos.shape_inference import infer_shapes


@dataclass(slots=True)
class Tally:
    """The models that were inferred, and the findings by operator."""

    counts: Counter[str] = field(default_factory=Counter)
    ended: dict[str, str] = field(default_factory=dict)
    negative: Counter[str] = field(default_factory=Counter)

    def look(self, words: str, model: ModelProto) -> None:
        """Infers a model in all ways that opshift uses."""
        adapters = registry.default()
        try:
            rules.open_for_inference(model, adapters)
        except InvalidModel:
            self.counts["rejected before"] += 1
            return
        self.counts["inferred"] += 1
        for strict in (False, True):
            with isolation.isolated(requested=True):
                try:
                    safe_inference.infer(model, adapters, strict=strict, data_prop=not strict)
                except OnnxEnded as ended:
                    self.ended.setdefault(_operators(model), f"{words}: {ended}")
                except safe_inference.COMPLAINTS:
                    self.counts["objections"] += 1
        self.negative.update(_undeclared(model))

    @property
    def found(self) -> bool:
        return bool(self.ended or self.negative)

    def __str__(self) -> str:
        lines = [", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))]
        lines += [f"{ops}: {told}" for ops, told in sorted(self.ended.items())]
        lines += [f"{op} has negative sizes: {n} times" for op, n in self.negative.most_common()]
        return "\n".join(lines)


def _operators(model: ModelProto) -> str:
    return " ".join(sorted({node.op_type for node in nodes(model)}))


def _undeclared(model: ModelProto) -> Iterator[str]:
    """The operators that give a negative size and are not declared to do so."""
    declared = registry.default().traits(Shrinks)
    with isolation.isolated(requested=True):
        try:
            inferred = infer_shapes(model, data_prop=True)
        except safe_inference.COMPLAINTS:  # the guards were needed, or the model is rejected
            return
    for scope in by_graph(inferred):
        for node in scope.graph.node:
            key = schemas.normal(node.domain), node.op_type
            kinds = (scope.own.get(name) for name in node.output if key not in declared)
            tensors = (one for kind in kinds if kind is not None for one in tensors_in(kind))
            if any(dim.dim_value < 0 for tensor in tensors for dim in tensor.shape.dim):
                yield node.op_type


def changed(pool: Sequence[bytes], seed: int) -> Iterator[tuple[str, ModelProto]]:
    """The source models and each of them with one change, in an order that the seed draws."""
    for at in random.Random(seed).sample(range(len(pool)), len(pool)):
        model = ModelProto.FromString(pool[at])
        yield "unchanged", model
        try:
            yield from node_changes.variants(model)
        except (ValueError, TypeError, DecodeError):  # it cannot be changed further
            continue

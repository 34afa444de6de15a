# SPDX-License-Identifier: Apache-2.0
"""Shows that onnx's inference ends at every changed model that opshift lets it see.

    python -m tools.fuzz inference [--seeds adapters nodes] [--most 300000] [--seed 1]

Each attribute, constant, input and declared shape of the source models is changed in turn, as in
`tools.fuzz each`. A child process infers each changed model, behind the guards of opshift. The
exit code is 1 if the inference ended the process or did not end, and if an operator gives a
negative size that no adapter declares with `shrinks`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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
from opshift.protos.isolation import OnnxEnded
from opshift.protos.shape_inference import infer_shapes

from tools.fuzz import seeds, vary


@dataclass(slots=True)
class Tally:
    """The models that were inferred, and the findings by operator."""

    counts: Counter[str] = field(default_factory=Counter)
    ended: dict[str, str] = field(default_factory=dict)
    negative: Counter[str] = field(default_factory=Counter)

    def look(self, words: str, model: ModelProto) -> None:
        """Infers a model, in all ways in which opshift does."""
        adapters = registry.default()
        try:
            rules.open_for_inference(model, adapters)
        except InvalidModel:
            self.counts["rejected before"] += 1
            return
        self.counts["inferred"] += 1
        for strict in (False, True):
            with isolation.isolated(wanted=True):
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
    with isolation.isolated(wanted=True):
        try:
            found = infer_shapes(model, data_prop=True)
        except safe_inference.COMPLAINTS:  # the guards were needed, or the model is rejected
            return
    for scope in by_graph(found):
        for node in scope.graph.node:
            key = schemas.normal(node.domain), node.op_type
            kinds = (scope.own.get(name) for name in node.output if key not in declared)
            tensors = (one for kind in kinds if kind is not None for one in tensors_in(kind))
            if any(dim.dim_value < 0 for one in tensors for dim in one.shape.dim):
                yield node.op_type


def changed(pool: Sequence[bytes], seed: int) -> Iterator[tuple[str, ModelProto]]:
    """The source models and each of them with one change, in an order that the seed draws."""
    for at in random.Random(seed).sample(range(len(pool)), len(pool)):
        model = ModelProto.FromString(pool[at])
        yield "unchanged", model
        try:
            yield from vary.variants(model)
        except (ValueError, TypeError, DecodeError):  # it cannot be changed further
            continue


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", nargs="+", default=["adapters", "nodes"], choices=seeds.SOURCES)
    parser.add_argument("--most", type=int, default=300_000, help="models that are inferred")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    tally = Tally()
    for done, (words, model) in enumerate(changed(seeds.pool(args.seeds), args.seed)):
        if done == args.most:
            break
        tally.look(words, model)
        if done % 5000 == 4999:
            print(f"{done + 1} models, {len(tally.ended)} findings", file=sys.stderr, flush=True)
    print(tally)
    return int(tally.found)

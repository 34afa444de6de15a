# SPDX-License-Identifier: Apache-2.0
"""Examples in random places, each converted on several paths to the same versions.

A journey is an example of an adapter in one of several places, versions, an IR version and a stop.
It is converted on five paths: in one go, opset by opset, with the IR version last, with the IR
version first, and with a stop. Three laws must hold. A path of several commands never succeeds if
one command is refused. Every result is legal. Every result computes the same as the source, except
for the differences that `tools/author/edges.toml` explains.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import ModelProto, TensorProto, helper
from opshift import OpshiftError, convert_version, testing
from opshift.author import registry
from opshift.author.example import Example
from opshift.author.verdicts import Adapter
from opshift.convert.legal import checker
from opshift.errors import AdapterBug
from opshift.model.arrays import from_array, to_array
from opshift.opsets import schemas
from opshift.testing import surveys
from opshift.testing.example_models import differences, too_new

from tools.author import edges
from tools.conformance.node_tests import function, functions, nested

ONE_GO = "in one go"
SETS = ("given",)
Command = dict[str, Any]


def _trained(model: ModelProto) -> ModelProto:
    """Returns a model whose float initializers are set by training."""
    moved = ModelProto.FromString(model.SerializeToString())
    moved.ir_version = max(moved.ir_version, 7)
    weights = [
        tensor for tensor in moved.graph.initializer if tensor.data_type == TensorProto.FLOAT
    ]
    training = moved.training_info.add()
    training.algorithm.name = "step"
    for weight in weights:
        after = helper.make_tensor_value_info(
            f"trained_{weight.name}", weight.data_type, weight.dims
        )
        training.algorithm.node.append(helper.make_node("Neg", [weight.name], [after.name]))
        training.algorithm.output.append(after)
        training.update_binding.add(key=weight.name, value=after.name)
    return moved


PLACES: Mapping[str, Callable[[ModelProto], ModelProto]] = {
    "graph": lambda model: model,
    "branch": nested,
    "function": function,
    "functions": functions,
    "trained": _trained,
}


@dataclass(frozen=True, slots=True)
class Journey:
    """A model and its target; equal values of `seed` give equal journeys."""

    name: str
    seed: int
    example: Example
    model: ModelProto
    goal: Mapping[str, int]
    ir: int
    stop: int
    listed: str = ""  # as tools/author/edges.toml lists examples

    @staticmethod
    def of(adapter: Adapter, example: Example, seed: int, place: str | None = None) -> Journey:
        """Returns the journey of an example for a seed."""
        rng = random.Random(seed)
        where = rng.choice(list(PLACES))
        model = PLACES[place or where](testing.example_model(adapter, example))
        goal = {
            entry.domain: rng.randint(1, newest)
            for entry in model.opset_import
            if (newest := schemas.latest(entry.domain)) and (not entry.domain or rng.random() < 0.7)
        }
        ir, stop = rng.randint(3, min(11, onnx.IR_VERSION)), rng.randint(1, schemas.latest("") or 1)
        title = f"{adapter.source} {example.title!r} in a {place or where}"
        listed = f"{adapter.source} {'/'.join(adapter.ops[:3])} {example.title}"
        return Journey(title, seed, example, model, goal, ir, stop, listed)

    @property
    def one_go(self) -> tuple[Command, ...]:
        """The one command that must succeed if another path does."""
        return ({"target": self.goal, "ir_version": self.ir},)

    @property
    def paths(self) -> dict[str, tuple[Command, ...]]:
        """Sequences of commands that lead to the same versions."""
        last = {"target": None, "ir_version": self.ir}
        stop = {"target": {"": self.stop}} if "" in self.goal else {"target": self.goal}
        return {
            "the IR version last": ({"target": self.goal}, last),
            "the IR version first": (last, {"target": self.goal, "ir_version": "keep"}),
            "a stop between": (stop, *self.one_go),
            "hop by hop": (*({"target": hop} for hop in self._hops()), *self.one_go),
        }

    def _hops(self) -> Iterator[Mapping[str, int]]:
        imports = {entry.domain: entry.version for entry in self.model.opset_import}
        for domain, to in sorted(self.goal.items()):
            step = 1 if to > imports[domain] else -1
            for version in (
                range(imports[domain] + step, to + step, step) if to != imports[domain] else ()
            ):
                yield {domain: version}


def broken(journey: Journey) -> list[str]:
    """The laws that a journey breaks, each as a sentence."""
    try:
        models = results(journey)
    except AdapterBug as bug:
        return [f"a fault of ours: {bug}"]
    problems = [*refused(journey, models), *illegal(journey, models)]
    return problems if journey.example.approximate else [*problems, *_unequal(journey, models)]


def results(journey: Journey) -> dict[str, ModelProto]:
    """Returns the result of each path that is not refused."""
    paths = {ONE_GO: journey.one_go, **journey.paths}
    walked = {name: _walk(journey, commands) for name, commands in paths.items()}
    return {name: result for name, result in walked.items() if result is not None}


def refused(journey: Journey, models: Mapping[str, ModelProto]) -> list[str]:
    """Returns the paths of several commands that succeed although one command is refused."""
    if ONE_GO in models:
        return []
    return [f"{name} leads to {_goal(journey)}, and one command is refused" for name in models]


def illegal(journey: Journey, models: Mapping[str, ModelProto]) -> Iterator[str]:
    """Returns the paths with an illegal result, if the source is legal."""
    if _objection(journey.model) is None:
        for name, result in models.items():
            if (objection := _objection(result)) is not None:
                yield f"{name} to {_goal(journey)} the checker rejects the result: {objection}"


def _objection(model: ModelProto) -> str | None:
    return checker.whole(model, registry.default(), full=True)


def _walk(journey: Journey, commands: Sequence[Command]) -> ModelProto | None:
    """Returns the result of several commands, or None if one of them is refused."""
    model = journey.model
    options = {name: value for name, value in journey.example.options.items() if value}
    for command in commands:
        try:
            model = convert_version(model, **options, **command)
        except AdapterBug:
            raise
        except OpshiftError:
            return None
    return model


def _unequal(journey: Journey, models: Mapping[str, ModelProto]) -> Iterator[str]:
    compared: set[bytes] = set()
    for name, result in models.items():
        data = result.SerializeToString(deterministic=True)
        if data in compared:
            continue
        compared.add(data)
        pairs = {"": (journey.model, result)}
        if journey.model.training_info:
            pairs[" after training"] = (retrained(journey.model), retrained(result))
        for when, pair in pairs.items():
            for which, difference in differences(*pair, journey.example, SETS):
                if difference and not explained(journey, which):
                    yield f"{name} to {_goal(journey)} the numbers differ{when}: {difference}"


def explained(journey: Journey, which: str) -> bool:
    """Returns whether a known difference of onnxruntime explains this example."""
    line = f"{journey.listed} [{which}]"
    return any(surveys.pattern(part).search(line) for part in _reasons())


@functools.cache
def _reasons() -> tuple[str, ...]:
    return tuple(surveys.reasons(edges.REASONS))


def retrained(model: ModelProto) -> ModelProto:
    """Returns the model without training, with other values in the trained initializers."""
    bound = {entry.key for one in model.training_info for entry in one.update_binding}
    copy = ModelProto.FromString(model.SerializeToString())
    copy.ClearField("training_info")
    lost = bound - {tensor.name for tensor in copy.graph.initializer}
    assert not lost, f"training sets {lost}, which are no initializers"
    for tensor in copy.graph.initializer:
        if tensor.name in bound:
            value = to_array(tensor)
            tensor.CopyFrom(from_array(value * value.dtype.type(0.5) + 1, tensor.name))
    return copy


def _goal(journey: Journey) -> str:
    listed = [f"{domain or 'opset'} {to}" for domain, to in sorted(journey.goal.items())]
    return ", ".join([*listed, f"IR {journey.ir} (stop {journey.stop})"])


def fit() -> list[tuple[Adapter, Example]]:
    """Returns the examples that the installed onnx can read."""
    import opshift_adapters

    return [
        (adapter, example)
        for adapter, example in testing.examples(opshift_adapters.__name__)
        if not example.invalid and not too_new(adapter, example)
    ]

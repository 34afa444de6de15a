# SPDX-License-Identifier: Apache-2.0
"""Compares a plan with its conversion.

A plan is possible if and only if the conversion is not refused. Both name the same blockers and the
same nearest versions. A conversion is refused if the verdicts, before anything is converted, lead
an operator to a dead end. A node of the model that an impossible verdict stops has a dead end that
was known beforehand.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opshift import testing
from opshift.author.example import Example
from opshift.author.verdicts import Adapter

from tools.corpus.replay import CORPUS

TARGETS = (21, 18, 13, 11, 9)


@dataclass(frozen=True, slots=True)
class Trip:
    """A model, or its file, and a target."""

    name: str
    model: Any
    target: Any
    approximate: bool = False


def corpus(targets: Sequence[int]) -> list[Trip]:
    """The models of the folder `corpus` next to the repository, each with every target."""
    paths = sorted(CORPUS.glob("*/model.onnx"))
    return [Trip(f"{path.parent.name} to {to}", path, to) for path in paths for to in targets]


def trip_of(adapter: Adapter, example: Example) -> Trip:
    """Returns an example with its own target."""
    model = testing.example_model(adapter, example)
    target = testing.example_target(adapter, example)
    name = f"{adapter.source} {example.title} to {target}"
    return Trip(name, model, target, bool(example.approximate))


def of_example(trip: Trip, targets: Sequence[int]) -> Iterator[Trip]:
    """Returns an example with its own target and with other targets."""
    yield trip
    for to in targets:
        if trip.target not in (to, {"": to}):
            yield replace(trip, name=f"{trip.name}, then to {to}", target=to)


@dataclass(frozen=True, slots=True)
class ConversionEnd:
    """The end of a conversion without a fault: the refusal, or None."""

    refused: Any = None


def broken(trip: Trip, *, alone: bool = False) -> list[str] | None:
    """Returns the broken laws, each as a sentence, or None if the model is invalid."""
    from opshift import InvalidModel, OpshiftError

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        source = trip.model
        if not isinstance(source, Path):  # a plan of a file may look at its header alone
            file.write(source.SerializeToString())
            file.flush()
            source = Path(file.name)
        done = _converted(source, trip)
        planned = None if alone else _planned(source, trip)
        failed = isinstance(planned, OpshiftError) or isinstance(done, OpshiftError)
        if planned and failed and (type(planned), str(planned)) != (type(done), str(done)):
            return [f"the plan answers {planned!s}, and the conversion {done!s}"]
        if isinstance(done, InvalidModel):
            return None
        if isinstance(done, OpshiftError):
            return []
        return [*(_unlike(planned, done) if planned else ()), *_unforeseen(source, trip, done)]


def _converted(source: Path, trip: Trip) -> Any:
    """The refusal of a conversion, its error, or None."""
    from opshift import OpshiftError, Refused, convert

    try:
        convert(source, trip.target, allow_approximate=trip.approximate)
    except Refused as refused:
        return ConversionEnd(refused)
    except OpshiftError as error:
        return error
    return ConversionEnd()


def _planned(source: Path, trip: Trip) -> Any:
    """The plan, or its error."""
    from opshift import OpshiftError, plan

    try:
        return plan(source, trip.target, allow_approximate=trip.approximate)
    except OpshiftError as error:
        return error


def _unlike(planned: Any, done: ConversionEnd) -> Iterator[str]:
    """Yields the differences between a plan and its conversion."""
    refused = done.refused
    if planned.possible != (refused is None):
        yield f"the plan says {planned.possible}, and the conversion is {refused or 'done'}"
    elif refused is not None:
        if {*planned.refusals} != {*refused.refusals}:
            yield f"the plan names {planned.refusals}, and the conversion {refused.refusals}"
        if dict(planned.nearest) != dict(refused.nearest):
            yield f"the plan comes to {planned.nearest}, and the conversion to {refused.nearest}"
    elif dead := [path.op for path in planned.paths if path.dead_end]:
        yield f"the plan is possible, and has a dead end for {', '.join(dead)}"


def _unforeseen(source: Path, trip: Trip, done: ConversionEnd) -> Iterator[str]:
    """Yields the differences between the verdicts and the conversion."""
    refused = done.refused
    dead, present = known_dead_ends(source, trip.target)
    if dead and refused is None:
        yield f"the plan knew no way for {', '.join(dead.values())}, and the conversion found one"
    for refusal in refused.refusals if refused is not None else ():
        key = refusal.domain, refusal.op
        if key in present and _is_impossible(*key, *refusal.boundary) and not dead:
            yield f"{refusal.op} is stopped by an impossible verdict, and no dead end was known"


def known_dead_ends(
    source: Path, target: Any
) -> tuple[dict[tuple[str, str], str], set[tuple[str, str]]]:
    """Returns the dead ends known before the conversion, and the operators of the model."""
    from opshift.author import registry
    from opshift.convert import planner, target_versions
    from opshift.convert.attempt import Conversion
    from opshift.convert.cheapest_strategy import opener_of
    from opshift.convert.request import Request

    opened = Conversion(*opener_of(source)(), Request.of(target), registry.default())
    opened.open()
    target_versions.set_goal(opened)
    plan = planner.of_document(opened.document, opened.adapters, opened.goal)
    present = {key for root in opened.document.roots for key in root.index}
    return {(dead_end.domain, dead_end.op): dead_end.described for dead_end in plan.dead}, present


def _is_impossible(domain: str, op: str, start: int, to: int) -> bool:
    from opshift.author import registry

    verdict = registry.default().get(domain, op, start, to)
    return verdict is not None and verdict.kind == "impossible"

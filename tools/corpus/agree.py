# SPDX-License-Identifier: Apache-2.0
"""Proves that a plan and the conversion say the same, and that dead ends are known beforehand.

    python -m tools.corpus agree [--to 21 18 13 11 9] [--only 'g_ts_*'] [--sample 200 --seed 1]
    python -m tools.corpus agree --part 3/40

Every corpus model and every example of an adapter is planned and converted to each target, an
example to its own target as well. Four laws must hold. A plan is possible if and only if the
conversion is not refused. Both name equal blockers and equal nearest versions. A conversion is
refused where the verdicts alone, before anything is converted, lead an operator to a dead end. A
node of the model that an impossible verdict stops has a dead end that was known beforehand. Each
case that breaks a law is listed, and the exit code is 1. `--sample` takes cases by chance; `--part`
takes each fortieth case from the third on, so that a long run can be divided.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.corpus import findings
from tools.lib.program import described

TARGETS = (21, 18, 13, 11, 9)


@dataclass(frozen=True, slots=True)
class Trip:
    """A model, or its file, and where it is to go."""

    name: str
    model: Any
    target: Any
    approximate: bool = False


def trips(targets: Sequence[int], only: Sequence[str] = ()) -> Iterator[Trip]:
    """Every corpus model and every example to each target."""
    yield from (Trip(*case) for case in findings.corpus(targets, only))
    for case in () if only else findings.examples():
        yield from of_example(case, targets)


def of_example(case: findings.Case, targets: Sequence[int]) -> Iterator[Trip]:
    """An example to its own target, and to other targets."""
    name, model, own, approximate = case
    others = [to for to in targets if own not in (to, {"": to})]
    for target in (own, *others):
        yield Trip(f"{name} to {target}", model, target, approximate)


@dataclass(frozen=True, slots=True)
class ConversionEnd:
    """How a conversion ended that had no fault: with its refusal, if there is one."""

    refused: Any = None


def broken(trip: Trip, *, alone: bool = False) -> list[str] | None:
    """The laws that a case breaks, each as a sentence; None where the model is invalid."""
    from opshift import InvalidModel, OpshiftError

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        source = trip.model
        if not isinstance(source, Path):  # a plan of a file may look at its header alone
            file.write(source.SerializeToString())
            file.flush()
            source = Path(file.name)
        done = _converted(source, trip)
        told = None if alone else _planned(source, trip)
        failed = isinstance(told, OpshiftError) or isinstance(done, OpshiftError)
        if told and failed and (type(told), str(told)) != (type(done), str(done)):
            return [f"the plan answers {told!s}, and the conversion {done!s}"]
        if isinstance(done, InvalidModel):
            return None
        if isinstance(done, OpshiftError):
            return []
        return [*(_unlike(told, done) if told else ()), *_unforeseen(source, trip, done)]


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


def _unlike(told: Any, done: ConversionEnd) -> Iterator[str]:
    """What a plan says other than the conversion."""
    refused = done.refused
    if told.possible != (refused is None):
        yield f"the plan says {told.possible}, and the conversion is {refused or 'done'}"
    elif refused is not None:
        if {*told.refusals} != {*refused.refusals}:
            yield f"the plan names {told.refusals}, and the conversion {refused.refusals}"
        if dict(told.nearest) != dict(refused.nearest):
            yield f"the plan comes to {told.nearest}, and the conversion to {refused.nearest}"
    elif dead := [path.op for path in told.paths if path.dead_end]:
        yield f"the plan is possible, and has a dead end for {', '.join(dead)}"


def _unforeseen(source: Path, trip: Trip, done: ConversionEnd) -> Iterator[str]:
    """Where the verdicts alone say other than the conversion."""
    refused = done.refused
    dead, present = known_dead_ends(source, trip.target)
    if dead and refused is None:
        yield f"the plan knew no way for {', '.join(dead.values())}, and the conversion found one"
    for one in refused.refusals if refused is not None else ():
        key = one.domain, one.op
        if key in present and _is_impossible(*key, *one.boundary) and not dead:
            yield f"{one.op} is stopped by an impossible verdict, and no dead end was known"


def known_dead_ends(
    source: Path, target: Any
) -> tuple[dict[tuple[str, str], str], set[tuple[str, str]]]:
    """The dead ends before anything is converted, and the operators of the model."""
    from opshift.author import registry
    from opshift.convert import planner
    from opshift.convert.api import carve_of
    from opshift.convert.attempt import Conversion
    from opshift.convert.request import Request

    opened = Conversion(*carve_of(source)(), Request.of(target), registry.default())
    opened.open()
    opened.aim()
    found = planner.of_document(opened.document, opened.adapters, opened.goal)
    present = {key for root in opened.document.roots for key in root.index}
    return {(one.domain, one.op): one.way for one in found.dead}, present


def _is_impossible(domain: str, op: str, start: int, to: int) -> bool:
    from opshift.author import registry

    verdict = registry.default().get(domain, op, start, to)
    return verdict is not None and verdict.kind == "impossible"


def count(cases: Iterable[Trip], *, alone: bool = False) -> Counter[str]:
    """How many cases keep the laws; each other one is listed."""
    counts: Counter[str] = Counter()
    for trip in cases:
        told = broken(trip, alone=alone)
        counts["invalid" if told is None else "broken" if told else "kept"] += 1
        for text in told or ():
            print(f"{trip.name}: {text}", flush=True)
    return counts


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit code says whether a law is broken."""
    args = _parser().parse_args(argv)
    cases = list(trips(args.to, args.only))
    if args.sample is not None:
        cases = random.Random(args.seed).sample(cases, min(args.sample, len(cases)))
    first, step = args.part
    cases = cases[first - 1 :: step]
    counts = count(cases, alone=args.dead_ends)
    print(
        f"{len(cases)} cases: {counts['kept']} keep the laws, {counts['broken']} break one,"
        f" {counts['invalid']} are invalid models"
    )
    return int(counts["broken"] > 0)


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    parser.add_argument("--to", type=int, nargs="+", default=TARGETS, metavar="OPSET")
    parser.add_argument("--only", nargs="*", default=[], metavar="GLOB", help="corpus models")
    parser.add_argument("--dead-ends", action="store_true", help="compare no plans, for speed")
    parser.add_argument("--sample", type=int, metavar="N", help="that many cases by chance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", type=_part, default=(1, 1), metavar="K/N", help="of N parts, one")
    return parser


def _part(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    found = int(number), int(parts)
    if not 1 <= found[0] <= found[1]:
        raise ValueError(text)
    return found


if __name__ == "__main__":
    sys.exit(main())

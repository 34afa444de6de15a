# SPDX-License-Identifier: Apache-2.0
"""Changes one thing after another in the models that fuzzing starts from, and converts them.

    python -m tools.fuzz each [--jobs 2] [--seeds adapters] [--only Resize] [--budget 2000]

Chance seldom meets the one number on which an adapter trips; this meets each once. A conversion has
to end in a model, `Refused`, `InvalidModel` or `BadTarget`, and within some seconds. With a budget,
each operator has so many conversions, spread over its models and their changes by the seed of the
day, so that an operator with many examples costs no other operator its turn.

Exit code 1 when one did not, or when an operator that changes has no model.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto
from opshift import BadTarget, InvalidModel, Refused, convert_version
from opshift.model.walk import nodes
from opshift.opsets import schemas
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.supervisor import Supervisor

from tools.fuzz import seeds
from tools.fuzz.seeds import today
from tools.fuzz.vary import variants

LIMITS = ModelLimits(seconds=600.0, megabytes=3072, retries=0)
SLOW = 20.0  # seconds for one conversion
Operator = tuple[str, str]  # domain and name


@dataclass(frozen=True)
class Seed:
    """A model of the pool, by number."""

    name: str
    pool: str
    budget: int = 0  # conversions; 0: all
    seed: int = 0
    size: int = 0


def each(seed: Seed) -> Outcome:
    """Converts every variant of a model; the outcome counts them and says what was found."""
    found, count = [], 0
    for words, model, domain, to in _tasks(seed):
        count += 1
        if told := ending(model, domain, to):
            found.append(f"{words}, to {domain or 'ai.onnx'} {to}: {told}")
    return Outcome(seed.name, Fate.OK, str(count), json.dumps(found))


def _tasks(seed: Seed) -> list[tuple[str, ModelProto, str, int]]:
    """The changed models and where they go, as many as the budget allows."""
    model = ModelProto.FromString(seeds.kept(seed.pool)[int(seed.name)])
    tasks = [(words, one, *to) for words, one in variants(model) for to in _targets(one)]
    if not 0 < seed.budget < len(tasks):
        return tasks
    return random.Random(f"{seed.seed} {seed.name}").sample(tasks, seed.budget)


def ending(model: ModelProto, domain: str, to: int) -> str:
    """What is wrong with how a conversion ends, if something is."""
    begun = time.monotonic()
    try:
        convert_version(model, {domain: to})
    except (Refused, InvalidModel, BadTarget) as said:
        if not str(said):
            return f"{type(said).__name__} without a sentence"
    except Exception as error:  # whatever it is, it is what is looked for
        return f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begun
    return f"{seconds:.0f} s" if seconds > SLOW else ""


def _targets(model: ModelProto) -> Iterator[tuple[str, int]]:
    """Of each domain a version up, one down, the last and one of the first."""
    for entry in model.opset_import:
        if last := schemas.latest(entry.domain):
            near = {max(entry.version - 1, 1), min(entry.version + 1, last)}
            far = {last, 1 if entry.domain else 7}
            yield from ((entry.domain, to) for to in sorted((near | far) - {entry.version}))


def operators(models: Sequence[bytes]) -> dict[Operator, list[int]]:
    """The models of each operator, by number; a model counts for each of its operators."""
    found: dict[Operator, list[int]] = {}
    for number, data in enumerate(models):
        model = ModelProto.FromString(data)
        for key in {(schemas.normal(node.domain), node.op_type) for node in nodes(model)}:
            found.setdefault(key, []).append(number)
    return found


def without_models(found: Mapping[Operator, Sequence[int]]) -> list[str]:
    """The operators with more than one version that no model has."""
    return [
        f"{domain}.{op}" if domain else op
        for domain in ("", "ai.onnx.ml")
        for op in schemas.operators(domain)
        if len(schemas.history(domain, op)) > 1 and (domain, op) not in found
    ]


def budgets(found: Mapping[Operator, Sequence[int]], budget: int) -> dict[int, int]:
    """The conversions of each model: a share of its operator's, the largest if it has several."""
    shares: dict[int, int] = {}
    for numbers in found.values():
        for number in numbers:
            shares[number] = max(shares.get(number, 0), -(-budget // len(numbers)))
    return shares


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Convert models with one thing changed.")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", nargs="+", choices=seeds.SOURCES, default=["frozen", "adapters"])
    parser.add_argument("--only", nargs="+", default=[], metavar="OPERATOR")
    parser.add_argument("--budget", type=int, default=0, help="conversions of each operator")
    parser.add_argument("--seed", type=int, default=today(), help="the default is the day")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, help="the model before which it ends")
    args = parser.parse_args(arguments)
    models = seeds.pool(args.seeds)
    by_operator = operators(models)
    chosen = {key: one for key, one in by_operator.items() if not args.only or key[1] in args.only}
    shares, converted, found = budgets(chosen, args.budget), 0, 0
    numbers = [one for one in range(len(models))[args.first : args.last] if one in shares]
    with tempfile.NamedTemporaryFile(prefix="fuzz-each-") as pool:
        seeds.keep(models, Path(pool.name))
        wanted = [Seed(str(one), pool.name, shares[one], args.seed) for one in numbers]
        for outcome in Supervisor(args.jobs, LIMITS).run(each, wanted):
            told = json.loads(outcome.detail) if outcome.fate is Fate.OK else [str(outcome.detail)]
            converted += int(outcome.why) if outcome.fate is Fate.OK else 0
            found += len(told)
            for one in told:
                print(f"model {outcome.name}: {one}")
    for name in [] if args.only else without_models(by_operator):
        found += 1
        print(f"{name} has no model: add an example of its adapters, or another source")
    print(
        f"{len(chosen)} operators, {len(numbers)} models ({seeds.digest(models)}),"
        f" {converted:,} conversions, seed {args.seed}, {found} found"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Changes one thing after another in the models that fuzzing starts from, and converts them.

    python -m tools.fuzz each [--jobs 2] [--seeds adapters] [--first 0] [--last N]

Chance seldom meets the one number on which an adapter trips; this meets each once. A conversion has
to end in a model, `Refused`, `InvalidModel` or `BadTarget`, and within some seconds.

Exit code 1 when one did not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto
from opshift import BadTarget, InvalidModel, Refused, convert_version
from opshift.opsets import schemas
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.supervisor import Supervisor

from tools.fuzz import seeds
from tools.fuzz.vary import variants

LIMITS = ModelLimits(seconds=600.0, megabytes=3072, retries=0)
SLOW = 20.0  # seconds for one conversion


@dataclass(frozen=True)
class Seed:
    """A model of the pool, by number."""

    name: str
    pool: str
    size: int = 0


def each(seed: Seed) -> Outcome:
    """Converts every variant of a model; the outcome counts them and says what was found."""
    found, count = [], 0
    for words, model in variants(ModelProto.FromString(seeds.kept(seed.pool)[int(seed.name)])):
        for domain, to in _targets(model):
            count += 1
            if told := ending(model, domain, to):
                found.append(f"{words}, to {domain or 'ai.onnx'} {to}: {told}")
    return Outcome(seed.name, Fate.OK, str(count), json.dumps(found))


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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Convert models with one thing changed.")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", nargs="+", choices=seeds.SOURCES, default=["adapters"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, help="the model before which it ends")
    args = parser.parse_args(arguments)
    models = seeds.pool(args.seeds)
    numbers, converted, found = range(len(models))[args.first : args.last], 0, 0
    with tempfile.NamedTemporaryFile(prefix="fuzz-each-") as pool:
        seeds.keep(models, Path(pool.name))
        wanted = [Seed(str(number), pool.name) for number in numbers]
        for outcome in Supervisor(args.jobs, LIMITS).run(each, wanted):
            told = json.loads(outcome.detail) if outcome.fate is Fate.OK else [str(outcome.detail)]
            converted += int(outcome.why) if outcome.fate is Fate.OK else 0
            found += len(told)
            for one in told:
                print(f"model {outcome.name}: {one}")
    print(
        f"{len(numbers)} models ({seeds.digest(models)}), {converted:,} conversions, {found} found"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

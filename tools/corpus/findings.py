# SPDX-License-Identifier: Apache-2.0
"""Proves that a conversion adds no finding of `opshift check`.

    python -m tools.corpus findings [--to 21 18 13 11 9] [--only 'g_ts_*'] [--sample 200 --seed 1]

Every corpus model and every example of an adapter is converted; then the findings of the result are
compared with those of the source. Each finding that only the result has is listed, and the exit
code is 1. `--sample` takes that many cases by chance.
"""

from __future__ import annotations

import argparse
import fnmatch
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.lib.program import described

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"

Case = tuple[str, Any, Any, bool]  # what it is called, model or path, target, approximate


def corpus(targets: Sequence[int], only: Sequence[str] = (), folder: Path = CORPUS) -> list[Case]:
    """The models of a corpus at each target."""
    paths = sorted(folder.glob("*/model.onnx"))
    if only:
        paths = [p for p in paths if any(fnmatch.fnmatch(p.parent.name, one) for one in only)]
    return [(f"{p.parent.name} to {to}", p, to, False) for p in paths for to in targets]


def examples() -> Iterator[Case]:
    """The examples of all adapters, each to its own target."""
    import opshift_adapters
    from opshift import testing

    yield from (case_of(*pair) for pair in testing.examples(opshift_adapters.__name__))


def case_of(adapter: Any, example: Any) -> Case:
    """One example of an adapter."""
    from opshift import testing

    model = testing.example_model(adapter, example)
    target = testing.example_target(adapter, example)
    return f"{adapter.source} {example.title}", model, target, bool(example.approximate)


def added(model: Any, target: Any, *, approximate: bool = False) -> list[str] | None:
    """The findings that only the result has; None where there is no result."""
    from opshift import OpshiftError, check, convert_version

    try:
        result = convert_version(model, target, allow_approximate=approximate)
    except OpshiftError:
        return None
    source = str(model) if isinstance(model, Path) else model
    return [f"{one.rule}: {one}" for one in check(result).beyond(check(source))]


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit code says whether a conversion added a finding."""
    args = _parser().parse_args(argv)
    cases = [*corpus(args.to, args.only), *(() if args.only else examples())]
    if args.sample is not None:
        cases = random.Random(args.seed).sample(cases, min(args.sample, len(cases)))
    converted, bad = 0, 0
    for name, model, target, approximate in cases:
        found = added(model, target, approximate=approximate)
        converted += found is not None
        for text in found or ():
            bad += 1
            print(f"{name}: {text}")
    print(f"{len(cases)} cases, {converted} converted, {bad} findings that a conversion added")
    return int(bad > 0)


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    parser.add_argument("--to", type=int, nargs="+", default=[21, 18, 13, 11, 9], metavar="OPSET")
    parser.add_argument("--only", nargs="*", default=[], metavar="GLOB", help="corpus models")
    parser.add_argument("--sample", type=int, metavar="N", help="that many cases by chance")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())

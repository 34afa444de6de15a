# SPDX-License-Identifier: Apache-2.0
"""Writes how many nodes the results of the examples have: no change may make a result longer.

    python -m tools.author lengths [--check]

A line of `tests/adapters/lengths.txt` has the module, the operators, the step and the title of an
example, and the numbers of nodes of its results, one for each operator and variant. `--check`
writes nothing; it prints the results that became longer or are not listed, and exits with 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from onnx import ModelProto
from opshift import convert_version, testing
from opshift.author.example import Example
from opshift.author.verdicts import Adapter
from opshift.testing import example_models

from tools.lib.graphs import nodes_in

TABLE = Path(__file__).parents[2] / "tests" / "adapters" / "lengths.txt"

Lengths = Mapping[str, Sequence[int]]


def measured(package: str = "opshift_adapters") -> Lengths:
    """The numbers of nodes of the results of all examples that the installed onnx can convert."""
    found: dict[str, list[int]] = defaultdict(list)
    for adapter, example in testing.examples(package):
        refused = example.refuses is not None or example.invalid is not None
        if not refused and not example_models.too_new(adapter, example):
            model = testing.example_model(adapter, example)
            target = testing.example_target(adapter, example)
            result = convert_version(model, target, **example.wishes)
            found[name(adapter, example)].append(length(result))
    return found


def name(adapter: Adapter, example: Example) -> str:
    """The module, the operators, the step and the title of an example."""
    module = adapter.source.partition(":")[0].removeprefix("opshift_adapters.")
    step = f"{adapter.start}->{adapter.to}"
    return f"{module} {'/'.join(adapter.ops[:3])} {step} {example.title}"


def length(model: ModelProto) -> int:
    """The nodes of a model, those of its functions and nested graphs included."""
    inside = sum(len(function.node) for function in model.functions)
    return inside + sum(1 for _ in nodes_in(model.graph))


def recorded() -> Lengths:
    """The numbers of the table."""
    lines = (line.rpartition(": ") for line in TABLE.read_text("utf-8").splitlines())
    return {title: [int(number) for number in numbers.split()] for title, _, numbers in lines}


def objections(known: Lengths, found: Lengths) -> Iterator[str]:
    """The results that are longer than recorded, and those that are not recorded."""
    for title, numbers in found.items():
        before = known.get(title, ())
        if len(before) != len(numbers):
            yield f"{title}: {len(numbers)} results, {len(before)} recorded"
        elif any(now > then for now, then in zip(numbers, before, strict=True)):
            yield f"{title}: {_listed(numbers)} nodes, {_listed(before)} recorded"


def _listed(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    check, found = parser.parse_args(argv).check, measured()
    if not check:
        lines = (f"{title}: {_listed(numbers)}\n" for title, numbers in sorted(found.items()))
        TABLE.write_text("".join(lines), "utf-8")
        return 0
    told = list(objections(recorded(), found))
    print("\n".join(told) or f"{len(found)} examples: no result is longer than recorded")
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())

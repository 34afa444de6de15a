# SPDX-License-Identifier: Apache-2.0
"""Compares the kernels of the oracle with onnxruntime, onnx's reference and onnx's own data.

    python -m tools.conformance oracle [--only Clip 'Reduce*'] [--write docs/maintain/oracle.md]

Each model of one node (official tests, examples of our adapters) is computed on the sets of inputs
of opshift.testing: ordinary, negative and extreme values, ties, repeated indices, empty tensors,
large integers, NaN, infinities and -0. Where a kernel differs, `tools/conformance/oracle.toml` says
which one is right, and why. Exit code 1 when a difference has no reason, or a reason no difference.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from opshift import toml
from opshift.verify.oracle.kernel_registry import KERNELS, NEWEST, Kernel
from opshift.zoo.outcome import Fate
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.supervisor import Supervisor

from tools.conformance.oracle_cases import (
    DATA,
    JUDGES,
    NO_ANSWER,
    REFERENCE,
    RUNTIME,
    NodeCase,
    cases,
    examine,
)
from tools.lib.markdown_tables import table, write_between
from tools.lib.program import described

LIMITS = ModelLimits(seconds=120.0, megabytes=3072, retries=0)
REASONS = Path(__file__).with_suffix(".toml")
Row = tuple[str, str]  # a kernel, as "Clip 1..10", and whom it is compared with


@dataclass
class Compared:
    """What the comparison of a kernel with one engine found."""

    compared: int = 0
    refused: int = 0  # sets that the kernel takes for illegal, and the other engine computes
    sets: Counter[str] = field(default_factory=Counter)  # that differ
    first: str = ""


@dataclass(frozen=True)
class Reason:
    """Which one is right where a kernel differs on these sets, and why."""

    sets: frozenset[str]  # all, if none is named
    right: str
    why: str


def reasons(path: Path = REASONS) -> dict[Row, Reason]:
    """The reasons by kernel and engine; a key may name several kernels."""
    found = {}
    for engine, rows in toml.loads(path.read_text()).items():
        for names, one in rows.items():
            reason = Reason(frozenset(one.get("sets", "").split()), one["right"], one["why"])
            for name in names.split(", "):
                found[name, engine] = reason
    return found


def label(key: tuple[str, str], kernel: Kernel) -> str:
    """A kernel by its operator and its versions."""
    name = f"{key[0]}.{key[1]}" if key[0] else key[1]
    return f"{name} {kernel.since}..{'' if kernel.until == NEWEST else kernel.until}"


def compared(wanted: Iterable[NodeCase], jobs: int = 2) -> dict[Row, Compared]:
    """What each kernel and engine differ in; onnxruntime may end a process that computes."""
    by_name = {case.name: case for case in wanted}
    found: dict[Row, Compared] = {}
    again = []
    for outcome in Supervisor(jobs, LIMITS).run(examine, by_name.values()):
        case = by_name[outcome.name]
        if outcome.fate is not Fate.OK:
            _note(found, case, RUNTIME, "process", f"onnxruntime: {outcome.detail}")
            again.append(replace(case, runtime=False))
        else:
            _note_all(found, case, outcome.detail)
    for outcome in Supervisor(jobs, LIMITS).run(examine, again):
        if outcome.fate is not Fate.OK:
            raise RuntimeError(f"{outcome.name} ends without onnxruntime too: {outcome.detail}")
        _note_all(found, by_name[outcome.name], outcome.detail)
    return found


def _note_all(found: dict[Row, Compared], case: NodeCase, detail: str) -> None:
    for name, told in json.loads(detail).items():
        for engine, difference in told.items():
            if difference and engine == REFERENCE and told.get(RUNTIME) == "":
                continue  # onnxruntime and the kernel agree against the reference
            _note(found, case, engine, name, difference)


def _note(found: dict[Row, Compared], case: NodeCase, engine: str, name: str, told: str) -> None:
    one = found.setdefault((label(case.key, case.kernel), engine), Compared())
    one.compared += 1
    if told == NO_ANSWER and engine != DATA:
        one.refused += 1
    elif told:
        one.sets[name] += 1
        one.first = one.first or f"{case.name}, {name}: {told}"


def unexplained(found: dict[Row, Compared], known: dict[Row, Reason]) -> Iterator[str]:
    """The differences without a reason."""
    for row, one in sorted(found.items()):
        reason = known.get(row)
        left = set(one.sets) - (reason.sets or set(one.sets) if reason else set())
        if left:
            listed = ", ".join(f"{name} {one.sets[name]}" for name in sorted(left))
            yield f"{' and '.join(row)} differ ({listed} of {one.compared}): {one.first}"


def idle(found: dict[Row, Compared], known: dict[Row, Reason]) -> Iterator[str]:
    """The reasons that no difference needs."""
    for row in sorted(known):
        if row not in found or not found[row].sets:
            yield f"{' and '.join(row)} do not differ: remove the reason"


def page(found: dict[Row, Compared], known: dict[Row, Reason]) -> str:
    """The tables: how much was compared, and where they differ."""
    kernels = sorted(label(key, one) for key, rows in KERNELS.items() for one in rows)
    counts = [
        (name, *(f"{one.compared:,}" if (one := found.get((name, e))) else "-" for e in JUDGES))
        for name in kernels
    ]
    differ = [
        (*row, ", ".join(sorted(one.sets)), f"{one.sets.total()} of {one.compared}",
         known[row].right, known[row].why)
        for row, one in sorted(found.items()) if one.sets and row in known
    ]  # fmt: skip
    total = {engine: sum(one.compared for row, one in found.items() if row[1] == engine)
             for engine in JUDGES}  # fmt: skip
    refused = sum(one.refused for one in found.values())
    silent = [name for name, *rest in counts if set(rest) == {"-"}]
    lines = [
        f"{len(kernels)} kernels were compared on {total[RUNTIME]:,} sets of inputs with"
        f" onnxruntime, on {total[REFERENCE]:,} with onnx's reference in numpy, and on"
        f" {total[DATA]:,} with onnx's own data. A set counts for the reference only if"
        " onnxruntime does not answer, or agrees with the reference or with neither.",
        f"The oracle is strict: it refuses {refused:,} of these sets, which the text does not allow"
        " or leaves undefined, and another engine computes.",
        "",
        "## Where they differ",
        "",
        *table(("kernel", "other", "sets of inputs", "differ", "right", "why"), differ),
        "## How much was compared",
        "",
        *table(("kernel", *JUDGES), counts),
        f"No engine computes the models of: {', '.join(silent) or 'none'}.",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = described(__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="OPERATOR")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the tables in it")
    args = parser.parse_args(arguments)
    found, known = compared(cases(args.only), args.jobs), reasons()
    told = [*unexplained(found, known), *([] if args.only else idle(found, known))]
    print("\n".join(told))
    print(f"{sum(one.compared for one in found.values()):,} comparisons, {len(told)} to explain")
    if args.write:
        write_between(args.write, "oracle", page(found, known))
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())

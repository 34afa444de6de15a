# SPDX-License-Identifier: Apache-2.0
"""Compares the kernels of the oracle with onnxruntime, onnx's reference and onnx's own data.

Each model of one node (official tests, examples of our adapters) is computed on the sets of inputs
of opshift.testing: ordinary, negative and extreme values, ties, repeated indices, empty tensors,
large integers, NaN, infinities and -0. If a kernel differs, `tests/verify/oracle_differences.toml` says
which one is right, and why.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from opshift import toml
from opshift.verify.oracle.kernel_registry import NEWEST, Kernel
from opshift.zoo.outcome import Fate
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.supervisor import Supervisor
from oracle_cases import (
    DATA,
    NO_ANSWER,
    REFERENCE,
    RUNTIME,
    NodeCase,
    examine,
)

LIMITS = ModelLimits(seconds=120.0, megabytes=3072, retries=0)
REASONS = Path(__file__).parents[1] / "verify" / "oracle_differences.toml"
Row = tuple[str, str]  # a kernel, as "Clip 1..10", and whom it is compared with


@dataclass
class Compared:
    """The differences between a kernel and one engine."""

    compared: int = 0
    refused: int = 0  # sets that the kernel takes for illegal, and the other engine computes
    sets: Counter[str] = field(default_factory=Counter)  # that differ
    first: str = ""


@dataclass(frozen=True)
class Reason:
    """The explanation which side is right if a kernel differs on these sets."""

    sets: frozenset[str]  # all, if none is named
    right: str
    why: str


def reasons(path: Path = REASONS) -> dict[Row, Reason]:
    """Returns the explanations by kernel and engine; a key may name several kernels."""
    reason_by_row = {}
    for engine, rows in toml.loads(path.read_text()).items():
        for names, row in rows.items():
            reason = Reason(frozenset(row.get("sets", "").split()), row["right"], row["why"])
            for name in names.split(", "):
                reason_by_row[name, engine] = reason
    return reason_by_row


def label(key: tuple[str, str], kernel: Kernel) -> str:
    """Returns a kernel's operator and versions as text."""
    name = f"{key[0]}.{key[1]}" if key[0] else key[1]
    return f"{name} {kernel.since}..{'' if kernel.until == NEWEST else kernel.until}"


def compared(cases: Iterable[NodeCase], jobs: int = 2) -> dict[Row, Compared]:
    """Compares each kernel with the engines, in child processes that onnxruntime may crash."""
    by_name = {case.name: case for case in cases}
    rows: dict[Row, Compared] = {}
    again = []
    for outcome in Supervisor(jobs, LIMITS).run(examine, by_name.values()):
        case = by_name[outcome.name]
        if outcome.fate is not Fate.OK:
            _note(rows, case, RUNTIME, "process", f"onnxruntime: {outcome.detail}")
            again.append(replace(case, runtime=False))
        else:
            _note_all(rows, case, outcome.detail)
    for outcome in Supervisor(jobs, LIMITS).run(examine, again):
        if outcome.fate is not Fate.OK:
            raise RuntimeError(f"{outcome.name} ends without onnxruntime too: {outcome.detail}")
        _note_all(rows, by_name[outcome.name], outcome.detail)
    return rows


def _note_all(rows: dict[Row, Compared], case: NodeCase, detail: str) -> None:
    for name, text in json.loads(detail).items():
        for engine, difference in text.items():
            if difference and engine == REFERENCE and text.get(RUNTIME) == "":
                continue  # onnxruntime and the kernel agree against the reference
            _note(rows, case, engine, name, difference)


def _note(rows: dict[Row, Compared], case: NodeCase, engine: str, name: str, text: str) -> None:
    row = rows.setdefault((label(case.key, case.kernel), engine), Compared())
    row.compared += 1
    if text == NO_ANSWER and engine != DATA:
        row.refused += 1
    elif text:
        row.sets[name] += 1
        row.first = row.first or f"{case.name}, {name}: {text}"


def unexplained(rows: dict[Row, Compared], reasons_of_rows: dict[Row, Reason]) -> Iterator[str]:
    """Returns the differences without an explanation."""
    for row, compared_row in sorted(rows.items()):
        reason = reasons_of_rows.get(row)
        unknown_sets = set(compared_row.sets) - (
            reason.sets or set(compared_row.sets) if reason else set()
        )
        if unknown_sets:
            listed = ", ".join(f"{name} {compared_row.sets[name]}" for name in sorted(unknown_sets))
            yield f"{' and '.join(row)} differ ({listed} of {compared_row.compared}): {compared_row.first}"

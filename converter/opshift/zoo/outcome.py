# SPDX-License-Identifier: Apache-2.0
"""Defines the outcome of one model, as a value that can be sent between processes."""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from opshift.errors import Refused
from opshift.json_form import Form, Versions
from opshift.records import dataclass
from opshift.report import Origin, RuntimeRuns
from opshift.results import BROKEN, ERROR, FAILED, PASSED, SKIPPED, ModelResult, Problem
from opshift.text import printable, qualified

Stamp: TypeAlias = tuple[str, int, str]  # (path, size, version)
# A runtime, and whether it runs the model now and after a conversion: yes, no or not known.
Runs: TypeAlias = tuple[str, str, str]
SHOWN_BLOCKERS, SHOWN_LETTERS = 20, 1000


class Fate(str, enum.Enum):
    """The closed list of outcomes of a model."""

    __str__ = str.__str__

    OK = "ok"
    SKIPPED = "skipped"
    REFUSED = "refused"
    INVALID = "invalid"
    UNVERIFIED = "unverified"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OOM = "oom"
    LOST = "lost"

    @property
    def failed(self) -> bool:
        return self not in (Fate.OK, Fate.SKIPPED)


QUARANTINED = frozenset((Fate.UNVERIFIED, Fate.CRASHED, Fate.TIMEOUT, Fate.OOM))


class Unpublished(Exception):  # noqa: N818 - it becomes an outcome
    """Raised if a conversion succeeded but its result could not be written."""


@dataclass(frozen=True, slots=True)
class Blocker(Form):
    """One node that blocks the conversion from one opset to the next."""

    PART = "blocker"

    node: str
    """The name of the node, or of its first output; `the model` if the IR version blocks."""
    op: str
    """The operator; `IR` if the IR version blocks."""
    domain: str
    """The domain of the operator."""
    boundary: tuple[int, int]
    """The version before the step, and the version after it."""
    why: str
    """The code of the reason, one of `opshift.Why`; `opshift explain CODE` explains the code."""
    detail: str
    """The missing fact about the node, or the impossible part of its conversion."""


@dataclass(frozen=True, slots=True)
class BatchRow(Form):
    """The outcome of one model of a batch.

    Printed by `opshift batch --results rows.jsonl, one line for each model`.
    """

    KIND = "row"

    model: str
    """The name of the model in the zoo."""
    outcome: Fate
    """The outcome."""
    why: str
    """The reason; empty for a success. For a refused or an invalid model, the reason is a code,
    which `opshift explain CODE` explains."""
    detail: str
    """The message about the model."""
    source: Versions
    """The versions before the conversion, by domain."""
    result: Versions
    """The versions after the conversion, or the nearest ones, by domain."""
    bytes: int
    """The size of the source model with its external data."""
    seconds: float
    """The time for the model."""
    blockers: tuple[Blocker, ...]
    """The nodes that block the conversion, at most 20."""
    nodes_before: int | None
    """The number of nodes of the source model; null if they were not counted."""
    nodes_after: int | None
    """The number of nodes of the result; null if they were not counted."""
    rewritten: Mapping[str, int]
    """The number of rewritten nodes, by operator."""
    origin: Origin | None
    """The origin of the result; null if there is no result, or if opshift 0.2.0 or an earlier
    release made it."""
    runtimes: tuple[RuntimeRuns, ...]
    """The answer for each runtime of `--runtimes`."""
    accepted: str
    """Whether the runtime of `--for` accepts the result: `yes`, `no` or `not known`; empty without
    a runtime or a new result."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one model; `reads` and `writes` are sizes and times of its files."""

    name: str
    fate: Fate
    why: str = ""
    detail: str = ""
    source: Mapping[str, int] = field(default_factory=dict)
    result: Mapping[str, int] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()
    size: int = 0
    seconds: float = 0.0
    key: str = ""
    reads: tuple[Stamp, ...] = ()
    writes: tuple[Stamp, ...] = ()
    runs: tuple[Runs, ...] = ()
    # before and after the conversion; None if they were not counted
    nodes: tuple[int, int] | None = None
    # the number of rewritten nodes by operator
    rewritten: Mapping[str, int] = field(default_factory=dict)
    origin: Origin | None = None  # the origin of the result
    accepted: str = ""  # whether the runtime of the target accepts the result

    def __reduce__(self) -> tuple[type[Outcome], tuple[Any, ...]]:
        return Outcome, _values(self)  # takes half the time of the default for dataclasses

    def as_dict(self) -> dict[str, Any]:
        """The JSON form that `opshift schema` describes."""
        raw = dict(zip(_NAMES, _values(self), strict=True))
        blockers = [dataclasses.asdict(blocker) for blocker in self.blockers]
        return {**raw, "blockers": blockers, "origin": self.origin_form()}

    def origin_form(self) -> dict[str, Any] | None:
        """Returns the origin of the result in the JSON form that `opshift schema` describes."""
        return dataclasses.asdict(self.origin) if self.origin else None

    def row(self) -> dict[str, Any]:
        """Returns the outcome in the JSON form for users, which `opshift schema` describes."""
        before, after = self.nodes or (None, None)
        return BatchRow(
            printable(self.name), self.fate, self.why, printable(self.detail), self.source,
            self.result, self.size, round(self.seconds, 3), self.blockers, before, after,
            self.rewritten, self.origin, tuple(RuntimeRuns(*run) for run in self.runs),
            self.accepted,
        ).as_dict()  # fmt: skip

    def case(self) -> ModelResult:
        """Returns the outcome in the form that a results file takes."""
        problems = [Problem(ERROR, b.why, _of_blocker(b)) for b in self.blockers]
        if self.fate.failed and not problems:
            problems = [Problem(ERROR, self.why, printable(self.detail))]
        model = printable(self.name)
        return ModelResult(model, STATES[self.fate], self.row(), tuple(problems), self.seconds)

    @staticmethod
    def from_dict(raw: Mapping[str, Any]) -> Outcome:
        blockers = tuple(
            Blocker(**{**blocker, "boundary": tuple(blocker["boundary"])})
            for blocker in raw["blockers"]
        )
        return Outcome(
            **{
                **raw,
                "fate": Fate(raw["fate"]),
                "blockers": blockers,
                "reads": tuple((path, size, at) for path, size, at in raw["reads"]),
                "writes": tuple((path, size, at) for path, size, at in raw["writes"]),
                "runs": tuple(map(tuple, raw.get("runs", ()))),
                "nodes": tuple(raw["nodes"]) if raw.get("nodes") else None,
                "origin": Origin.from_dict(raw["origin"]) if raw.get("origin") else None,
            }
        )


STATES = {
    **dict.fromkeys(Fate, BROKEN),
    Fate.OK: PASSED,
    Fate.SKIPPED: SKIPPED,
    Fate.REFUSED: FAILED,
    Fate.INVALID: FAILED,
    Fate.UNVERIFIED: FAILED,
}


def _of_blocker(blocker: Blocker) -> str:
    op = qualified(blocker.domain, blocker.op)
    start, to = blocker.boundary
    return printable(f"{op} {blocker.node!r} {start}->{to}: {blocker.detail}")


_NAMES = tuple(one.name for one in dataclasses.fields(Outcome))
_values = operator.attrgetter(*_NAMES)


def blockers_of(refused: Refused) -> tuple[Blocker, ...]:
    """Returns the first blocking nodes of a refusal, with shortened texts."""
    return tuple(
        Blocker(r.node, r.op, r.domain, r.boundary, r.why.name, shortened(r.detail))
        for r in refused.refusals[:SHOWN_BLOCKERS]
    )


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN_LETTERS else text[: SHOWN_LETTERS - 3] + "..."

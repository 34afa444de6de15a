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
from opshift.records import dataclass
from opshift.report import KNOWN, SCHEMA_VERSION, Origin
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
class Blocker:
    """One node that blocks the conversion from one opset to the next."""

    node: str
    op: str
    domain: str
    boundary: tuple[int, int]
    why: str
    detail: str


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
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "row",
            "model": printable(self.name),
            "outcome": self.fate.value,
            "why": self.why,
            "detail": printable(self.detail),
            "source": dict(self.source),
            "result": dict(self.result),
            "bytes": self.size,
            "seconds": round(self.seconds, 3),
            "blockers": [dataclasses.asdict(blocker) for blocker in self.blockers],
            "nodes_before": self.nodes[0] if self.nodes else None,
            "nodes_after": self.nodes[1] if self.nodes else None,
            "rewritten": dict(self.rewritten),
            "origin": self.origin_form(),
            "runtimes": [
                {"target": target, "now": KNOWN[now], "after": KNOWN[after]}
                for target, now, after in self.runs
            ],
        }

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

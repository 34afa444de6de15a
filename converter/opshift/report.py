"""Frozen outcomes that travel between processes, print as tables and round-trip through JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of rewriting at one boundary, and how many nodes it met."""

    op: str
    gives: tuple[str, ...]
    adapter: str
    count: int


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one boundary took."""

    domain: str
    start: int
    to: int
    rewritten: tuple[Work, ...] = ()
    kept: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """What a conversion did."""

    source: Mapping[str, int]
    result: Mapping[str, int]
    ir_before: int
    ir_after: int
    steps: tuple[StepReport, ...] = ()
    approximations: tuple[str, ...] = ()
    inlined: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    repaired: bool = False

    @property
    def changed(self) -> bool:
        versions = dict(self.source) != dict(self.result) or self.ir_before != self.ir_after
        return versions or self.repaired

    def as_dict(self) -> dict[str, Any]:
        """The documented JSON form, `docs/reference/json.md`."""
        return {"schema_version": SCHEMA_VERSION, "kind": "report", **dataclasses.asdict(self)}

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Report:
        raw = json.loads(text)
        check_schema(raw, "report")
        steps = tuple(
            StepReport(
                step["domain"], step["start"], step["to"],
                tuple(Work(**{**w, "gives": tuple(w["gives"])}) for w in step["rewritten"]),
                step["kept"],
            )
            for step in raw["steps"]
        )  # fmt: skip
        return Report(
            raw["source"], raw["result"], raw["ir_before"], raw["ir_after"], steps,
            tuple(raw["approximations"]), tuple(raw["inlined"]), tuple(raw["notes"]),
            raw.get("repaired", False),
        )  # fmt: skip

    def __str__(self) -> str:
        lines = [f"{shown(self.source)} -> {shown(self.result)}"]
        if self.ir_before != self.ir_after:
            lines.append(f"IR {self.ir_before} -> {self.ir_after}")
        for step in self.steps:
            for work in step.rewritten:
                name = step.domain or "ai.onnx"
                gives = " ".join(work.gives)
                where = f"{step.start}->{step.to}" if step.start != step.to else f"{step.to}"
                lines.append(f"  {name} {where}  {work.op} x{work.count}: {gives}")
        lines += [f"  approximate: {text}" for text in self.approximations]
        lines += [f"  inlined: {text}" for text in self.inlined]
        lines += [f"  note: {text}" for text in self.notes]
        return "\n".join(lines)


def shown(imports: Mapping[str, int]) -> str:
    return ", ".join(f"{domain or 'ai.onnx'} {v}" for domain, v in sorted(imports.items()))


def check_schema(raw: Mapping[str, Any], kind: str) -> None:
    if raw.get("kind") != kind or raw.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"not a {kind} of schema version {SCHEMA_VERSION}")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Columns lined up with spaces, for a terminal without colours."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )

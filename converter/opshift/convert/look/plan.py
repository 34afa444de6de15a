"""What a conversion would do: the plan, and the short way to it where only the header changes."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opshift.convert.look import header
from opshift.errors import RefusedNode
from opshift.model.bytes.source import Opened
from opshift.opsets import targets
from opshift.report import SCHEMA_VERSION, StepReport, shown, table

if TYPE_CHECKING:
    from onnx import ModelProto

    from opshift.convert.request import Target


OUTGROWN = "further on in {} the model grows too large; how far it can go was not looked at"


@dataclass(frozen=True, slots=True)
class Hop:
    """One boundary that changes an operator, and what crossing it takes."""

    op: str
    start: int
    to: int
    verdict: str
    emits: tuple[str, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class Path:
    """How one operator of the model gets to the target; `dead_end` says why it may not."""

    domain: str
    op: str
    count: int
    hops: tuple[Hop, ...]
    dead_end: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a conversion would do, or why there is none and how near one gets."""

    source: Mapping[str, int]
    target: Mapping[str, int]
    paths: tuple[Path, ...]
    steps: tuple[StepReport, ...]
    refusals: tuple[RefusedNode, ...]
    nearest: Mapping[str, int]
    lowest: Mapping[str, int]
    highest: Mapping[str, int]
    approximations: tuple[str, ...]
    header_only: bool = False
    outgrown: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        return not self.refusals

    def as_dict(self) -> dict[str, Any]:
        """The documented JSON form, `docs/reference/json.md`."""
        raw = dataclasses.asdict(self)
        for refusal in raw["refusals"]:
            refusal["why"] = refusal["why"].name
        return {"schema_version": SCHEMA_VERSION, "kind": "plan", "possible": self.possible, **raw}

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2, sort_keys=True)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{shown(self.source)} -> {shown(self.target)}"
        yield ""
        yield table(("operator", "nodes", "path"), (_row(path) for path in self.paths))
        for step in self.steps:
            for work in step.rewritten:
                name = step.domain or "ai.onnx"
                yield (
                    f"{name} {step.start}->{step.to}: {work.op} x{work.count}"
                    f" becomes {' '.join(work.gives)}"
                )
        for text in self.approximations:
            yield f"approximate: {text}"
        yield ""
        if self.header_only:
            yield "possible: no operator changes, the header alone is rewritten"
        elif self.possible:
            yield "possible"
        else:
            yield f"not possible; nearest is {shown(self.nearest)}"
            yield from (f"  {refusal}" for refusal in self.refusals)
        if not self.header_only:
            yield f"reachable: from {shown(self.lowest)} to {shown(self.highest)}"
        for domain in self.outgrown:
            yield OUTGROWN.format(domain or "ai.onnx")


def _row(path: Path) -> tuple[str, str, str]:
    name = f"{path.domain}.{path.op}" if path.domain else path.op
    hops = [
        f"{hop.start}->{hop.to} {hop.verdict}" + (f" ({hop.op})" if hop.op != path.op else "")
        for hop in path.hops
    ]
    if path.dead_end:
        hops.append(f"DEAD END: {path.dead_end}")
    return name, str(path.count), ", ".join(hops) or "unchanged"


def plan(
    model: ModelProto | str | os.PathLike[str],
    target: Target | str,
    *,
    allow_approximate: bool = False,
) -> Plan:
    """What converting `model` to `target` would do, node by node; nothing is written or changed.

    A file of which only the header would change is answered from its imports and the names of its
    operators, without onnx.
    """
    source: ModelProto | Opened
    if isinstance(model, (str, os.PathLike)):
        source = Opened(os.fspath(model))
        found = header.changes(source, targets.wanted(target))
        if found is not None:
            paths = tuple(Path(*key, count, (), None) for key, count in found.operators)
            to = found.target
            return Plan(found.source, to, paths, (), (), found.result, {}, {}, (), header_only=True)
    else:
        source = model
    from opshift.convert.look import rehearse

    return rehearse.plan(source, target, allow_approximate=allow_approximate)

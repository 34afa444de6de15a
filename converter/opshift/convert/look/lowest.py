"""The versions a model needs: those at which it means the same, and those it can be brought to."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto

from opshift.author import registry
from opshift.convert.api import Carve, Options, convert
from opshift.convert.attempt import Conversion
from opshift.convert.goals import spans
from opshift.convert.ir import needs
from opshift.errors import Refused, RefusedNode
from opshift.model import weights
from opshift.opsets import schemas
from opshift.report import SCHEMA_VERSION, table


@dataclass(frozen=True, slots=True)
class Reach:
    """One domain: where nothing need be rewritten, how far conversion gets, and what stops it."""

    domain: str
    version: int
    same_from: int
    same_to: int
    lowest: int
    highest: int
    below: tuple[RefusedNode, ...]
    above: tuple[RefusedNode, ...]


@dataclass(frozen=True, slots=True)
class Lowest:
    """The reach of every domain whose versions are known, and what ties the content to an IR."""

    domains: tuple[Reach, ...]
    ir_version: int = 3
    ir_needs: tuple[needs.Need, ...] = ()

    @property
    def lowest_ir(self) -> int:
        """The smallest IR version that has a place for all of the content as it is."""
        return max((need.ir for need in self.ir_needs), default=3)

    @property
    def minimal(self) -> dict[str, int]:
        """The smallest imports with which every node means what it means now."""
        return {reach.domain: reach.same_from for reach in self.domains}

    def __getitem__(self, domain: str) -> Reach:
        return next(reach for reach in self.domains if reach.domain == schemas.normal(domain))

    def as_dict(self) -> dict[str, Any]:
        """The documented JSON form, `docs/guide/json.md`."""
        raw = dataclasses.asdict(self)
        for reach in raw["domains"]:
            for refusal in (*reach["below"], *reach["above"]):
                refusal["why"] = refusal["why"].name
        own = {"schema_version": SCHEMA_VERSION, "kind": "lowest", "lowest_ir": self.lowest_ir}
        return {**own, **raw}

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2, sort_keys=True)

    def __str__(self) -> str:
        header = ("domain", "now", "the same", "by conversion")
        rows = (
            (
                reach.domain or "ai.onnx",
                str(reach.version),
                f"{reach.same_from} to {reach.same_to}",
                f"{reach.lowest} to {reach.highest}",
            )
            for reach in self.domains
        )
        lines = [table(header, rows), f"IR {self.ir_version}, the content needs {self.lowest_ir}"]
        lines += [f"IR {need.ir}: {need.reason}" for need in self.ir_needs]
        for reach in self.domains:
            lines += [f"below {reach.lowest}: {refusal}" for refusal in reach.below]
            lines += [f"above {reach.highest}: {refusal}" for refusal in reach.above]
        return "\n".join(lines)


def lowest_versions(
    model: ModelProto | str | os.PathLike[str], *, allow_approximate: bool = False
) -> Lowest:
    """The smallest and the greatest versions a model can have; nothing is changed."""

    def carve() -> tuple[ModelProto, weights.Weights]:
        if isinstance(model, ModelProto):
            return weights.carve_model(model)
        return weights.carve_file(model)

    options = Options({}, allow_approximate=allow_approximate)
    opened = Conversion(*carve(), options)
    opened.open(registry.default())
    present = opened.document.imports.as_dict()
    return Lowest(
        tuple(
            _reach(carve, options, domain, present[domain], span)
            for domain, span in sorted(spans(opened.document).items())
            if domain in present
        ),
        opened.skeleton.ir_version,
        tuple(needs.Need(one.ir, one.says) for one in needs.needs(opened.document, opened.facts)),
    )


def _reach(
    carve: Carve, options: Options, domain: str, version: int, same: tuple[int, int]
) -> Reach:
    low, below = _furthest(carve, options, domain, version, 1)
    high, above = _furthest(carve, options, domain, version, schemas.latest(domain) or version)
    return Reach(domain, version, *same, low, high, below, above)


def _furthest(
    carve: Carve, options: Options, domain: str, version: int, end: int
) -> tuple[int, tuple[RefusedNode, ...]]:
    """The version nearest to `end` that a conversion reaches, and what refuses the next one."""
    refusals: tuple[RefusedNode, ...] = ()
    step = 1 if end >= version else -1
    while end != version:
        refused = _refused(carve, options, {domain: end})
        if refused is None:
            break
        refusals = refused.refusals
        near = refused.nearest.get(domain, version)
        end = near if (end - near) * step > 0 else end - step
    return end, refusals


def _refused(carve: Carve, options: Options, target: Mapping[str, int]) -> Refused | None:
    try:
        convert(carve, dataclasses.replace(options, target=target))
    except Refused as refused:
        return refused
    return None

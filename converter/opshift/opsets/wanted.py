# SPDX-License-Identifier: Apache-2.0
"""A target that depends on the model: a runtime, or lower bounds of versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from opshift import versions
from opshift.errors import BadTarget
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.opsets.probed import ReleaseTable
    from opshift.opsets.targets import RuntimeRelease

IrVersion: TypeAlias = int | Literal["auto", "keep"]
Key: TypeAlias = tuple[str, str]  # (domain, operator)
BROADCASTS = 7  # from this opset on, operators broadcast; few runtimes support older opsets


@dataclass(frozen=True, slots=True)
class Wanted:
    """A target that depends on the model: a runtime, exact versions, or lower bounds."""

    release: RuntimeRelease | None = None
    exact: Mapping[str, int] = field(default_factory=dict)
    at_least: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(runtime: str | None, exact: Mapping[str, int], at_least: Mapping[str, int]) -> Wanted:
        """Returns the target for an optional runtime and versions."""
        for domain in exact.keys() & at_least.keys():
            raise BadTarget(
                f"{domain or 'ai.onnx'} has an exact version and a lower bound; give one of them"
            )
        if runtime is None:
            return Wanted(None, exact, at_least)
        from opshift.opsets import targets  # many targets, and most conversions name none

        return Wanted(targets.find(runtime), exact, at_least)

    def goal(self, present: Mapping[str, int], operators: Collection[Key] = ()) -> dict[str, int]:
        """Returns the target version of each domain; a version that is allowed does not change."""
        release = self.release
        versions_by_domain = _fitting(release, present, operators) if release is not None else {}
        for domain, floor in self.at_least.items():
            versions_by_domain[domain] = max(
                versions_by_domain.get(domain, present.get(domain, floor)), floor
            )
        versions_by_domain.update(self.exact)
        if release is not None:
            _require_readable(release, versions_by_domain)
        return versions_by_domain

    def visits(self, goal: Mapping[str, int], operators: Collection[Key]) -> dict[str, int]:
        """Returns lower versions to visit first, at which the missing operators do not exist."""
        from opshift.opsets import changelog

        lower: dict[str, int] = {}
        for domain, op in operators if self.release else ():
            if self.release and domain in goal and self.release.lacks_operator((domain, op)):
                history = changelog.default().history(domain, op)
                born = min((entry.operator.since_version for entry in history), default=1)
                if 1 < born <= goal[domain]:
                    lower[domain] = min(born - 1, lower.get(domain, goal[domain]))
        return lower

    def raises(self, present: Mapping[str, int], goal: Mapping[str, int]) -> bool:
        """Returns whether the IR version may rise, because higher opsets were requested."""
        risen = any(to > present.get(domain, to) for domain, to in goal.items())
        return risen or bool(self.at_least or self.exact)

    def ir(
        self, requested: IrVersion, current: int, goal: Mapping[str, int], *, raised: bool
    ) -> IrVersion:
        """Returns the requested IR version, at most the newest that the runtime reads."""
        limit = self.release.ir if self.release else None
        if limit is None or self.release is None:
            return requested
        if isinstance(requested, int) and requested > limit:
            raise BadTarget(
                f"{self.release.shown} reads IR versions up to {limit}, but {requested} was"
                " requested; give a lower version"
            )
        if isinstance(requested, int):
            return requested
        return min(limit, max(current, versions.ir_for(goal)) if raised else current)


def _fitting(
    release: RuntimeRelease, present: Mapping[str, int], operators: Collection[Key]
) -> dict[str, int]:
    """Returns the versions that a runtime requires for the domains of a model."""
    limits = release.imports
    ours = {d: v for d, v in present.items() if d in limits}
    required = {d: min(v, limits[d]) for d, v in ours.items() if _moves(d, v, limits[d])}
    for domain, floor in release.floors.items():
        if domain in present:
            required[domain] = max(required.get(domain, present[domain]), floor)
    if "" in present:
        required |= _readable(release, required.get("", present[""]), operators)
    return required


def _require_readable(release: RuntimeRelease, goal: Mapping[str, int]) -> None:
    """Raises BadTarget for a version that the runtime does not read."""
    for domain, version in goal.items():
        shown = domain or "ai.onnx"
        if version > release.imports.get(domain, version):
            raise BadTarget(
                f"{release.shown} reads {shown} up to {release.imports[domain]}, but {version} was"
                " requested; give a lower version"
            )
        if version < release.floors.get(domain, version):
            raise BadTarget(
                f"{release.shown} reads {shown} from {release.floors[domain]} on, but {version} was"
                " requested; give a higher version"
            )


def _moves(domain: str, version: int, limit: int) -> bool:
    """Returns whether a domain gets a target version: an ONNX domain, or one above the limit."""
    return domain in versions.DOMAINS or version > limit


def _readable(release: RuntimeRelease, version: int, operators: Collection[Key]) -> dict[str, int]:
    """Returns the nearest opset at which measurements show that the runtime reads the operators."""
    if release.prefer is not None:
        version = min(version, release.prefer)
    met = list(dict.fromkeys(lacking for key in operators for lacking in release.lacking(key)))
    caps = [lacking.since - 1 for lacking in met if lacking.since > 1]
    lifts = [lacking.before for lacking in met if lacking.before < 1 << 30 and lacking.since == 1]
    version = max([min([version, *caps]), *lifts])
    if release.probed is not None:
        nearest = _nearest_run(release, release.probed, version, operators)
        if nearest != version:
            return {"": nearest}
    return {"": version} if release.prefer is not None or met else {}


def _nearest_run(
    release: RuntimeRelease, table: ReleaseTable, version: int, operators: Collection[Key]
) -> int:
    """Returns the opset at which the fewest operators failed in a probe.

    If several opsets have equally few failures, the nearest opset is returned.
    """
    from opshift.opsets import changelog

    database = changelog.default()
    usual = min(BROADCASTS, version)
    ops = [key for key in operators if not key[0] and not table.lost(key)]
    low, top = (
        release.floors.get("", usual),
        release.imports.get("") or database.newest("") or version,
    )

    def cost(at: int) -> tuple[int, int, int]:
        entries = [database.meaning(*key, at) for key in ops]
        runs = [
            table.runs_at(key, entry.operator.since_version)
            for key, entry in zip(ops, entries, strict=True)
            if entry is not None
        ]
        return runs.count(False), abs(at - version), at

    return min(range(low, top + 1), key=cost, default=version)


def read_target(
    target: int | str | Mapping[str, int] | None,
    at_least: Mapping[str, int] | int | None = None,
) -> int | Mapping[str, int] | Wanted:
    """Returns a caller's target as versions by domain, or as a Wanted; {} without a target."""
    floors = {"": at_least} if isinstance(at_least, int) else dict(at_least or {})
    for domain in target if isinstance(target, Mapping) else ():
        if not isinstance(domain, str):
            raise BadTarget(f"the domain {domain!r} must be a text, such as 'ai.onnx'")
    if isinstance(target, str):
        if target.isdecimal():
            raise BadTarget(f"the target of ai.onnx is {target!r}; give a whole number")
        return Wanted.of(target, {}, floors)
    if target is None:
        return Wanted(at_least=floors) if floors else {}
    if floors:
        raise BadTarget(
            "at_least cannot be combined with exact versions; give it with a runtime or without a"
            " target"
        )
    return target

# SPDX-License-Identifier: Apache-2.0
"""Finds changes that a release of onnx made to an operator set after its publication."""

from __future__ import annotations

import functools

from opshift import plugins
from opshift.records import dataclass

FILE = "late_changes.txt"


@dataclass(frozen=True, slots=True)
class LateChange:
    """A change of an implementation, and the first release of onnx with this change."""

    release: str
    kind: str  # "added", "removed", "deprecated", "gained" or "lost"
    parameter: tuple[str, int] | None = None  # "input" or "output", and its position
    types: frozenset[str] = frozenset()


@functools.cache
def table() -> dict[tuple[str, str, int], tuple[LateChange, ...]]:
    """Returns all changes by domain, operator and since-version, the oldest release first."""
    found: dict[tuple[str, str, int], list[LateChange]] = {}
    for row in plugins.data("opshift.opsets", FILE).decode().splitlines():
        if row.startswith("#"):
            continue
        release, key, kind, *rest = row.split(" ")
        domain, _, name = key.partition("::")
        operator, _, since = name.rpartition(":")
        change = LateChange(release, kind)
        if rest:
            place, at, types = rest
            change = LateChange(release, kind, (place, int(at)), frozenset(types.split(",")))
        found.setdefault((domain, operator, int(since)), []).append(change)
    return {key: tuple(changes) for key, changes in found.items()}


@functools.cache
def operators_added() -> frozenset[tuple[str, str]]:
    """Returns the operators that have an implementation which was added late."""
    return frozenset(
        (domain, op)
        for (domain, op, _), changes in table().items()
        if any(one.kind == "added" for one in changes)
    )


def added_after(domain: str, op: str, since: int, release: str) -> str | None:
    """Returns the release of onnx that added an implementation after `release`, or None."""
    changes = table().get((domain, op, since), ())
    added = (one.release for one in changes if one.kind == "added")
    return next((one for one in added if _number(one) > _number(release)), None)


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def lost(domain: str, op: str, since: int, at: int, kind: str) -> str | None:
    """Returns the release of onnx in which an input lost an accepted type, or None."""
    changes = table().get((domain, op, since), ())
    own = [one for one in changes if one.parameter == ("input", at) and kind in one.types]
    return own[-1].release if own and own[-1].kind == "lost" else None


def deprecated(domain: str, op: str, since: int) -> str | None:
    """Returns the release of onnx that deprecated an implementation late, or None."""
    changes = table().get((domain, op, since), ())
    return next((one.release for one in changes if one.kind == "deprecated"), None)

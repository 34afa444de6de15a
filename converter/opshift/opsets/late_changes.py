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
    by_operator: dict[tuple[str, str, int], list[LateChange]] = {}
    for row in plugins.data("opshift.opsets", FILE).decode().splitlines():
        if row.startswith("#"):
            continue
        release, key, kind, *details = row.split(" ")
        domain, _, name = key.partition("::")
        operator, _, since = name.rpartition(":")
        change = LateChange(release, kind)
        if details:
            place, at, types = details
            change = LateChange(release, kind, (place, int(at)), frozenset(types.split(",")))
        by_operator.setdefault((domain, operator, int(since)), []).append(change)
    return {key: tuple(changes) for key, changes in by_operator.items()}


@functools.cache
def operators_added() -> frozenset[tuple[str, str]]:
    """Returns the operators that onnx added to an opset after its publication."""
    return frozenset(
        (domain, op)
        for (domain, op, _), changes in table().items()
        if any(change.kind == "added" for change in changes)
    )


def added_after(domain: str, op: str, since: int, release: str) -> str | None:
    """Returns the first release of onnx after `release` that added an implementation, or None."""
    changes = table().get((domain, op, since), ())
    added = (change.release for change in changes if change.kind == "added")
    return next((later for later in added if _number(later) > _number(release)), None)


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def lost(domain: str, op: str, since: int, at: int, kind: str) -> str | None:
    """Returns the release of onnx in which an input lost an accepted type, or None."""
    changes = table().get((domain, op, since), ())
    of_input = [
        change for change in changes if change.parameter == ("input", at) and kind in change.types
    ]
    return of_input[-1].release if of_input and of_input[-1].kind == "lost" else None


def deprecated(domain: str, op: str, since: int) -> str | None:
    """Returns the release of onnx that deprecated an implementation late, or None."""
    changes = table().get((domain, op, since), ())
    return next((change.release for change in changes if change.kind == "deprecated"), None)

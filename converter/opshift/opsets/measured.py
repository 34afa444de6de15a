# SPDX-License-Identifier: Apache-2.0
"""Finds the measured releases of a runtime, and parses ranges of releases in tables."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from opshift.opsets import target_names


@functools.lru_cache(maxsize=256)  # called for each operator, for few releases
def around(release: str, releases: tuple[str, ...]) -> frozenset[int]:
    """Returns the numbers of the measured releases that represent a release.

    A measured release represents itself. Other releases are represented by the measured releases
    before and after them; a release older or newer than all measured releases has no
    representative.
    """
    earlier = [
        n for n, measured in enumerate(releases) if target_names.between(measured, release, "")
    ]
    nearest = max(earlier, default=-1)
    if nearest < 0 or target_names.between(release, release, releases[nearest]):
        return frozenset({nearest} - {-1})
    both = {nearest, nearest + 1}
    return frozenset(both if nearest + 1 < len(releases) else ())


def numbers(where: str, releases: Sequence[str]) -> list[int]:
    """Returns the numbers of the releases in a text such as `0.4..1.2,1.7`."""
    indices: list[int] = []
    for part in where.split(","):
        low, _, high = part.partition("..")
        indices += range(releases.index(low), releases.index(high or low) + 1)
    return indices


def shown(indices: Iterable[int], releases: Sequence[str]) -> str:
    """Returns the text for numbers of releases, which `numbers` parses."""
    ranges: list[list[int]] = []
    for number in sorted(indices):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    ends = [(releases[run[0]], releases[run[-1]]) for run in ranges]
    return ",".join(low if low == high else f"{low}..{high}" for low, high in ends)

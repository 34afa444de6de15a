# SPDX-License-Identifier: Apache-2.0
"""The releases of a runtime that were measured, and how the tables write ranges of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from opshift.opsets import target_names


@functools.lru_cache(maxsize=256)  # it runs for each operator, and there are few releases
def around(release: str, releases: tuple[str, ...]) -> frozenset[int]:
    """The numbers of the measured releases that stand for a release: itself, or its neighbours.

    None stands for a release that is older or newer than all of them.
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
    """The numbers of the releases in a text such as `0.4..1.2,1.7`."""
    found: list[int] = []
    for one in where.split(","):
        low, _, high = one.partition("..")
        found += range(releases.index(low), releases.index(high or low) + 1)
    return found


def shown(found: Iterable[int], releases: Sequence[str]) -> str:
    """The text that `numbers` reads."""
    ranges: list[list[int]] = []
    for number in sorted(found):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    ends = [(releases[one[0]], releases[one[-1]]) for one in ranges]
    return ",".join(low if low == high else f"{low}..{high}" for low, high in ends)

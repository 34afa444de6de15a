# SPDX-License-Identifier: Apache-2.0
"""Tile for the axes that a broadcast is known to repeat."""

import itertools

from opshift.adapter import Builder, Value

from opshift_adapters._lib.blocks import part

Dims = tuple[int | str | None, ...]


def equal(a: Dims | None, b: Dims | None) -> bool:
    """Returns whether two shapes are equal, whatever value each symbolic dimension has."""
    return a is not None and a == b and None not in a


def covers(large: Dims, small: Dims) -> bool:
    """Returns whether broadcasting both shapes is known to give `large`."""
    if len(small) > len(large):
        return False
    pairs = zip(large[len(large) - len(small) :], small, strict=True)
    return all(s == 1 or (s == d and s is not None) for d, s in pairs)


def repeated_to(op: Builder, x: Value, shape: Value, goal: Dims) -> Value | None:
    """Broadcasts `x` by Tile to a shape of at most its rank; None if unknown axes may repeat."""
    ahead = x.rank - len(goal)
    pairs = zip(x.dims, (*[1] * ahead, *goal), strict=True)
    repeats = [_is_repeated(have, want) for have, want in pairs]
    if None in repeats:
        return None
    if not any(repeats):
        return x
    times: list[Value] = []
    end = -ahead
    for again, group in itertools.groupby(repeats):
        start, end = end, end + len(list(group))
        whole = (start, end) == (0, len(goal))
        if not again:
            times.append(op.const([1] * (end - start)))
        else:
            times.append(shape if whole else part(op, shape, start, end))
    return op.Tile(x, op.Concat(*times, axis=0) if len(times) > 1 else times[0])


def _is_repeated(have: int | str | None, want: int | str | None) -> bool | None:
    """Returns whether an axis of size `have` repeats to size `want`, or None if that is unknown."""
    if have == 1:
        return want != 1
    if isinstance(have, int) or want == 1 or (have is not None and have == want):
        return False
    return None

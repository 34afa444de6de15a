# SPDX-License-Identifier: Apache-2.0
"""Derives sets of inputs for examples: ordinary values and edge cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from opshift.opsets.elements import T
from opshift.protos import ModelProto
from opshift.verify import hints, oracle

SIZES: Mapping[str, tuple[int, ...]] = {"empty": (0,), "one": (1,), "other": (5, 1, 3)}
"""Sets that give other sizes to the symbolic dimensions."""

VALUES = (
    *("negative", "ties", "repeated", "largest", "beyond", "extreme", "zeros"),
    *("infinite", "nan"),
)
"""Sets that change elements of the inputs."""

SETS = ("given", *SIZES, *VALUES)
OPEN = ("infinite", "nan")
"""Sets on which results may differ by rules 2 to 4 of decision 0005."""

_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)))
_Draw = np.random.Generator


def input_sets(
    model: ModelProto, given: Mapping[str, Any], names: Sequence[str] = SETS
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the sets of inputs by name; skips sets that would equal the set `given`."""
    for name in names:
        feeds = _resized(model, given, name) if name in SIZES else _changed(model, given, name)
        if feeds is not None:
            yield name, feeds


def _resized(model: ModelProto, given: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Returns inputs with other sizes of symbolic dimensions; `other` also changes numbers."""
    copy = ModelProto()
    copy.CopyFrom(model)
    fixed = {dim.dim_param for info in model.graph.input if info.name in given
             for dim in info.type.tensor_type.shape.dim}  # fmt: skip
    sizes: dict[str, int] = {}
    changed = name == "other" and any(info.name not in given for info in model.graph.input)
    for info in copy.graph.input:
        for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if dim.dim_param and dim.dim_param not in fixed:
                choice = SIZES[name]
                size = sizes.setdefault(dim.dim_param, choice[len(sizes) % len(choice)])
                dim.dim_value, changed = size, True
    if not changed:
        return None
    feeds = oracle.make_inputs(copy, seed=int(name == "other"), overrides=dict(given))
    return divisible(model, feeds)


def _changed(model: ModelProto, given: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Returns inputs with elements of a set of edge cases; None if no input can have them."""
    feeds = oracle.make_inputs(model, overrides=dict(given))
    if name == "given":  # exactly the inputs of the example
        return feeds
    changed = False
    for key, value in feeds.items():
        edged = _edged(value, name, key in given)
        if edged is not None:
            feeds[key], changed = edged, True
    return divisible(model, feeds) if changed else None


def divisible(model: ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """Replaces integer divisors of 0 by 1, because no operator defines such a quotient."""
    for name, kinds in hints.hints(model).items():
        value = feeds.get(name)
        divides = any(kind.kind == "nonzero" for kind in kinds)
        if divides and isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            feeds[name] = np.where(value == 0, value.dtype.type(1), value)
    return feeds


def _edged(value: Any, name: str, given: bool) -> Any:
    """Returns a value whose elements belong to the set; None if its type has no such elements.

    An integer in the example is often a size or an axis, for which only -1 and 0 are always legal.
    """
    if isinstance(value, list):
        items = [_edged(item, name, given) for item in value]
        return None if not items or any(item is None for item in items) else items
    if not isinstance(value, np.ndarray) or value.size == 0:
        return None
    draw = np.random.default_rng(1)
    if value.dtype.kind in "iu":
        rule = _INTEGERS.get(name)
        return None if rule is None or (given and name != "repeated") else rule(value, draw)
    if value.dtype in _FLOATS:
        real = _REALS.get(name)
        return None if real is None else real(value, draw)
    if value.dtype.kind == "O" and name == "ties" and not given:
        return draw.choice(np.array(["a", "b"], object), value.shape)
    return None


def _drawn(*numbers: float) -> Callable[[Any, _Draw], Any]:
    """Returns a function that fills an array with a random choice of these numbers."""
    return lambda value, draw: draw.choice(np.array(numbers), value.shape).astype(value.dtype)


def _sprinkled(*numbers: float) -> Callable[[Any, _Draw], Any]:
    """Returns a function that replaces some elements of an array by these numbers."""

    def sprinkle(value: Any, draw: _Draw) -> Any:
        places = draw.random(value.shape) < 0.4
        places.flat[draw.integers(value.size)] = True
        return np.where(places, _drawn(*numbers)(value, draw), value).astype(value.dtype)

    return sprinkle


def _extreme(value: Any, draw: _Draw) -> Any:
    limits: Any = ml_dtypes.finfo(value.dtype)  # type: ignore[no-untyped-call]
    numbers = float(limits.tiny), -float(limits.eps), 30.0, -30.0, 0.0, -0.0
    return _sprinkled(*numbers)(value, draw)


def _negative(value: Any, draw: _Draw) -> Any:
    """Makes all numbers negative; a NaN stays, because the sign of a NaN has no meaning."""
    return np.where(np.isnan(value), value, -np.abs(value) - value.dtype.type(0.25))


def _largest(value: Any, draw: _Draw) -> Any:
    limits = np.iinfo(value.dtype)
    edges = [limits.min, limits.max, limits.max - 1, 0, 1, limits.max // 2 + 1]
    return draw.choice(np.array(edges, value.dtype), value.shape)


def _beyond(value: Any, draw: _Draw) -> Any:
    """Returns integers that the floating-point type of half the precision would round."""
    bits = {4: T.FLOAT.fraction.bits, 8: T.DOUBLE.fraction.bits}.get(value.dtype.itemsize)
    if bits is None:
        return None
    edges = [2**bits + 1, 2**bits + 3, 2**bits - 1, 2**bits]
    edges += [] if value.dtype.kind == "u" else [-(2**bits) - 1, -(2**bits) - 3]
    return draw.choice(np.array(edges, value.dtype), value.shape)


def _below_zero(value: Any, draw: _Draw) -> Any:
    return None if value.dtype.kind == "u" else -np.abs(value) - value.dtype.type(1)


def _places(value: Any, draw: _Draw) -> Any:
    return None if value.dtype.kind == "u" else _drawn(-1, 0)(value, draw)


_INTEGERS: Mapping[str, Callable[[Any, _Draw], Any]] = {
    "negative": _below_zero,
    "ties": _drawn(0, 1),
    "repeated": _places,
    "largest": _largest,
    "beyond": _beyond,
}
_REALS: Mapping[str, Callable[[Any, _Draw], Any]] = {
    "negative": _negative,
    "ties": _drawn(-1.0, 0.0, 1.0),
    "extreme": _extreme,
    "zeros": _drawn(0.0, -0.0),
    "infinite": _sprinkled(np.inf, -np.inf),
    "nan": _sprinkled(np.nan),
}

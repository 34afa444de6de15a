# SPDX-License-Identifier: Apache-2.0
"""Implements GridSample and AffineGrid: interpolation at given positions."""

from itertools import product

import numpy as np

from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import OracleError, wide

_OLD_NAMES = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}
_NAMES = ("linear", "cubic", "nearest")


@kernel("GridSample")
def grid_sample(call: Call, x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """GridSample pads each neighbour; onnx.reference clamps instead, and lacks version 16."""
    mode = call["mode"] if call.since >= 20 else _OLD_NAMES.get(call["mode"])
    if mode not in _NAMES or (call.since < 20 and x.ndim != 4):
        raise OracleError(f"GridSample-{call.since}: mode {call['mode']!r}, rank {x.ndim}")
    rank = x.ndim - 2
    data = x if mode == "nearest" else wide(x)
    places = wide(grid).astype(np.float64 if x.dtype == np.float64 else np.float32)
    axes = [
        _taps(places[..., rank - 1 - axis], x.shape[2 + axis], mode, call) for axis in range(rank)
    ]
    batch = np.arange(x.shape[0]).reshape((-1,) + (1,) * rank)
    channels_last = np.moveaxis(data, 1, -1)
    y = np.zeros((*grid.shape[:-1], x.shape[1]), dtype=data.dtype)
    for taps in product(*axes):
        weight = np.ones(grid.shape[:-1], dtype=places.dtype)
        for _, part in taps:
            weight = weight * part
        picked = channels_last[(batch, *(index for index, _ in taps))]
        if mode == "nearest":
            y = np.where(weight[..., None] == 0, y, picked)
        else:
            y = y + np.where(weight[..., None] == 0, 0, picked * weight[..., None])
    return np.moveaxis(y, -1, 1).astype(x.dtype)


@kernel("AffineGrid")
def affine_grid(call: Call, theta: np.ndarray, size: np.ndarray) -> np.ndarray:
    """onnx.reference for AffineGrid returns float32 for every type, and fails for a size of 1."""
    spatial = size[2:].tolist()
    if call["align_corners"]:
        if 1 in spatial:
            raise OracleError("AffineGrid: align_corners needs sizes above 1")
        lines = [2 * np.arange(n) / (n - 1) - 1 for n in spatial]
    else:
        lines = [(2 * np.arange(n) + 1) / n - 1 for n in spatial]
    base = np.meshgrid(*lines, indexing="ij")[::-1]
    places = np.stack([*base, np.ones(spatial)], axis=-1)
    moved = places.reshape(1, -1, len(spatial) + 1) @ np.swapaxes(wide(theta), 1, 2)
    return moved.reshape(len(theta), *spatial, len(spatial)).astype(theta.dtype)


def _taps(
    place: np.ndarray, size: int, mode: str, call: Call
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the index and weight of every interpolated element along one axis."""
    half = place.dtype.type(2)
    if call["align_corners"]:
        at = (place + 1) / half * (size - 1)
        low, high = 0.0, size - 1.0
    else:
        at = ((place + 1) * size - 1) / half
        low, high = -0.5, size - 0.5
    base = np.rint(at) if mode == "nearest" else np.floor(at)
    off = at - base
    if mode == "nearest":
        weights = [np.ones_like(off)]
    elif mode == "linear":
        weights = [1 - off, off]
    else:
        weights = [_outer(off + 1), _inner(off), _inner(1 - off), _outer(2 - off)]
        base = base - 1
    taps = []
    for step, weight in enumerate(weights):
        index = base + step
        if call["padding_mode"] == "zeros":
            weight = np.where((index >= 0) & (index < size), weight, 0)
        elif call["padding_mode"] == "reflection":
            index = _reflected(index, low, high)
        taps.append((np.clip(index, 0, size - 1).astype(int), weight))
    return taps


def _reflected(index: np.ndarray, low: float, high: float) -> np.ndarray:
    span = high - low
    if span == 0:
        return np.zeros_like(index)
    turned = np.mod(index - low, 2 * span)
    return low + np.where(turned > span, 2 * span - turned, turned)


def _inner(t: np.ndarray) -> np.ndarray:
    a = t.dtype.type(-0.75)
    return ((a + 2) * t - (a + 3)) * t * t + 1


def _outer(t: np.ndarray) -> np.ndarray:
    a = t.dtype.type(-0.75)
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

# SPDX-License-Identifier: Apache-2.0
"""Implements DeformConv: a convolution that reads its input at shifted, fractional positions."""

from itertools import product

import numpy as np

from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import OracleError, Value, wide


@kernel("DeformConv")
def deform_conv(
    call: Call, x: np.ndarray, w: np.ndarray, offset: np.ndarray, *more: Value
) -> np.ndarray:
    """onnx.reference for DeformConv divides by size - 1, and uses float32 positions."""
    if x.ndim != 4:
        raise OracleError("DeformConv: only two spatial axes are supported")
    bias, mask = (*more, None, None)[:2]
    kernel_shape, (n, channels), outputs = w.shape[2:], x.shape[:2], w.shape[0]
    strides, dilations = call["strides"] or [1, 1], call["dilations"] or [1, 1]
    pads, group, shifted = call["pads"] or [0] * 4, call["group"], call["offset_group"]
    rows, columns = offset.shape[2:]
    data, moved = wide(x), wide(offset).reshape(n, shifted, *kernel_shape, 2, rows, columns)
    taps = np.empty((n, channels, *kernel_shape, rows, columns), data.dtype)
    for b, c, i, j in product(range(n), range(channels), *map(range, kernel_shape)):
        where = moved[b, c * shifted // channels, i, j]
        y = np.arange(rows)[:, None] * strides[0] - pads[0] + i * dilations[0] + where[0]
        z = np.arange(columns) * strides[1] - pads[1] + j * dilations[1] + where[1]
        taps[b, c, i, j] = _between(data[b, c], y, z)
    if mask is not None:
        shares = wide(mask).reshape(n, shifted, *kernel_shape, rows, columns)
        taps *= np.repeat(shares, channels // shifted, axis=1)
    inner, share = w.shape[1], outputs // group
    results = []
    for g in range(group):
        group_weights, read = (
            wide(w)[g * share : (g + 1) * share],
            taps[:, g * inner : (g + 1) * inner],
        )
        results.append(np.einsum("ocij,bcijyz->boyz", group_weights, read))
    result = np.concatenate(results, axis=1)
    if bias is not None:
        result = result + wide(bias).reshape(1, -1, 1, 1)
    return result.astype(x.dtype)


def _between(plane: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Reads a plane at fractional positions by linear interpolation; values outside are zero."""
    total = np.zeros(np.broadcast_shapes(y.shape, z.shape), plane.dtype)
    low = np.floor(y), np.floor(z)
    for down, right in product((0, 1), (0, 1)):
        row, column = low[0] + down, low[1] + right
        inside = (row >= 0) & (row < plane.shape[0]) & (column >= 0) & (column < plane.shape[1])
        weight = (1 - np.abs(y - row)) * (1 - np.abs(z - column))
        index = (np.where(inside, at, 0).astype(int) for at in (row, column))
        picked = plane[tuple(index)]
        total += np.where(inside, picked * weight, 0).astype(plane.dtype)
    return total

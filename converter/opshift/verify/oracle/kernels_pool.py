# SPDX-License-Identifier: Apache-2.0
"""Implements pooling and convolution over any number of spatial axes."""

from collections.abc import Sequence

import numpy as np

from opshift.records import dataclass
from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import OracleError, wide


@dataclass(frozen=True, slots=True)
class Windows:
    """The positions that the windows cover on one spatial axis, as an array [outputs, kernel]."""

    positions: np.ndarray
    size: int
    end: int
    """The first position after the padding at the end of the axis."""

    @property
    def inside(self) -> np.ndarray:
        """A mask of the positions that are inside the axis."""
        return (self.positions >= 0) & (self.positions < self.size)


def _attribute(call: Call, name: str, rank: int, default: int) -> list[int]:
    values = call[name] or [default] * rank
    if len(values) != rank:
        raise OracleError(f"{call.op}-{call.since}: {name} has {len(values)} entries, not {rank}")
    return list(values)


def _pads(call: Call, rank: int) -> list[int]:
    pads = call["pads"]
    if pads is None or call["auto_pad"] == "VALID":
        return [0] * (2 * rank)
    if len(pads) != 2 * rank:
        raise OracleError(
            f"{call.op}-{call.since}: pads has the wrong number of entries, {len(pads)}"
        )
    return list(pads)


def windows(call: Call, sizes: Sequence[int], kernel_shape: Sequence[int]) -> list[Windows]:
    """Returns the windows of each spatial axis, except windows that start in the end padding."""
    rank = len(sizes)
    strides = _attribute(call, "strides", rank, 1)
    dilations = _attribute(call, "dilations", rank, 1)
    pads = _pads(call, rank)
    result = []
    for axis, size in enumerate(sizes):
        stride, step = strides[axis], dilations[axis]
        span = (kernel_shape[axis] - 1) * step + 1
        begin, end = pads[axis], pads[axis + rank]
        if call["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
            count = -(-size // stride)
            total = max((count - 1) * stride + span - size, 0)
            less, more = total // 2, total - total // 2
            begin, end = (less, more) if call["auto_pad"] == "SAME_UPPER" else (more, less)
        else:
            room = size + begin + end - span
            count = (-(-room // stride) if call["ceil_mode"] else room // stride) + 1
            if call["ceil_mode"] and (count - 1) * stride >= size + begin:
                count -= 1
        if count <= 0:
            raise OracleError(f"{call.op}-{call.since}: a window is larger than its axis")
        starts = np.arange(count)[:, None] * stride - begin
        offsets = np.arange(kernel_shape[axis])[None] * step
        result.append(Windows(starts + offsets, size, size + end))
    return result


def gathered(x: np.ndarray, places: Sequence[Windows], filler: float) -> np.ndarray:
    """Gathers windows of x[N, C, spatial] as [N, C, outputs..., window]; padding is `filler`."""
    rank = len(places)
    for axis, place in enumerate(places):
        at = 2 + 2 * axis
        clipped = np.clip(place.positions, 0, max(place.size - 1, 0))
        x = np.take(x, clipped, axis=at)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    x = x.transpose(order)
    inside = combined([place.inside for place in places])
    return np.where(inside, x.reshape(*x.shape[: 2 + rank], -1), np.array(filler, dtype=x.dtype))


def combined(masks: Sequence[np.ndarray]) -> np.ndarray:
    """Combines a mask [outputs, kernel] per axis into one mask [outputs..., kernel positions]."""
    rank = len(masks)
    result = np.ones((1,) * (2 * rank), dtype=bool)
    for axis, mask in enumerate(masks):
        shape = [1] * (2 * rank)
        shape[axis], shape[axis + rank] = mask.shape
        result = result & mask.reshape(shape)
    return result.reshape(*result.shape[:rank], -1)


def _kernel_shape(call: Call, x: np.ndarray) -> list[int]:
    shape = call["kernel_shape"]
    if shape is None or len(shape) != x.ndim - 2:
        raise OracleError(
            f"{call.op}-{call.since}: kernel_shape {shape} does not fit an input of rank {x.ndim}"
        )
    return list(shape)


def _added(x: np.ndarray) -> np.ndarray:
    """Sums over the last axis in order, so that zeros in between do not change the rounding."""
    total = np.zeros(x.shape[:-1], dtype=x.dtype)
    for index in range(x.shape[-1]):
        total = total + x[..., index]
    return total


@kernel("AveragePool")
def average_pool(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference for AveragePool fails for ceil_mode with dilations, and is slow in 3-D."""
    places = windows(call, x.shape[2:], _kernel_shape(call, x))
    total = _added(gathered(wide(x), places, 0.0))
    if call["count_include_pad"]:
        counted = [place.positions < place.end for place in places]
    else:
        counted = [place.inside for place in places]
    count = combined(counted).sum(axis=-1).astype(total.dtype)
    with np.errstate(all="ignore"):
        return (total / count).astype(x.dtype)


@kernel("MaxPool")
def max_pool(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """onnx.reference for MaxPool ignores end pads with indices, and rejects some shapes."""
    places = windows(call, x.shape[2:], _kernel_shape(call, x))
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    data = gathered(x, places, lowest)
    inside = combined([place.inside for place in places])
    reachable = np.where(inside, wide(data).astype(np.float64), -np.inf)
    best = np.where(inside.any(axis=-1), reachable.argmax(axis=-1), 0)
    values = np.take_along_axis(data, best[..., None], axis=-1)[..., 0]
    if not call.wants(1):
        return (values,)
    return values, _flat_index(call, x.shape, places, best)


def _flat_index(
    call: Call, shape: tuple[int, ...], places: Sequence[Windows], best: np.ndarray
) -> np.ndarray:
    """Returns positions in the flattened input; storage_order 1 counts columns first."""
    rank, spatial = len(places), shape[2:]
    kernel_sizes = [place.positions.shape[1] for place in places]
    picked = np.unravel_index(best, kernel_sizes)
    result = np.zeros(best.shape, dtype=np.int64)
    for axis, place in enumerate(places):
        outputs = np.arange(place.positions.shape[0]).reshape(
            [-1 if a == axis else 1 for a in range(rank)]
        )
        earlier = spatial[:axis] if call["storage_order"] else spatial[axis + 1 :]
        result += place.positions[outputs, picked[axis]] * int(np.prod(earlier, dtype=int))
    planes = np.arange(shape[0] * shape[1]).reshape(shape[:2] + (1,) * rank)
    return result + planes * int(np.prod(spatial, dtype=int))


def _power_mean(x: np.ndarray, p: float) -> np.ndarray:
    powers = np.abs(x) if p == 1 else np.abs(x) ** np.array(p, dtype=x.dtype)
    total = _added(powers)
    return total if p == 1 else total ** np.array(1 / p, dtype=x.dtype)


@kernel("LpPool")
def lp_pool(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference for LpPool fails for ceil_mode with dilations, and is slow in 3-D."""
    data = gathered(wide(x), windows(call, x.shape[2:], _kernel_shape(call, x)), 0.0)
    return _power_mean(data, call["p"]).astype(x.dtype)


@kernel("GlobalMaxPool")
def global_max_pool(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx's reference for GlobalMaxPool reduces other axes unless the rank is 4."""
    return x.max(tuple(range(2, x.ndim)), keepdims=True)


@kernel("GlobalLpPool")
def global_lp_pool(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx's reference does not implement GlobalLpPool."""
    flat = wide(x).reshape(*x.shape[:2], -1)
    return _power_mean(flat, call["p"]).astype(x.dtype).reshape(x.shape[:2] + (1,) * (x.ndim - 2))


def _sharp(x: np.ndarray) -> np.ndarray:
    """Converts to double, in which the order of a sum hardly matters before the final rounding."""
    return x.astype(np.float64)


def _with_bias(y: np.ndarray, bias: np.ndarray | None, dtype: np.dtype) -> np.ndarray:
    if bias is not None:
        y = y + _sharp(bias).reshape((-1,) + (1,) * (y.ndim - 2))
    return y.astype(dtype)


@kernel("Conv")
def conv(call: Call, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Conv sums in double and rounds once, because onnx's reference adds in another order."""
    group = call["group"]
    if x.shape[1] != w.shape[1] * group or w.shape[0] % group:
        raise OracleError(f"Conv: {x.shape[1]} channels, weights {w.shape}, group {group}")
    if call["kernel_shape"] not in (None, list(w.shape[2:])):
        raise OracleError(f"Conv: kernel_shape {call['kernel_shape']}, weights {w.shape}")
    data = gathered(_sharp(x), windows(call, x.shape[2:], w.shape[2:]), 0.0)
    outputs = data.shape[2:-1]
    data = np.moveaxis(data.reshape(x.shape[0], group, -1, *data.shape[2:]), 2, -2)
    data = data.reshape(x.shape[0], group, int(np.prod(outputs)), int(np.prod(w.shape[1:])))
    weights = _sharp(w).reshape(group, -1, data.shape[-1])
    y = (data @ weights.swapaxes(1, 2)).swapaxes(2, 3)
    return _with_bias(y.reshape(x.shape[0], w.shape[0], *outputs), bias, x.dtype)


@kernel("ConvTranspose")
def conv_transpose(
    call: Call, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    """ConvTranspose sums in double and rounds once; onnx's reference fails for some groups."""
    rank, group = x.ndim - 2, call["group"]
    if x.shape[1] != w.shape[0] or x.shape[1] % group:
        raise OracleError(f"ConvTranspose: {x.shape[1]} channels, weights {w.shape}")
    strides = _attribute(call, "strides", rank, 1)
    dilations = _attribute(call, "dilations", rank, 1)
    extra = _attribute(call, "output_padding", rank, 0)
    pads = _pads(call, rank)
    output_sizes = call["output_shape"]
    if output_sizes is None and call["auto_pad"].startswith("SAME"):
        output_sizes = [size * stride for size, stride in zip(x.shape[2:], strides, strict=True)]
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    full = [
        (size - 1) * stride + span + more
        for size, stride, span, more in zip(x.shape[2:], strides, spans, extra, strict=True)
    ]
    if output_sizes is not None:
        for axis, size in enumerate(output_sizes[-rank:]):
            full[axis] = max(full[axis], size)
            total = full[axis] - size
            less, more = total // 2, total - total // 2
            upper = call["auto_pad"] == "SAME_UPPER"
            pads[axis], pads[axis + rank] = (less, more) if upper else (more, less)
    grouped = _sharp(x).reshape(x.shape[0], group, -1, *x.shape[2:])
    weights = _sharp(w).reshape(group, -1, *w.shape[1:])
    y = np.zeros((x.shape[0], group, w.shape[1], *full))
    for place in np.ndindex(*w.shape[2:]):
        part = np.einsum("ngc...,gco->ngo...", grouped, weights[(..., *place)])
        into = tuple(
            slice(at * dilation, at * dilation + (size - 1) * stride + 1, stride)
            for at, dilation, size, stride in zip(
                place, dilations, x.shape[2:], strides, strict=True
            )
        )
        y[(..., *into)] += part
    cut = tuple(slice(pads[a], full[a] - pads[a + rank]) for a in range(rank))
    y = y[(..., *cut)]
    return _with_bias(y.reshape(x.shape[0], -1, *y.shape[3:]), bias, x.dtype)

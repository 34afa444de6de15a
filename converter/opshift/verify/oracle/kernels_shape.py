# SPDX-License-Identifier: Apache-2.0
"""Implements operators that move elements: reshape, split, slice, pad, tile, squeeze, upsample."""

from collections.abc import Sequence

import numpy as np

from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import OracleError


@kernel("Reshape", until=4)
def reshape_attribute(call: Call, x: np.ndarray) -> np.ndarray:
    """In Reshape-1 the shape is an attribute; onnx's reference does not implement this version."""
    if call["shape"] is None:
        raise OracleError("Reshape-1 needs attribute 'shape'")
    return reshape(x, call["shape"])


def reshape(x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Reshapes x; a size of 0 copies the size of x, and one size may be -1, which is inferred."""
    if any(size == 0 and place >= x.ndim for place, size in enumerate(shape)):
        raise OracleError(f"Reshape-1: a size of 0 copies an axis that {x.shape} lacks")
    return x.reshape([x.shape[place] if size == 0 else size for place, size in enumerate(shape)])


@kernel("Flatten")
def flatten(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference for Flatten rejects empty tensors."""
    axis = call["axis"]
    if not (-x.ndim if call.since >= 11 else 0) <= axis <= x.ndim:
        raise OracleError(f"Flatten-{call.since}: axis {axis} of rank {x.ndim}")
    split = axis + x.ndim if axis < 0 else axis
    return x.reshape([int(np.prod(sizes)) for sizes in (x.shape[:split], x.shape[split:])])


@kernel("Shape", since=15)
def shape_part(call: Call, x: np.ndarray) -> np.ndarray:
    """A Shape `end` before axis 0 means axis 0; onnx.reference counts from the last axis."""
    return np.array(x.shape[call["start"] : call["end"]], dtype=np.int64)


@kernel("Concat", until=3)
def concat_first(call: Call, *values: np.ndarray) -> np.ndarray:
    """In Concat-1 an absent axis means 1, but onnx's reference requires the attribute."""
    return np.concatenate(values, axis=1 if call["axis"] is None else call["axis"])


@kernel("Split", until=1)
def split_first(
    call: Call, x: np.ndarray, lengths: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    """In Split-1 the lengths may be an input of the data's type; the default axis is undefined."""
    if call["axis"] is None and x.ndim != 1:
        raise OracleError("Split-1: the default of 'axis' is undefined")
    sizes = call["split"] if lengths is None else [int(size) for size in lengths]
    return _split(call, x, sizes, call["axis"] or 0)


@kernel("Split", since=2, until=12)
def split_attribute(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """onnx.reference for Split-2 accepts uneven parts and lengths with a wrong sum."""
    return _split(call, x, call["split"], call["axis"])


@kernel("Split", since=13, until=17)
def split_input(
    call: Call, x: np.ndarray, lengths: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    """onnx.reference for Split-13 accepts uneven parts and lengths with a wrong sum."""
    return _split(call, x, None if lengths is None else lengths.tolist(), call["axis"])


@kernel("Split", since=18)
def split_counted(
    call: Call, x: np.ndarray, lengths: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    """In Split-18, only the last part may be smaller; onnx.reference allows negative sizes."""
    count = call["num_outputs"]
    if (count is None) == (lengths is None):
        raise OracleError("Split-18 takes exactly one of 'split' and 'num_outputs'")
    if lengths is not None:
        return _split(call, x, lengths.tolist(), call["axis"])
    if count != len(call.node.output):
        raise OracleError("Split-18: num_outputs differs from the number of outputs")
    size = x.shape[call["axis"]]
    chunk = -(-size // count)
    sizes = [chunk] * (count - 1) + [size - chunk * (count - 1)]
    return _split(call, x, sizes, call["axis"])


def _split(
    call: Call, x: np.ndarray, sizes: Sequence[int] | None, axis: int
) -> tuple[np.ndarray, ...]:
    count, size = len(call.node.output), x.shape[axis]
    if sizes is None:
        if size % count:
            raise OracleError(f"Split-{call.since}: {size} is not divisible into {count} parts")
        sizes = [size // count] * count
    if len(sizes) != count or sum(sizes) != size or min(sizes) < 0:
        raise OracleError(f"Split-{call.since}: the lengths {list(sizes)} do not divide {size}")
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=axis))


@kernel("Slice", until=9)
def slice_attributes(call: Call, x: np.ndarray) -> np.ndarray:
    """All versions of Slice share this arithmetic; absent axes mean the first axes."""
    starts, ends = call["starts"], call["ends"]
    axes = call["axes"] if call["axes"] is not None else list(range(len(starts)))
    return _slice(call, x, starts, ends, axes, [1] * len(starts))


@kernel("Slice", since=10)
def slice_inputs(
    call: Call,
    x: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> np.ndarray:
    """onnx.reference for Slice loses an element if a negative step starts before the axis."""
    places = list(range(len(starts))) if axes is None else axes.tolist()
    if call.since < 11 and min(places, default=0) < 0:
        raise OracleError("Slice-10: a negative axis is legal only from opset 11 on")
    strides = [1] * len(starts) if steps is None else steps.tolist()
    return _slice(call, x, starts.tolist(), ends.tolist(), places, strides)


def _slice(
    call: Call,
    x: np.ndarray,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
) -> np.ndarray:
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise OracleError(f"Slice-{call.since}: starts, ends, axes, steps differ in length")
    if len({axis % x.ndim for axis in axes}) != len(axes):
        raise OracleError(f"Slice-{call.since}: an axis occurs twice")
    cut = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not -x.ndim <= axis < x.ndim or step == 0:
            raise OracleError(f"Slice-{call.since}: axis {axis}, step {step}")
        size = x.shape[axis]
        low, high = (0, size) if step > 0 else (-1, size - 1)
        begin = min(max(start + size if start < 0 else start, low if step > 0 else 0), high)
        stop = min(max(end + size if end < 0 else end, low), high)
        cut[axis] = slice(max(begin, 0), None if stop < 0 else stop, step)
        if begin < 0 or (step < 0 and begin <= stop):
            cut[axis] = slice(0, 0)
    return x[tuple(cut)]


@kernel("Tile", until=5)
def tile_one_axis(call: Call, x: np.ndarray, tiles: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """In Tile-1, count and axis are inputs for one axis; onnx's reference starts at version 6."""
    if tiles.size != 1 or axis.size != 1:
        raise OracleError("Tile-1: tiles and axis must be scalars")
    repeats = [1] * x.ndim
    repeats[int(axis.item())] = int(tiles.item())
    return np.tile(x, repeats)


@kernel("Tile", since=6)
def tile(call: Call, x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    """Tile needs one repeat for each axis, but onnx's reference accepts any number of repeats."""
    if len(repeats) != x.ndim:
        raise OracleError(f"Tile-{call.since}: {len(repeats)} repeats do not fit rank {x.ndim}")
    return np.tile(x, repeats.tolist())


@kernel("Squeeze", until=12)
def squeeze_attribute(call: Call, x: np.ndarray) -> np.ndarray:
    """An empty list of Squeeze axes means all axes in runtimes, and none in onnx's reference."""
    return x.squeeze(tuple(call["axes"]) if call["axes"] else None)


@kernel("Unsqueeze", until=12)
def unsqueeze_attribute(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference for Unsqueeze inserts axes in turn, which is wrong for unsorted axes."""
    return np.expand_dims(x, tuple(call["axes"]))


@kernel("Pad", until=1)
def pad_first(call: Call, x: np.ndarray) -> np.ndarray:
    """In Pad-1, `paddings` lists the begins of all axes and then the ends, as the schema states."""
    return pad(x, call["paddings"], list(range(x.ndim)), call["mode"], call["value"])


@kernel("Pad", since=2, until=10)
def pad_attributes(call: Call, x: np.ndarray) -> np.ndarray:
    """In Pad-2, negative pads remove elements, but onnx's reference rejects them."""
    return pad(x, call["pads"], list(range(x.ndim)), call["mode"], call["value"])


@kernel("Pad", since=11)
def pad_inputs(
    call: Call,
    x: np.ndarray,
    pads: np.ndarray,
    value: np.ndarray | None = None,
    axes: np.ndarray | None = None,
) -> np.ndarray:
    """In Pad-11, negative pads remove elements, but onnx.reference rejects them."""
    if call["mode"] == "wrap" and call.since < 19:
        raise OracleError("Pad: mode wrap is legal only from opset 19 on")
    places = list(range(x.ndim)) if axes is None else [int(axis) % x.ndim for axis in axes]
    filler = None if value is None else value.item()
    return pad(x, pads.tolist(), places, call["mode"], filler)


def pad(
    x: np.ndarray, pads: Sequence[int], axes: Sequence[int], mode: str, value: object
) -> np.ndarray:
    """Adds elements for positive pads, and removes elements for negative pads.

    In mode constant, a negative pad can also remove elements that were added at the other end.
    """
    if len(pads) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise OracleError(f"Pad: {len(pads)} pads do not fit {len(axes)} axes")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise OracleError(f"Pad: mode {mode!r}")
    for place, axis in enumerate(axes):
        begin, end = int(pads[place]), int(pads[place + len(axes)])
        if x.shape[axis] + begin + end < 0:
            raise OracleError(
                f"Pad: the pads {begin} and {end} remove more than all {x.shape[axis]} elements"
            )
        turned = np.moveaxis(x, axis, 0)
        if mode == "constant":
            turned = _filled(turned, begin, end, value)
        else:
            turned = _repeated(turned, begin, end, mode)
        x = np.moveaxis(turned, 0, axis)
    return x


def _filled(x: np.ndarray, begin: int, end: int, value: object) -> np.ndarray:
    index = np.arange(-begin, len(x) + end)
    if value is None:
        value = "" if x.dtype == object else 0
    padded = np.full((len(index), *x.shape[1:]), value, dtype=x.dtype)
    inside = (index >= 0) & (index < len(x))
    padded[inside] = x[index[inside]]
    return padded


def _repeated(x: np.ndarray, begin: int, end: int, mode: str) -> np.ndarray:
    """Removes elements for negative pads, then repeats the rest for positive pads."""
    x = x[max(-begin, 0) : max(len(x) + min(end, 0), 0)]
    size, before, after = len(x), max(begin, 0), max(end, 0)
    if size == 0 and before + after:
        raise OracleError(f"Pad: mode {mode} of an empty axis")
    index = np.arange(-before, size + after)
    if mode == "edge":
        index = np.clip(index, 0, size - 1)
    elif mode == "wrap":
        index = index % size
    elif max(before, after) >= size > 0:
        raise OracleError(f"Pad: an axis of {size} cannot reflect {max(before, after)} elements")
    else:
        index = (size - 1) - np.abs((size - 1) - np.abs(index))
    return x[index]


@kernel("Upsample", until=6)
def upsample_first(call: Call, x: np.ndarray) -> np.ndarray:
    """Upsample-1 has two factors for four axes; onnx.reference starts at version 9."""
    if x.ndim != 4:
        raise OracleError("Upsample-1: the input must be 4-D")
    scales = [1.0, 1.0, call["height_scale"], call["width_scale"]]
    return upsample(x, scales, "linear" if call["mode"] == "bilinear" else call["mode"])


@kernel("Upsample", since=7, until=8)
def upsample_attribute(call: Call, x: np.ndarray) -> np.ndarray:
    """In Upsample-7, the factors are an attribute; onnx's reference starts at version 9."""
    return upsample(x, call["scales"], call["mode"])


@kernel("Upsample", since=9, until=9)
def upsample_input(call: Call, x: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Upsample-9 computes like Resize-10, so both share one implementation."""
    return upsample(x, scales.tolist(), call["mode"])


@kernel("Resize", until=10)
def resize_first(call: Call, x: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Resize-10 with nearest rounds positions down to enlarge an axis, and up to shrink it."""
    return _scaled(x, scales.tolist(), call["mode"])


def upsample(x: np.ndarray, scales: Sequence[float], mode: str) -> np.ndarray:
    """Enlarges each axis by a factor of at least 1."""
    if min(scales) < 1:
        raise OracleError("Upsample: a factor is below 1")
    return _scaled(x, scales, mode)


def _scaled(x: np.ndarray, scales: Sequence[float], mode: str) -> np.ndarray:
    if len(scales) != x.ndim or mode not in ("nearest", "linear"):
        raise OracleError(
            f"Resize: {len(scales)} factors of mode {mode!r} do not fit rank {x.ndim}"
        )
    if mode == "linear" and x.dtype.kind in "iu":  # rounded as in onnx.reference for Resize-11
        return np.rint(_scaled(x.astype(np.float64), scales, mode)).astype(x.dtype)
    for axis, scale in enumerate(np.asarray(scales, dtype=np.float32)):
        size = x.shape[axis]
        if scale == 1:
            continue
        place = np.arange(int(np.floor(np.float32(size) * scale)), dtype=np.float32) / scale
        if mode == "nearest":
            index = np.floor(place) if scale > 1 else np.ceil(place)
            x = np.take(x, np.clip(index, 0, size - 1).astype(int), axis=axis)
            continue
        low = np.minimum(np.floor(place), size - 1).astype(int)
        shape = [-1 if a == axis else 1 for a in range(x.ndim)]
        weight = np.where(low == size - 1, 0, place - low).astype(x.dtype).reshape(shape)
        left = np.take(x, low, axis=axis)
        right = np.take(x, np.minimum(low + 1, size - 1), axis=axis)
        x = (left * (1 - weight) + right * weight).astype(x.dtype)
    return x

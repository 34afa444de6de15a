# SPDX-License-Identifier: Apache-2.0
"""Implements elementwise operators by the rules of opsets 1 to 6."""

from collections.abc import Callable

import ml_dtypes
import numpy as np

from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import OracleError, is_float


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Divides; the quotient of integers is truncated toward zero."""
    if np.issubdtype(a.dtype, np.integer):
        quotient = a // b
        return (quotient + ((a - quotient * b != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)
    return a / b


BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": divide,
    "Pow": np.power,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
}


def stretched(call: Call, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Shapes `b` for broadcasting to `a` by the rules of opset 1 to 6, or raises an error."""
    if not call["broadcast"]:
        if call["axis"] is not None:
            raise OracleError(f"{call.op}-{call.since}: axis without broadcast")
        if a.shape != b.shape:
            raise OracleError(f"{call.op}-{call.since}: {a.shape} and {b.shape} differ")
        return b
    if b.size == 1 and b.ndim <= a.ndim:
        return b.reshape(())
    start = a.ndim - b.ndim if call["axis"] is None else call["axis"]
    if start < 0 or a.shape[start : start + b.ndim] != b.shape:
        raise OracleError(
            f"{call.op}-{call.since}: the shape {b.shape} is not in {a.shape} from axis {start} on"
        )
    return b.reshape(b.shape + (1,) * (a.ndim - start - b.ndim))


@kernel("Add Sub Mul Div Pow And Or Xor Equal Greater Less", until=6)
def limited_binary(call: Call, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Opsets 1 to 6 broadcast only the second input, along a contiguous block of axes."""
    with np.errstate(all="ignore"):
        return np.asarray(BINARY[call.op](a, stretched(call, a, b)))


@kernel("Max Min Sum Mean", until=7)
def equal_shapes(call: Call, *values: np.ndarray) -> np.ndarray:
    """Max, Min, Sum and Mean do not broadcast before version 8."""
    if len({value.shape for value in values}) != 1:
        raise OracleError(f"{call.op}-{call.since}: shapes differ")
    fold = {"Max": np.maximum, "Min": np.minimum}.get(call.op, np.add)
    total = values[0]
    for value in values[1:]:
        total = fold(total, value)
    if call.op == "Mean":
        total = np.asarray(total / len(values)).astype(total.dtype)
    return np.asarray(total)


@kernel("PRelu", until=6)
def prelu_channel(call: Call, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Below PRelu-7, a slope of length C belongs to axis 1, and a single element to all axes."""
    if slope.size == 1:
        slope = slope.reshape(())
    elif slope.ndim == 1 and x.ndim >= 2 and slope.shape[0] == x.shape[1]:
        slope = slope.reshape((-1,) + (1,) * (x.ndim - 2))
    elif slope.shape != x.shape:
        raise OracleError(f"PRelu-{call.since}: slope {slope.shape} for {x.shape}")
    return np.where(x < 0, slope * x, x).astype(x.dtype)


@kernel("Gemm", until=6)
def gemm_limited(call: Call, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Gemm broadcasts C by the limited rules of opset 1 to 6."""
    product = (a.T if call["transA"] else a) @ (b.T if call["transB"] else b)
    if not call["broadcast"] and c.shape != product.shape:
        raise OracleError(
            f"Gemm-{call.since}: the shape of C is {c.shape}, but the product has {product.shape}"
        )
    if c.size == 1 and c.ndim <= 2:
        c = c.reshape(())
    elif product.shape[2 - c.ndim :] != c.shape:
        raise OracleError(
            f"Gemm-{call.since}: the shape {c.shape} of C does not broadcast to {product.shape}"
        )
    alpha, beta = (np.array(call[name], dtype=a.dtype) for name in ("alpha", "beta"))
    return np.asarray(product * alpha + c * beta).astype(a.dtype)


@kernel("Clip", until=10)
def clip_attributes(call: Call, x: np.ndarray) -> np.ndarray:
    """Clip-1 without bounds is unbounded; the bounds of Clip-6 are +-FLT_MAX by default."""
    low, high = call["min"], call["max"]
    with np.errstate(over="ignore"):
        if low is not None:
            x = np.maximum(x, np.array(low, dtype=np.float32).astype(x.dtype))
        if high is not None:
            x = np.minimum(x, np.array(high, dtype=np.float32).astype(x.dtype))
    return x


@kernel("Clip", since=11)
def clip(
    call: Call, x: np.ndarray, low: np.ndarray | None = None, high: np.ndarray | None = None
) -> np.ndarray:
    """The default bounds of Clip are the largest finite numbers; onnx's reference has none."""
    limits = ml_dtypes.finfo(x.dtype) if is_float(x.dtype) else np.iinfo(x.dtype)
    low = np.array(limits.min, dtype=x.dtype) if low is None else low
    high = np.array(limits.max, dtype=x.dtype) if high is None else high
    return np.minimum(np.maximum(x, low), high)


@kernel("Gather", until=10)
def gather_non_negative(call: Call, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Gather accepts negative indices only from version 11 on."""
    if indices.size and (indices.min() < 0 or indices.max() >= data.shape[call["axis"]]):
        raise OracleError(f"Gather-{call.since}: an index is out of range")
    return np.take(data, indices, axis=call["axis"])


@kernel("OneHot", until=10)
def one_hot_off(
    call: Call, indices: np.ndarray, depth: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """In OneHot-9, an index outside [0, depth) selects no element."""
    if call["axis"] < -1:
        raise OracleError("OneHot-9: before opset 11, the only legal negative axis is -1")
    axis = call["axis"] if call["axis"] >= 0 else indices.ndim
    count = int(np.asarray(depth).reshape(-1)[0])
    hot = np.expand_dims(indices.astype(np.int64), axis) == np.arange(count).reshape(
        (-1,) + (1,) * (indices.ndim - axis)
    )
    return np.where(hot, values[1], values[0]).astype(values.dtype)


@kernel("Scatter", until=10)
def scatter(call: Call, data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """onnx's reference does not implement Scatter, the earlier name of ScatterElements."""
    result = data.copy()
    axis = call["axis"] % data.ndim
    place = list(np.indices(indices.shape))
    place[axis] = indices
    result[tuple(place)] = updates
    return result


@kernel("Mean", since=8)
def mean(call: Call, *values: np.ndarray) -> np.ndarray:
    """onnx.reference for Mean adds into the first input, so it cannot broadcast that input."""
    total = values[0]
    for value in values[1:]:
        total = np.add(total, value)
    return np.asarray(total / np.array(len(values), dtype=total.dtype)).astype(total.dtype)


@kernel("PRelu", since=7)
def prelu(call: Call, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The slope of PRelu broadcasts only to x, but onnx's reference guesses an axis."""
    if np.broadcast_shapes(x.shape, slope.shape) != x.shape:
        raise OracleError(f"PRelu-{call.since}: slope {slope.shape} for {x.shape}")
    with np.errstate(all="ignore"):
        return np.where(x < 0, slope * x, x).astype(x.dtype)


@kernel("Mod")
def mod(call: Call, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Before version 28, Mod of floats needs fmod=1."""
    exact = a.dtype.kind in "iu"
    if not call["fmod"] and not exact and call.since < 28:
        raise OracleError(f"Mod-{call.since}: floats need fmod=1")
    with np.errstate(all="ignore"):
        return np.asarray(np.fmod(a, b) if call["fmod"] else np.mod(a, b))

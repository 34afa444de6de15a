# SPDX-License-Identifier: Apache-2.0
"""Implements reductions, whose axes were an attribute before they became an input."""

from collections.abc import Callable, Sequence

import numpy as np

from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call

Axes = tuple[int, ...] | None
_MOST = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd"


def _total(x: np.ndarray, axes: Axes) -> np.ndarray:
    return np.asarray(np.add.reduce(x, axis=axes, keepdims=True, dtype=x.dtype))


def _extreme(fold: np.ufunc, worst: float) -> Callable[[np.ndarray, Axes], np.ndarray]:
    def reduce(x: np.ndarray, axes: Axes) -> np.ndarray:
        if x.size:
            return np.asarray(fold.reduce(x, axis=axes, keepdims=True))
        if x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            filler: float = limits.min if worst < 0 else limits.max
        else:
            filler = worst > 0 if x.dtype.kind == "b" else worst
        return np.full(_total(x.astype(np.int8), axes).shape, filler, dtype=x.dtype)

    return reduce


_MAX = _extreme(np.maximum, -np.inf)


def _log_sum_exp(x: np.ndarray, axes: Axes) -> np.ndarray:
    top = _MAX(x, axes)
    top = np.where(np.isinf(top), np.zeros_like(top), top)
    return np.asarray(np.log(_total(np.exp(x - top), axes)) + top)


def _mean(x: np.ndarray, axes: Axes) -> np.ndarray:
    count = x.size // max(_total(x, axes).size, 1)
    if x.dtype.kind in "iu":
        whole = _total(x, axes)
        return np.trunc(whole.astype(np.float64) / count) if count else whole
    return np.asarray(_total(x, axes) / np.array(count, dtype=x.dtype))


_REDUCE: dict[str, Callable[[np.ndarray, Axes], np.ndarray]] = {
    "ReduceL1": lambda x, axes: _total(np.abs(x), axes),
    "ReduceL2": lambda x, axes: np.sqrt(_total(np.square(x), axes)),
    "ReduceLogSum": lambda x, axes: np.log(_total(x, axes)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _MAX,
    "ReduceMean": _mean,
    "ReduceMin": _extreme(np.minimum, np.inf),
    "ReduceProd": lambda x, axes: np.multiply.reduce(x, axis=axes, keepdims=True, dtype=x.dtype),
    "ReduceSum": _total,
    "ReduceSumSquare": lambda x, axes: _total(np.square(x), axes),
}
_THROUGH_DOUBLE = {"ReduceLogSumExp", "ReduceLogSum", "ReduceL2"}


def _reduced(call: Call, x: np.ndarray, axes: Sequence[int] | None) -> np.ndarray:
    """Reduces over `axes`, or over all axes if None; logarithms of integers are truncated."""
    places = None if axes is None else tuple(axes)
    if places is not None and len({axis % max(x.ndim, 1) for axis in places}) != len(places):
        raise ValueError("an axis occurs twice")
    data = x
    if x.dtype.kind in "iu" and call.op in _THROUGH_DOUBLE:
        data = x.astype(np.float64)
    with np.errstate(all="ignore"):
        result = np.asarray(_REDUCE[call.op](data, places)).astype(x.dtype)
    if call["keepdims"]:
        return result
    return result.squeeze(places) if places is not None else result.reshape(())


@kernel(f"{_MOST} ReduceSumSquare", until=17)
def reduce_attribute(call: Call, x: np.ndarray) -> np.ndarray:
    """Before version 18, empty axes of reductions mean all axes; onnx.reference reduces none."""
    return _reduced(call, x, call["axes"] or None)


@kernel("ReduceSum", until=12)
def reduce_sum_attribute(call: Call, x: np.ndarray) -> np.ndarray:
    """Before ReduceSum-13, an empty list of axes means all axes; onnx's reference reduces none."""
    return _reduced(call, x, call["axes"] or None)


@kernel(f"{_MOST} ReduceSumSquare", since=18)
def reduce_input(call: Call, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    """ReduceLogSum(Exp) of integers is legal up to opset 27, but onnx's reference rejects it."""
    return _by_input(call, x, axes)


@kernel("ReduceSum", since=13)
def reduce_sum_input(call: Call, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    """All versions of ReduceSum share one implementation, which computes like onnx's reference."""
    return _by_input(call, x, axes)


def _by_input(call: Call, x: np.ndarray, axes: np.ndarray | None) -> np.ndarray:
    if axes is not None and axes.size:
        return _reduced(call, x, axes.tolist())
    return _reduced(call, x, [] if call["noop_with_empty_axes"] else None)

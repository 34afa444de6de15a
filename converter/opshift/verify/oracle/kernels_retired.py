# SPDX-License-Identifier: Apache-2.0
"""Implements operators that onnx has removed, from the documentation of their releases."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opshift.verify.oracle.values import dtype_of

Attributes = Mapping[str, Any]


def _affine(at: Attributes, x: np.ndarray) -> np.ndarray:
    return x * x.dtype.type(at.get("alpha", 1)) + x.dtype.type(at.get("beta", 0))


def _constant_fill(at: Attributes, x: np.ndarray | None = None) -> np.ndarray:
    like = at["shape"] if x is None else x.shape
    if at.get("input_as_shape"):
        like = x
    shape = (*like, *at.get("extra_shape", ()))
    return np.full(shape, at.get("value", 0.0)).astype(dtype_of(at.get("dtype", 1)))


def _crop(at: Attributes, x: np.ndarray) -> np.ndarray:
    left, top, right, bottom = at["border"]
    if "scale" in at:
        height, width = at["scale"]
        return x[:, :, top : top + height, left : left + width]
    return x[:, :, top : x.shape[2] - bottom, left : x.shape[3] - right]


def _dynamic_slice(
    _at: Attributes, x: np.ndarray, starts: np.ndarray, ends: np.ndarray, axes: Any = None
) -> np.ndarray:
    index = [slice(None)] * x.ndim
    axes = range(len(starts)) if axes is None else axes
    for axis, start, end in zip(axes, starts, ends, strict=True):
        index[axis] = slice(int(start), int(end))
    return x[tuple(index)]


def _fc(at: Attributes, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    rows = x.reshape(int(np.prod(x.shape[: at.get("axis", 1)])), -1)
    columns = w.reshape(int(np.prod(w.shape[: at.get("axis_w", 1)])), -1)
    return rows @ columns.T + b


def _image_scaler(at: Attributes, x: np.ndarray) -> np.ndarray:
    bias = np.array(at["bias"], dtype=x.dtype).reshape(-1, 1, 1)
    return x * x.dtype.type(at.get("scale", 1)) + bias


def _layer_normalization(
    at: Attributes, x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    axes = tuple(range(at.get("axis", -1) % x.ndim, x.ndim))
    wide = x.astype(np.float64)
    gap = wide - wide.mean(axes, keepdims=True)
    root = np.sqrt((gap * gap).mean(axes, keepdims=True) + at.get("epsilon", 1e-5))
    y = gap / root * scale
    return (y if bias is None else y + bias).astype(x.dtype)


def _simplified_layer_normalization(at: Attributes, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    axes = tuple(range(at.get("axis", -1) % x.ndim, x.ndim))
    wide = x.astype(np.float64)
    root = np.sqrt((wide * wide).mean(axes, keepdims=True) + at.get("epsilon", 1e-5))
    return (wide / root * scale).astype(x.dtype)


RETIRED: dict[str, Callable[..., np.ndarray]] = {
    "Affine": _affine,
    "ConstantFill": _constant_fill,
    "Crop": _crop,
    "DynamicSlice": _dynamic_slice,
    "FC": _fc,
    "GivenTensorFill": lambda at, *_: np.array(at["values"], "f4").reshape(at["shape"]),
    "ImageScaler": _image_scaler,
    "LayerNormalization": _layer_normalization,
    "ParametricSoftplus": lambda at, x: (
        x.dtype.type(at["alpha"]) * np.logaddexp(0, x.dtype.type(at["beta"]) * x)
    ),
    "Scale": lambda at, x: x * x.dtype.type(at.get("scale", 1)),
    "ScaledTanh": lambda at, x: x.dtype.type(at["alpha"]) * np.tanh(x.dtype.type(at["beta"]) * x),
    "SimplifiedLayerNormalization": _simplified_layer_normalization,
    "ThresholdedRelu": lambda at, x: np.where(x > at.get("alpha", 1.0), x, x.dtype.type(0)),
}
"""The removed operators; each function takes the attributes by name, then the inputs."""

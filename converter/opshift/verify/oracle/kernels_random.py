# SPDX-License-Identifier: Apache-2.0
"""Implements random operators, whose numbers depend on seed, shape, and the seed of the node."""

from typing import Any

import numpy as np

from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import dtype_of, is_float


def _target(call: Call, like: np.ndarray | None) -> np.dtype:
    if call["dtype"] is not None:
        return dtype_of(call["dtype"])
    return like.dtype if like is not None and is_float(like.dtype) else np.dtype(np.float32)


def _uniform(frame: Any, call: Call, shape: tuple[int, ...]) -> np.ndarray:
    draws: np.ndarray = frame.draws.stream("uniform", shape, call["seed"]).random(shape)
    return draws


def _drawn(frame: Any, call: Call, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if call.op.startswith("RandomNormal"):
        draws = frame.draws.stream("normal", shape, call["seed"]).normal(size=shape)
        values = draws * call["scale"] + call["mean"]
    else:
        values = _uniform(frame, call, shape) * (call["high"] - call["low"]) + call["low"]
    return np.asarray(values).astype(np.float32).astype(dtype)


@kernel("RandomNormal RandomUniform", scoped=True)
def random_shape(frame: Any, call: Call) -> np.ndarray:
    """onnx's reference seeds its random numbers with the clock, so results cannot be compared."""
    return _drawn(frame, call, tuple(call["shape"]), _target(call, None))


@kernel("RandomNormalLike RandomUniformLike", scoped=True)
def random_like(frame: Any, call: Call, like: np.ndarray) -> np.ndarray:
    """onnx's reference seeds its random numbers with the clock, so results cannot be compared."""
    return _drawn(frame, call, like.shape, _target(call, like))


@kernel("Bernoulli", scoped=True)
def bernoulli(frame: Any, call: Call, p: np.ndarray) -> np.ndarray:
    """A Bernoulli element is 1 if a seeded number is below p; onnx.reference seeds by the clock."""
    draws = _uniform(frame, call, p.shape).astype(np.float32)
    dtype = p.dtype if call["dtype"] is None else dtype_of(call["dtype"])
    return (draws < p.astype(np.float64)).astype(dtype)


@kernel("Multinomial", scoped=True)
def multinomial(frame: Any, call: Call, logits: np.ndarray) -> np.ndarray:
    """onnx's reference does not implement Multinomial; the kernel inverts the distribution."""
    draws = _uniform(frame, call, (logits.shape[0], call["sample_size"]))
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    bounds = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    picks = (draws[:, :, None] >= bounds[:, None, :-1]).sum(axis=2)
    return picks.astype(dtype_of(call["dtype"]))

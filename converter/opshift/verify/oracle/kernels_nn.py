# SPDX-License-Identifier: Apache-2.0
"""Implements normalization, softmax, dropout and loss operators in all their versions."""

from typing import Any

import numpy as np

from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import OracleError, wide


def _exp_normal(op: str, x: np.ndarray, axis: int) -> np.ndarray:
    if x.size == 0:
        return x
    if op == "Hardmax":
        hot = np.zeros(x.shape, dtype=x.dtype)
        np.put_along_axis(hot, np.expand_dims(x.argmax(axis=axis), axis), 1, axis=axis)
        return hot
    with np.errstate(all="ignore"):
        shifted = x - x.max(axis=axis, keepdims=True)
        powers = np.exp(shifted)
        total = powers.sum(axis=axis, keepdims=True)
        return np.asarray(powers / total if op == "Softmax" else shifted - np.log(total))


@kernel("Softmax LogSoftmax Hardmax", until=12)
def softmax_flat(call: Call, x: np.ndarray) -> np.ndarray:
    """Softmax before version 13 flattens x at `axis`, but onnx.reference uses one axis."""
    axis = call["axis"]
    if not -x.ndim <= axis <= x.ndim:
        raise OracleError(f"{call.op}-{call.since}: axis {axis} of rank {x.ndim}")
    rows = int(np.prod(x.shape[: axis % x.ndim if axis < 0 else axis], dtype=int))
    if x.size == 0:
        return x
    return _exp_normal(call.op, x.reshape(rows, -1), 1).reshape(x.shape)


def _channels(values: np.ndarray, rank: int) -> np.ndarray:
    return values.reshape((-1,) + (1,) * (rank - 2)) if rank > 1 else values


def _batch_normal(x: np.ndarray, parameters: tuple[np.ndarray, ...], epsilon: float) -> np.ndarray:
    scale, bias, mean, var = (_channels(wide(p), x.ndim) for p in parameters)
    return (scale * (wide(x) - mean) / np.sqrt(var + np.array(epsilon, var.dtype)) + bias).astype(
        x.dtype
    )


def _batch_statistics(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    axes = (0, *range(2, x.ndim))
    return wide(x).mean(axis=axes), wide(x).var(axis=axes)


def _batch_training(
    call: Call, x: np.ndarray, parameters: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """Returns Y, the running mean and variance, and the mean and variance of this batch."""
    scale, bias, mean, var = parameters
    now = _batch_statistics(x)
    keep = np.float32(call["momentum"])
    running = [
        (wide(old) * keep + new * (1 - keep)).astype(old.dtype)
        for old, new in zip((mean, var), now, strict=True)
    ]
    y = _batch_normal(x, (scale, bias, *now), call["epsilon"])
    return (y, *running, *(new.astype(mean.dtype) for new in now))


@kernel("BatchNormalization", until=6)
def batch_normalization_is_test(
    call: Call, x: np.ndarray, *parameters: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Before BatchNormalization-7, `is_test` selects the mode; version 1 needs four axes."""
    if call.since == 1 and (x.ndim != 4 or len(call["consumed_inputs"]) != 5):
        raise OracleError("BatchNormalization-1 needs a 4-D input and five consumed_inputs")
    return _batch_old(call, x, parameters, training=not call["is_test"])


@kernel("BatchNormalization", since=7, until=13)
def batch_normalization_outputs(
    call: Call, x: np.ndarray, *parameters: np.ndarray
) -> tuple[np.ndarray, ...]:
    """In BatchNormalization 7 to 13, several outputs mean training mode."""
    training = any(call.wants(index) for index in range(1, 5))
    return _batch_old(call, x, parameters, training=training)


def _batch_old(
    call: Call, x: np.ndarray, parameters: tuple[np.ndarray, ...], training: bool
) -> tuple[np.ndarray, ...]:
    shapes = [x.shape, *[parameters[0].shape] * 4]
    if call["spatial"] == 0:
        x, parameters = x.reshape(len(x), -1), tuple(p.reshape(-1) for p in parameters)
    channels = 1 if x.ndim == 1 else x.shape[1]
    if any(p.shape != (channels,) for p in parameters):
        raise OracleError(
            f"BatchNormalization-{call.since}: each parameter must have the shape [{channels}]"
        )
    if training:
        results = _batch_training(call, x, parameters)
    elif any(call.wants(index) for index in range(1, 5)):
        raise OracleError(
            f"BatchNormalization-{call.since}: only training mode computes statistics"
        )
    else:
        results = (_batch_normal(x, parameters, call["epsilon"]),)
    return tuple(result.reshape(shape) for result, shape in zip(results, shapes, strict=False))


@kernel("BatchNormalization", since=14)
def batch_normalization_mode(
    call: Call, x: np.ndarray, *parameters: np.ndarray
) -> tuple[np.ndarray, ...]:
    """BatchNormalization computes narrow floats in float32 and rounds the result once."""
    if call["training_mode"]:
        return _batch_training(call, x, parameters)[:3]
    if call.wants(1) or call.wants(2):
        raise OracleError(
            f"BatchNormalization-{call.since}: only training mode computes statistics"
        )
    return (_batch_normal(x, parameters, call["epsilon"]),)


@kernel("Dropout", until=6, scoped=True)
def dropout_is_test(frame: Any, call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Before Dropout-7, `is_test` selects the mode, and the mask has the type of the data."""
    if call["is_test"]:
        return x, np.ones(x.shape, dtype=x.dtype)
    mask = frame.draws.stream("uniform", x.shape, None).random(x.shape) >= call["ratio"]
    return _scaled(x, mask, call["ratio"]), mask.astype(x.dtype)


def _scaled(x: np.ndarray, mask: np.ndarray, share: float) -> np.ndarray:
    work = wide(x)
    return (work * mask * np.array(1 / (1 - share), work.dtype)).astype(x.dtype)


@kernel("Dropout", since=7, until=11)
def dropout_inference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Dropout 7 to 11 drops nothing; before version 10, the mask has the type of the data."""
    return x, np.ones(x.shape, dtype=bool if call.since >= 10 else x.dtype)


@kernel("Dropout", since=12, scoped=True)
def dropout_mode(
    frame: Any,
    call: Call,
    x: np.ndarray,
    ratio: np.ndarray | None = None,
    training: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """Dropout in training mode scales the kept elements, which depend on the shape and the seed."""
    share = 0.5 if ratio is None else float(ratio.item())
    if training is None or not training.item() or share == 0:
        return x, np.ones(x.shape, dtype=bool)
    mask = frame.draws.stream("uniform", x.shape, call["seed"]).random(x.shape) >= share
    return _scaled(x, mask, share), mask


@kernel("LRN")
def local_response(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference for LRN leaves out the last channel of every window."""
    size, work = call["size"], wide(x)
    before, after = (size - 1) // 2, size // 2
    squares = np.stack(
        [(work[:, max(c - before, 0) : c + after + 1] ** 2).sum(axis=1) for c in range(x.shape[1])],
        axis=1,
    )
    alpha, beta, bias = (np.array(call[k], work.dtype) for k in ("alpha", "beta", "bias"))
    return (work / (bias + alpha / np.array(size, work.dtype) * squares) ** beta).astype(x.dtype)


@kernel("LpNormalization")
def lp_normalization(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference omits the absolute value of LpNormalization for p = 1."""
    work = wide(x)
    powers = np.abs(work) if call["p"] == 1 else work * work
    norm = powers.sum(axis=call["axis"], keepdims=True)
    norm = norm if call["p"] == 1 else np.sqrt(norm)
    return np.where(norm == 0, 0, work / np.where(norm == 0, 1, norm)).astype(x.dtype)


@kernel("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    call: Call, x: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """NegativeLogLikelihoodLoss omits ignored targets in means; onnx.reference counts target -1."""
    work, skip = wide(x), call["ignore_index"]
    skipped = np.zeros(target.shape, dtype=bool) if skip is None else target == skip
    place = np.where(skipped, 0, target)
    each = np.ones(target.shape, work.dtype) if weight is None else wide(weight)[place]
    each = np.where(skipped, 0, each)
    logs = np.take_along_axis(np.moveaxis(work, 1, -1), place[..., None], axis=-1)[..., 0]
    loss = np.where(skipped, 0, -logs * each)
    if call["reduction"] != "none":
        loss = loss.sum(dtype=work.dtype)
    if call["reduction"] == "mean":
        loss = loss / each.sum(dtype=work.dtype)
    return np.asarray(loss).astype(x.dtype)

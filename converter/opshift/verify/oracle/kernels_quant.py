# SPDX-License-Identifier: Apache-2.0
"""Implements casts and quantization in all their versions."""

import ml_dtypes
import numpy as np

from opshift.opsets.elements import ELEMENTS, T
from opshift.protos import NodeProto, TensorProto
from opshift.protos.whole import helper
from opshift.verify.oracle import engines
from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.kernels_pool import conv
from opshift.verify.oracle.strict_schema import Call, prepare
from opshift.verify.oracle.values import OracleError, dtype_of, elem_type_of, tensor, wide


@kernel("Cast", until=5)
def cast_by_name(call: Call, x: np.ndarray) -> np.ndarray:
    """Before Cast-6, `to` is the name of a type, but onnx's reference expects a number."""
    name = call["to"]
    if name not in dict(TensorProto.DataType.items()) or name in ("UNDEFINED", "STRING"):
        raise OracleError(f"Cast-1 cannot cast to {name!r}")
    with np.errstate(all="ignore"):
        return x.astype(dtype_of(TensorProto.DataType.Value(name)))


@kernel("CastLike")
def cast_like(call: Call, x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """onnx.reference for CastLike rejects round_mode, so the Cast of the same opset is used."""
    extra = {k: v for k, v in call.attributes.items() if k in ("saturate", "round_mode")}
    node: NodeProto = helper.make_node("Cast", ["x"], ["y"], to=elem_type_of(like.dtype), **extra)
    result: np.ndarray = tensor(
        engines.reference(prepare(node.SerializeToString(), call.opset), x)[0]
    )
    return result


def _along(call: Call, parameter: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Shapes a scale or zero point for broadcasting to x: per tensor, per axis or per block."""
    block = call["block_size"] or 0
    if parameter.ndim == 0 or (parameter.shape == (1,) and not block):
        return parameter.reshape(())
    if call.since < 13:
        raise OracleError(f"{call.op}-{call.since}: before opset 13, a scale must be a scalar")
    axis = call["axis"] % x.ndim if -x.ndim <= call["axis"] < x.ndim else None
    if axis is None:
        raise OracleError(f"{call.op}-{call.since}: axis {call['axis']} of rank {x.ndim}")
    if not block:
        if parameter.shape != (x.shape[axis],):
            raise OracleError(f"{call.op}-{call.since}: scale {parameter.shape} for {x.shape}")
        return parameter.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    blocks = list(x.shape)
    blocks[axis] = -(-x.shape[axis] // block)
    if list(parameter.shape) != blocks:
        raise OracleError(f"{call.op}-{call.since}: scale {parameter.shape} for {x.shape}")
    return np.take(parameter, np.arange(x.shape[axis]) // block, axis=axis)


def _alike(zero: np.ndarray, scale: np.ndarray) -> bool:
    return zero.shape == scale.shape or zero.size == scale.size == 1


_LIMITS = {
    row.name: row.limits
    for row in ELEMENTS.values()
    if row.bits <= 16 and row.is_integer and row.number is not T.BOOL
}


@kernel("QuantizeLinear")
def quantize(
    call: Call, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None
) -> np.ndarray:
    """QuantizeLinear saturates any magnitude, but onnx's reference first overflows int32."""
    declared = call["output_dtype"] or 0
    target = dtype_of(declared) if declared else np.dtype(np.uint8)
    if zero is not None:
        if not _alike(zero, scale) or (declared and zero.dtype != target):
            raise OracleError(
                f"QuantizeLinear-{call.since}: the zero point cannot be {zero.dtype} {zero.shape}"
            )
        target, zero = zero.dtype, _along(call, zero, x)
    work = dtype_of(call["precision"]) if call["precision"] else scale.dtype
    if work.name == "float8_e8m0fnu" or work.kind == "i":
        work = np.dtype(np.float32)
    with np.errstate(all="ignore"):
        ratio = x.astype(work) / _along(call, scale, x).astype(work)
    if target.name in _LIMITS:
        low, high = _LIMITS[target.name]
        steps = np.rint(ratio.astype(np.float64)) + (0 if zero is None else zero.astype(np.float64))
        return np.clip(np.nan_to_num(steps, nan=0.0), low, high).astype(np.int32).astype(target)
    if (
        zero is not None
        and np.any(zero.astype(np.float32) != 0)
        and target.name.startswith("float8")
    ):
        raise OracleError(f"QuantizeLinear-{call.since}: a float8 zero point must be 0")
    if target.name.startswith("float8") and call["saturate"]:
        limits = ml_dtypes.finfo(target)
        return np.clip(wide(ratio), float(limits.min), float(limits.max)).astype(target)
    shifted = ratio if zero is None else wide(ratio) + zero.astype(np.float32)
    with np.errstate(all="ignore"):
        return shifted.astype(target)


@kernel("DequantizeLinear")
def dequantize(
    call: Call, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None
) -> np.ndarray:
    """DequantizeLinear subtracts exactly; onnx.reference has only versions from 19 on."""
    if zero is not None and not _alike(zero, scale):
        raise OracleError(f"DequantizeLinear-{call.since}: zero point {zero.shape}")
    if x.dtype.name in _LIMITS or x.dtype.kind == "i":
        offset = 0 if zero is None else _along(call, zero, x).astype(np.int64)
        data = (x.astype(np.int64) - offset).astype(np.float32)
    else:
        data = x.astype(np.float32)
        if zero is not None:
            data = data - _along(call, zero, x).astype(np.float32)
    target = dtype_of(call["output_dtype"]) if call["output_dtype"] else scale.dtype
    with np.errstate(all="ignore"):
        return (data * _along(call, scale, x).astype(np.float32)).astype(target)


def _shifted(x: np.ndarray, zero: np.ndarray | None, rows: bool = False) -> np.ndarray:
    """Returns x minus its zero point, exactly; zero points may be per row or per column."""
    return wide(x).astype(np.float64) - (0.0 if zero is None else _placed(zero, x.ndim, rows))


def _placed(parameter: np.ndarray, rank: int, rows: bool) -> np.ndarray:
    parameter = wide(parameter).astype(np.float64)
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter[:, None] if rows and parameter.ndim == 1 and rank > 1 else parameter


def _per_channel(parameter: np.ndarray | None, behind: int) -> np.ndarray | None:
    if parameter is None or parameter.ndim == 0:
        return parameter
    return parameter.reshape((-1, *[1] * behind))


def _requantized(
    call: Call,
    sums: np.ndarray,
    first_scale: np.ndarray,
    second_scale: np.ndarray,
    result_scale: np.ndarray,
    zero: np.ndarray,
) -> np.ndarray:
    """Multiplies sums by two scales and divides by a third; rounds to float32 each time."""
    narrow = (wide(scale).astype(np.float32) for scale in (first_scale, second_scale, result_scale))
    with np.errstate(all="ignore"):
        factor = next(narrow) * next(narrow) / next(narrow)
        return _cut_off(call, sums.astype(np.float32) * factor, zero)


def _cut_off(call: Call, steps: np.ndarray, zero: np.ndarray) -> np.ndarray:
    if zero.dtype.name not in _LIMITS:
        raise OracleError(f"{call.op}-{call.since}: results of {zero.dtype} are not supported")
    shifted = np.rint(steps) + zero.astype(np.float64)
    return np.clip(shifted, *_LIMITS[zero.dtype.name]).astype(zero.dtype)


@kernel("MatMulInteger")
def mat_mul_integer(
    call: Call,
    a: np.ndarray,
    b: np.ndarray,
    a_zero: np.ndarray | None = None,
    b_zero: np.ndarray | None = None,
) -> np.ndarray:
    """onnx.reference for MatMulInteger broadcasts zero points per row or column wrongly."""
    return _in_32_bits(_shifted(a, a_zero, rows=True) @ _shifted(b, b_zero))


@kernel("ConvInteger")
def conv_integer(
    call: Call,
    x: np.ndarray,
    w: np.ndarray,
    x_zero: np.ndarray | None = None,
    w_zero: np.ndarray | None = None,
) -> np.ndarray:
    """onnx.reference for ConvInteger accepts zero points per channel only in 2-D."""
    weights = _shifted(w, _per_channel(w_zero, w.ndim - 1))
    return _in_32_bits(conv(call, _shifted(x, x_zero), weights))


def _in_32_bits(sums: np.ndarray) -> np.ndarray:
    """Converts sums to int32 with wrap-around, because runtimes add in int32."""
    return np.asarray(sums).astype(np.int64).astype(np.int32)


@kernel("QLinearMatMul")
def q_linear_mat_mul(
    call: Call,
    a: np.ndarray,
    a_scale: np.ndarray,
    a_zero: np.ndarray,
    b: np.ndarray,
    b_scale: np.ndarray,
    b_zero: np.ndarray,
    y_scale: np.ndarray,
    y_zero: np.ndarray,
) -> np.ndarray:
    """QLinearMatMul computes in float32, and rounds before it adds the zero point."""
    sums = _in_32_bits(_shifted(a, a_zero, rows=True) @ _shifted(b, b_zero))
    rows, columns = _placed(a_scale, a.ndim, rows=True), _placed(b_scale, b.ndim, rows=False)
    return _requantized(call, sums, rows, columns, y_scale, y_zero)


@kernel("QLinearConv")
def q_linear_conv(
    call: Call,
    x: np.ndarray,
    x_scale: np.ndarray,
    x_zero: np.ndarray,
    w: np.ndarray,
    w_scale: np.ndarray,
    w_zero: np.ndarray,
    y_scale: np.ndarray,
    y_zero: np.ndarray,
    bias: np.ndarray | None = None,
) -> np.ndarray:
    """QLinearConv computes in float32, and rounds before it adds the zero point."""
    weights = _shifted(w, _per_channel(w_zero, w.ndim - 1))
    sums = _in_32_bits(conv(call, _shifted(x, x_zero), weights, bias))
    return _requantized(call, sums, _per_channel(w_scale, w.ndim - 2), x_scale, y_scale, y_zero)

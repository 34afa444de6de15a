# SPDX-License-Identifier: Apache-2.0
"""Random nodes of the default domain, each in the form of its version."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto
from random_scope import (
    BOOL,
    DOUBLE,
    FLOAT,
    HALF,
    INT32,
    INT64,
    STRING,
    Scope,
    Value,
    exact,
    float_,
    known,
    known_last,
    plain,
    shaped,
)

REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"),
    *("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"),
)
KEEPING_EXACT = dict.fromkeys(("Relu", "Neg", "Abs", "Identity", "LeakyRelu"), 1)
ROUNDING = {
    **dict.fromkeys(("Sigmoid", "Tanh", "Softplus", "Softsign", "Elu", "Selu", "HardSigmoid"), 1),
    **dict.fromkeys(("Sin", "Cos", "Atan"), 7),
    **{"Erf": 9, "Sinh": 9, "Asinh": 9, "ThresholdedRelu": 10, "Celu": 12, "HardSwish": 14},
    **{"Mish": 18, "Gelu": 20},
}
OF_FLOAT_ALONE = frozenset(("Celu",))


def unary(s: Scope) -> None:
    x = s.pick(float_)
    table = KEEPING_EXACT if s.chance() else ROUNDING
    op = s.one_of(*(op for op, since in table.items() if since <= s.opset))
    if x and (x.elem_type == FLOAT or op not in OF_FLOAT_ALONE):
        jumps = op == "ThresholdedRelu"
        if x.exact or not jumps:
            s.add(op, [x.name], s.like(x, exact=x.exact and op in KEEPING_EXACT))


def binary(s: Scope) -> None:
    x = s.pick(lambda v: v.is_float or (v.elem_type in (INT64, INT32) and s.opset >= 6))
    y = x and s.pick(lambda v: v.elem_type == x.elem_type and v.shape in (x.shape, x.shape[1:], ()))
    if x and y:
        op = s.one_of("Add", "Sub", "Mul")
        stretched = {"broadcast": 1} if s.opset < 7 and y.shape != x.shape else {}
        result = s.like(x, exact=not x.is_float and x.exact and y.exact)
        s.add(op, [x.name, y.name], result, **stretched)


def variadic(s: Scope) -> None:
    x = s.pick(float_)
    y = x and s.pick(lambda v: (v.elem_type, v.shape) == (x.elem_type, x.shape))
    if x and y:
        op = s.one_of("Max", "Min", "Sum", "Mean")
        if op in ("Sum", "Mean") or s.opset >= 8:
            s.add(op, [x.name, y.name, x.name], s.like(x, exact=False))


def compared(s: Scope) -> None:
    x = s.pick(exact, lambda v: v.elem_type in (FLOAT, INT64, INT32))
    y = x and s.pick(exact, lambda v: (v.elem_type, v.shape) == (x.elem_type, x.shape))
    if x and y:
        ops = ["Less", "Greater"] if x.elem_type == FLOAT or s.opset >= 9 else []
        ops += ["Equal"] if x.elem_type != FLOAT or s.opset >= 11 else []
        ops += ["LessOrEqual", "GreaterOrEqual"] if s.opset >= 12 else []
        if ops:
            s.add(s.one_of(*ops), [x.name, y.name], s.like(x, elem_type=BOOL))


def logical(s: Scope) -> None:
    x = s.pick(lambda v: v.elem_type == BOOL)
    if x and s.chance():
        s.add("Not", [x.name], s.like(x))
    elif x:
        s.add(s.one_of("And", "Or", "Xor"), [x.name, x.name], s.like(x))


def chosen(s: Scope) -> None:
    which = s.pick(lambda v: v.elem_type == BOOL)
    x = which and s.pick(lambda v: v.shape == which.shape and v.elem_type != BOOL)
    y = x and s.pick(lambda v: (v.elem_type, v.shape) == (x.elem_type, x.shape))
    if x and y and s.opset >= 9:
        s.add("Where", [which.name, x.name, y.name], s.like(x, exact=x.exact and y.exact))


def normalised(s: Scope) -> None:
    x = s.pick(float_, shaped)
    if x:
        op = s.one_of("Softmax", "LogSoftmax", "Hardmax")
        written = {"axis": s.axis(x.rank)} if s.chance() else {}
        default = 1 if s.opset < 13 else -1
        if (op != "Hardmax" or x.exact) and (written or default < x.rank):
            s.add(op, [x.name], s.like(x, exact=False), **written)


def layer_normalised(s: Scope) -> None:
    x = s.pick(plain, known_last)
    if x and s.opset >= 17:
        ones = s.const(np.ones(x.shape[-1]), np.float32, needed=False)
        s.add("LayerNormalization", [x.name, ones], s.like(x, exact=False), axis=-1)


def flattened(s: Scope) -> None:
    x = s.pick(plain, lambda v: v.rank >= 2 and all(isinstance(d, int) for d in v.shape))
    if x:
        axis = s.draw(st.integers(0, x.rank))
        halves = (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
        s.add("Flatten", [x.name], s.like(x, shape=halves), axis=axis)


def transposed(s: Scope) -> None:
    x = s.pick(lambda v: v.rank >= 2)
    if x:
        perm = s.draw(st.permutations(range(x.rank)))
        s.add("Transpose", [x.name], s.like(x, shape=tuple(x.shape[p] for p in perm)), perm=perm)


def squeezed(s: Scope) -> None:
    x = s.pick(lambda v: 1 in v.shape)
    if x:
        axis = x.shape.index(1)
        result = s.like(x, shape=x.shape[:axis] + x.shape[axis + 1 :])
        listed(s, "Squeeze", x, [axis], result, since=13)


def unsqueezed(s: Scope) -> None:
    x = s.pick(lambda v: v.rank <= 3)
    if x:
        axis = s.draw(st.integers(0, x.rank))
        result = s.like(x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))
        listed(s, "Unsqueeze", x, [axis], result, since=13)


def reduced(s: Scope) -> None:
    x = s.pick(float_, shaped)
    if x:
        op, axis, keep = s.one_of(*REDUCTIONS), s.axis(x.rank), s.chance()
        kept, place = list(x.shape), axis % x.rank
        kept[place : place + 1] = [1] if keep else []
        result = s.like(x, shape=tuple(kept), exact=False)
        since = 13 if op == "ReduceSum" else 18
        listed(s, op, x, [axis], result, since=since, keepdims=int(keep))


def listed(
    s: Scope, op: str, x: Value, axes: list[int], result: Value, *, since: int, **rest: Any
) -> None:
    """Axes are an attribute below a version, and an input from that version on."""
    if s.opset < since:
        s.add(op, [x.name], result, axes=axes, **rest)
    else:
        s.add(op, [x.name, s.const(axes)], result, **rest)


def clipped(s: Scope) -> None:
    x = s.pick(plain)
    if x and s.opset < 11:
        s.add("Clip", [x.name], s.like(x, exact=False), min=-0.5, max=0.75)
    elif x:
        low = s.const(-0.5, np.float32, needed=False) if s.chance() else ""
        high = s.const(0.75, np.float32, needed=False)
        s.add("Clip", [x.name, low, high], s.like(x, exact=False))


def sliced(s: Scope) -> None:
    x = s.pick(known_last, lambda v: v.shape[-1] > 1)
    if x:
        axis, end = x.rank - 1, x.shape[-1]
        result = s.like(x, shape=(*x.shape[:-1], end - 1))
        if s.opset < 10:
            s.add("Slice", [x.name], result, starts=[1], ends=[end], axes=[axis])
        else:
            names = [s.const([one]) for one in (1, end, axis)]
            s.add("Slice", [x.name, *names], result)


def padded(s: Scope) -> None:
    x = s.pick(plain, known_last)
    if x:
        pads = [0] * (2 * x.rank - 1) + [1]
        result = s.like(x, shape=(*x.shape[:-1], x.shape[-1] + 1))
        if s.opset < 11:
            name = "pads" if s.opset >= 2 else "paddings"
            s.add("Pad", [x.name], result, value=1.0, **{name: pads})
        else:
            fill = [s.const(1.0, np.float32, needed=False)] if s.chance() else []
            s.add("Pad", [x.name, s.const(pads), *fill], result)


def gathered(s: Scope) -> None:
    x = s.pick(known_last)
    if x:
        indices = s.const([0, x.shape[-1] - 1], needed=False)
        s.add("Gather", [x.name, indices], s.like(x, shape=(*x.shape[:-1], 2)), axis=x.rank - 1)


def reshaped(s: Scope) -> None:
    x = s.pick(known, lambda v: v.is_float or s.opset >= 5)
    if x:
        rows, last = int(np.prod(x.shape[:-1])), (*x.shape, 1)[x.rank - 1]
        result = s.like(x, shape=(rows, last))
        if s.opset < 5:
            s.add("Reshape", [x.name], result, shape=[-1, last])
        else:
            s.add("Reshape", [x.name, s.const([-1, last])], result)


def joined(s: Scope) -> None:
    x = s.pick(known_last, lambda v: v.is_float or s.opset >= 4)
    if x:
        result = s.like(x, shape=(*x.shape[:-1], 2 * x.shape[-1]))
        s.add("Concat", [x.name, x.name], result, axis=x.rank - 1)


def measured(s: Scope) -> None:
    x = s.pick(shaped)
    if x:
        s.add("Shape", [x.name], Value(s.fresh(), INT64, (x.rank,)))


def cast(s: Scope) -> None:
    x = s.pick(exact, lambda v: v.elem_type != STRING)
    if x:
        allowed = (FLOAT, DOUBLE, HALF) if x.is_float else (FLOAT, INT64, INT32, DOUBLE)
        to = s.one_of(*allowed)
        said = to if s.opset >= 6 else TensorProto.DataType.Name(to)
        s.add("Cast", [x.name], s.like(x, elem_type=to, exact=not x.is_float), to=said)


def best(s: Scope) -> None:
    x = s.pick(plain, exact, known_last)
    if not x:
        return
    if s.chance():
        result = s.like(x, elem_type=INT64, shape=(*x.shape[:-1], 1))
        s.add(s.one_of("ArgMax", "ArgMin"), [x.name], result, axis=x.rank - 1)
        return
    values = s.like(x, shape=(*x.shape[:-1], 1))
    where = s.like(values, elem_type=INT64)
    if s.opset < 10:
        s.add("TopK", [x.name], values, where, k=1, axis=x.rank - 1)
    else:
        s.add("TopK", [x.name, s.const([1])], values, where, axis=x.rank - 1)


def split(s: Scope) -> None:
    x = s.pick(plain, shaped, lambda v: v.shape[-1] in (2, 4))
    if x:
        half = x.shape[-1] // 2
        parts = [s.like(x, shape=(*x.shape[:-1], half)) for _ in range(2)]
        axis = x.rank - 1
        if s.opset >= 18 and s.chance():
            s.add("Split", [x.name], *parts, axis=axis, num_outputs=2)
        elif s.opset >= 13:
            s.add("Split", [x.name, s.const([half, half])], *parts, axis=axis)
        else:
            s.add("Split", [x.name], *parts, axis=axis, split=[half, half])


def multiplied(s: Scope) -> None:
    x = s.pick(plain, known_last, lambda v: v.rank == 2)
    if x:
        weights = s.const(np.linspace(-1, 1, 2 * x.shape[1]).reshape(x.shape[1], 2), np.float32)
        result = s.like(x, shape=(x.shape[0], 2), exact=False)
        if s.chance():
            s.add("MatMul", [x.name, weights], result)
        elif s.opset >= 11 and s.chance():
            s.add("Gemm", [x.name, weights], result, alpha=0.5)
        else:
            bias = s.const([0.5, -0.5], np.float32, needed=False)
            stretched = {"broadcast": 1} if s.opset < 7 else {}
            s.add("Gemm", [x.name, weights, bias], result, alpha=0.5, **stretched)


def pooled(s: Scope) -> None:
    x = s.pick(
        plain, lambda v: v.rank == 3, lambda v: isinstance(v.shape[2], int) and v.shape[2] > 1
    )
    if x:
        result = s.like(x, shape=(*x.shape[:2], x.shape[2] - 1), exact=False)
        s.add(s.one_of("MaxPool", "AveragePool"), [x.name], result, kernel_shape=[2])


def upscaled(s: Scope) -> None:
    x = s.pick(plain, lambda v: v.rank == 3, known_last)
    if not x or s.opset < 7:
        return
    result = s.like(x, shape=(*x.shape[:2], 2 * x.shape[2]), exact=False)
    scales = [1.0, 1.0, 2.0]
    if s.opset < 9:
        s.add("Upsample", [x.name], result, scales=scales, mode="nearest")
    elif s.opset < 11:
        op = "Upsample" if s.opset < 10 else "Resize"
        s.add(op, [x.name, s.const(scales, np.float32)], result, mode="nearest")
    else:
        how = {"coordinate_transformation_mode": s.one_of("asymmetric", "half_pixel")}
        region = "" if s.opset >= 13 else s.const([], np.float32)
        names = [x.name, region, s.const(scales, np.float32)]
        s.add("Resize", names, result, mode=s.one_of("nearest", "linear"), **how)


ALL = (
    *(unary, binary, variadic, compared, logical, chosen, normalised, layer_normalised, flattened),
    *(transposed, squeezed, unsqueezed, reduced, clipped, sliced, padded, gathered, reshaped),
    *(joined, measured, cast, best, split, multiplied, pooled, upscaled),
)

# SPDX-License-Identifier: Apache-2.0
"""Activation functions: Relu, Elu, Selu, Celu, Gelu, Mish, HardSwish, Swish, Shrink and more."""

import functools
from typing import Any

from opshift.adapter import (
    KEEP,
    Builder,
    Found,
    Node,
    Refusal,
    Result,
    Surroundings,
    T,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    dtype_of,
    example,
    in_other_words,
    misread,
    np,
    retired,
    shown,
)
from opshift.combinators import cast_around, drop_attribute

from opshift_adapters._lib.kinds import FLOATS, as_type

AS_FLOAT = cast_around("float")
WITHOUT_CONSUMED = drop_attribute("consumed_inputs")


ACTIVATION_6 = boundary(
    6, "Elu:7faca4 HardSigmoid:5108d7 LeakyRelu:fb33b2 Relu:ec92d9", up=WITHOUT_CONSUMED
)


def selu_defaults(node: Node, op: Builder) -> Result:
    """Opset 6 changed defaults of `alpha` and `gamma` in Selu; the old defaults are written."""
    absent: dict[str, Any] = {n: node.float(n) for n in ("alpha", "gamma") if not node.has(n)}
    same: Value = op.same(node, consumed_inputs=None, **absent)
    return same


MEMORY = {"consumed_inputs": "`consumed_inputs` is only a hint about memory"}
SELU_6 = boundary(6, "Selu:3c9141", up=selu_defaults, down=selu_defaults, ignores=MEMORY)
RELU_13 = boundary(13, "Relu:5bc785")


def relu_14_13(node: Node, op: Builder) -> Result:
    """Opset 14 added integers to Relu; below opset 14, Max(x, 0) is written."""
    x = node["X"]
    return op.Max(x, op.const(0, like=x))


RELU_14 = boundary(14, "Relu:705c14", cast=relu_14_13)


WITH_BODIES = "Elu HardSigmoid HardSwish Selu Softplus Softsign ThresholdedRelu"
misread_by_1_14 = functools.partial(misread, source="2026-11-29 1.13..1.15: 14 operators, 3 types")


@misread_by_1_14(
    "Relu", "onnxruntime 1.14", "Relu of 16 bits or int64 crashes the process", since=14, wider="X"
)
def of_16_bits(node: Node) -> bool:
    return node["X"].elem_type_or_none in (T.FLOAT16, T.BFLOAT16, T.INT16, T.INT64)


@misread_by_1_14(
    WITH_BODIES, "onnxruntime 1.14", "{op} of float16 or double does not load", wider="X input"
)
def with_a_body(node: Node) -> bool:
    x = node.inputs[0]
    return x is not None and x.elem_type_or_none in (T.FLOAT16, T.DOUBLE)


@alternative("Relu", runtime="onnxruntime==1.14")
def greater_of_zero(node: Node, op: Builder) -> Result:
    """For onnxruntime 1.14, Relu is written as Max(x, 0)."""
    if op.version < 8:  # Max of older opsets does not broadcast
        return KEEP  # pragma: no cover: only a runtime of the caller asks for this form
    larger: Value = op.Max(node["X"], op.const(0, like=node["X"]))
    return larger


ROUNDED_ONCE = shown(
    AS_FLOAT,
    example(
        "bfloat16", "(bfloat16[2,3] x) => (bfloat16[2,3] y) { y = {op}(x) }", gives="Cast {op} Cast"
    ),
    example("float16", "(float16[2,3] x) => (float16[2,3] y) { y = {op}(x) }", gives="{op}"),
)
LEAKY_RELU_16 = boundary(16, "LeakyRelu:8ae852", cast=ROUNDED_ONCE)
ACTIVATION_22 = boundary(
    22,
    "Elu:684605 HardSigmoid:8f76ad HardSwish:3a7dd3 Mish:cd3cd8 Selu:2d1aa9 Softplus:8b42c5 "
    "Softsign:26ac09 ThresholdedRelu:f64fc5",
    cast=ROUNDED_ONCE,
)


def celu_28_27(node: Node, op: Builder) -> Result:
    """Below opset 28, Celu accepts only float; 16-bit types are cast, double becomes a formula."""
    x = node["X"]
    return _celu(op, x, node.float("alpha")) if x.elem_type == T.DOUBLE else AS_FLOAT(node, op)


def _celu(op: Builder, x: Value, alpha: float) -> Value:
    scale = op.const(alpha, like=x)
    bent = (op.Exp(x / scale) - op.const(1, like=x)) * scale
    return op.Relu(x) + op.Min(bent, op.const(0, like=x))


@misread("Celu", "onnxruntime 1.3..1.7", source="2026-11-30 1.3..1.32: 4 shapes")
def bends_a_scalar(node: Node) -> bool:
    """Celu of a scalar does not load or is wrong."""
    return node["X"].rank == 0


CELU_28 = boundary(28, "Celu:3c82cb", cast=celu_28_27)


def _number(op: Builder, value: Any, x: Value) -> Value:
    """Returns a constant of x's element type; writes CastLike (opset >= 15) for an unknown type."""
    if x.elem_type_or_none is None:
        return op.CastLike(op.const(value, T.FLOAT), x)
    return op.const(value, like=x)


def equal_shapes(found: Found) -> dict[str, Any] | None:
    """Returns the attributes if A and B have equal shapes, because SwiGLU does not broadcast."""
    a, b = found["A"].dims_or_none, found["B"].dims_or_none
    return found.numbers if a is not None and a == b and None not in a else None


@adapter("SwiGLU", 28, 27, in_other_words=True, mirrored=equal_shapes)
def swiglu_28_27(node: Node, op: Builder) -> Result:
    """Opset 28 added SwiGLU; below opset 28, Swish(A) * B is written."""
    return op.expand(node)


@adapter("Swish", 24, 23, in_other_words=True, mirrored=True)
def swish_24_23(node: Node, op: Builder) -> Result:
    """Opset 24 added Swish; below opset 24, x * Sigmoid(alpha * x) is written."""
    x, alpha = node["X"], node.float("alpha")
    steep = x if alpha == 1 else x * _number(op, alpha, x)
    return x * op.Sigmoid(steep)


@adapter("Gelu", 20, 19, in_other_words=True, mirrored=True)
def gelu_20_19(node: Node, op: Builder) -> Result:
    """Opset 20 added Gelu; below opset 20, its formula is written with Erf or Tanh."""
    x = node["X"]

    def root(value: float) -> Value:
        rounded = np.float32(value)  # the definition of Gelu rounds the root to float
        if x.elem_type_or_none is None:
            return op.Sqrt(_number(op, rounded, x))
        kind = dtype_of(x.elem_type)
        return op.const(np.sqrt(rounded.astype(kind)), like=x)

    if node.str("approximate") == "tanh":
        cubic = op.Pow(x, _number(op, 3, x)) * _number(op, np.float32(0.044715), x)
        bent = op.Tanh((x + cubic) * root(2 / np.pi))
    else:
        bent = op.Erf(x / root(2))
    return x * _number(op, 0.5, x) * (bent + _number(op, 1, x))


@adapter("Mish", 18, 17, in_other_words=True, mirrored=True)
def mish_18_17(node: Node, op: Builder) -> Result:
    """Opset 18 added Mish; below opset 18, x * Tanh(Softplus(x)) is written."""
    return op.expand(node)


@adapter("HardSwish", 14, 13, in_other_words=True, mirrored=True)
def hard_swish_14_13(node: Node, op: Builder) -> Result:
    """Opset 14 added HardSwish, written below as x * HardSigmoid(x, alpha=1/6, beta=0.5)."""
    return op.expand(node)


@adapter("Celu", 12, 11, in_other_words=True, mirrored=True)
def celu_12_11(node: Node, op: Builder) -> Result:
    """Opset 12 added Celu; below opset 12, Elu is written, or Exp if `alpha` is negative."""
    x, alpha = node["X"], node.float("alpha")
    if alpha == 1:
        return op.Elu(x)
    if alpha < 0:
        return _celu(op, x, alpha)
    scale = op.const(alpha, like=x)
    bent = op.Elu(-op.Relu(-x) / scale)
    return op.Relu(x) + bent * scale


@adapter("ThresholdedRelu", 10, 9, in_other_words=True)
def thresholded_relu_10_9(node: Node, op: Builder) -> Result:
    """Opset 10 added ThresholdedRelu; below opset 10, Where(x > alpha, x, 0) is written."""
    x = node["X"]
    real = _wide(op, x)
    return op.Where(real > op.const(node.float("alpha"), like=real), x, op.const(0, like=x))


def _wide(op: Builder, x: Value) -> Value:
    """Casts x to float or double, in which kernels of Shrink compare x with float attributes."""
    return as_type(op, x, T.FLOAT if x.elem_type in (T.FLOAT, T.FLOAT16) else T.DOUBLE)


@adapter("Shrink", 9, 8, in_other_words=True)
def shrink_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, Shrink compares with `lambd` and selects x + bias, x - bias or 0."""
    x, bias, lambd = node["input"], node.float("bias"), node.float("lambd")
    real = _wide(op, x)
    kind = real.elem_type
    low, high = real < op.const(-lambd, kind), real > op.const(lambd, kind)
    if lambd < 0:
        high = high & ~low
    side = op.Cast(low, to=kind) - op.Cast(high, to=kind)
    moved = real + side * op.const(bias, kind)
    if x.elem_type in FLOATS:
        result = op.Where(low | high, moved, op.const(0, kind))
    else:
        result = moved * op.Cast(low | high, to=kind)
    return as_type(op, result, x.elem_type)


@retired("ThresholdedRelu")
def thresholded_relu(node: Node, op: Builder) -> Result:
    """ThresholdedRelu below opset 10, which runtimes run although onnx lacks it, becomes Where."""
    if op.version < 7:
        raise Refusal(Why.NOT_EXPRESSIBLE, "ThresholdedRelu is impossible below opset 7")
    x = node.inputs[0]
    if x is None:
        raise Refusal(Why.AMBIGUOUS, f"{node.op} lacks its input")
    above = x > op.const(1 if node.attr("alpha") is None else node.float("alpha"), like=x)
    return op.Where(above, x, op.const(0, like=x))


def _bent(op: Builder, x: Value, alpha: float) -> Value:
    """Writes alpha * (Exp(x) - 1), the value for negative x."""
    return (op.Exp(x) - op.const(1, like=x)) * op.const(alpha, like=x)


@in_other_words("Elu")
def elu_by_exponent(node: Node, op: Builder) -> Result:
    """Elu is written as x for positive x, else as alpha * (Exp(x) - 1)."""
    x = node["X"]
    return op.Where(x < op.const(0, like=x), _bent(op, x, node.float("alpha")), x)


@in_other_words("Selu")
def selu_by_exponent(node: Node, op: Builder) -> Result:
    """Selu is written as gamma * x for positive x, else as gamma * alpha * (Exp(x) - 1)."""
    x, gamma = node["X"], node.float("gamma")
    above = x > op.const(0, like=x)
    return op.Where(above, x * op.const(gamma, like=x), _bent(op, x, node.float("alpha") * gamma))


@in_other_words("LeakyRelu")
def larger_of_both_slopes(node: Node, op: Builder) -> Result:
    """LeakyRelu is written as Max(x, alpha * x), as Min if alpha > 1, or as Where."""
    x, alpha = node["X"], node.float("alpha")
    below: Value = x * op.const(alpha, like=x)
    if alpha > 0:
        bent: Value = op.Max(x, below) if alpha <= 1 else op.Min(x, below)
        return bent
    return op.Where(x < op.const(0, like=x), below, x)


@in_other_words("HardSigmoid")
def clipped_line(node: Node, op: Builder) -> Result:
    """HardSigmoid is written as alpha * x + beta, clipped to the range from 0 to 1."""
    x = node["X"]
    line = x * op.const(node.float("alpha"), like=x) + op.const(node.float("beta"), like=x)
    return op.Clip(line, op.const(0, like=x), op.const(1, like=x))


@misread("HardSigmoid", "opencv 4.5.5, 4.8, 4.11, 5.0", source="2026-11-28 4.5.5..5.0: a network")
def becomes_hard_swish(node: Node, around: Surroundings) -> bool:
    """HardSigmoid (alpha 1/6, beta 0.5) is fused with any Mul, even if the factor is not x."""
    if not node.has("alpha") or not node.has("beta") or not _is_of_hard_swish(node):
        return False
    result = node.outputs[0]
    if result is None:
        return False  # pragma: no cover: no example leaves out its only output
    readers = around.readers(result)
    products = [reader for reader in readers if reader.op == "Mul"]
    if len(readers) > 1 or around.is_output(result) or around.is_read_within(result):
        return bool(products)
    return any(node["X"].name not in product.proto.input for product in products)


def _is_of_hard_swish(node: Node) -> bool:
    return bool(np.float32(node.float("alpha")) == np.float32(1 / 6) and node.float("beta") == 0.5)


@alternative("HardSigmoid", runtime="opencv==4.11")
def with_default_beta(node: Node, op: Builder) -> Result:
    """HardSigmoid gets no explicit default `beta`, so that OpenCV does not compute HardSwish."""
    if not node.has("beta") or not _is_of_hard_swish(node):
        return KEEP
    return op.same(node, beta=None)


@in_other_words("Softsign")
def softsign_by_division(node: Node, op: Builder) -> Result:
    """Softsign is written as x / (1 + Abs(x))."""
    x = node["input"]
    return x / (op.Abs(x) + op.const(1, like=x))


@in_other_words("Softplus")
def softplus_by_logarithm(node: Node, op: Builder) -> Result:
    """Softplus is written as Log(1 + Exp(-Abs(x))) + Relu(x), which does not overflow."""
    x = node["X"]
    return op.Log(op.Exp(-op.Abs(x)) + op.const(1, like=x)) + op.Relu(x)

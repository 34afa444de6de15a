# SPDX-License-Identifier: Apache-2.0
"""BitShift, the bitwise operators and BitCast."""

from collections.abc import Sequence

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    by_width,
    dtype_of,
    np,
)

from opshift_adapters._lib.blocks import one_number, times_vector
from opshift_adapters._lib.kinds import INTS, UNSIGNED, as_type

UNSIGNED_OF = {8: T.UINT8, 16: T.UINT16, 32: T.UINT32, 64: T.UINT64}


@adapter("BitShift", 11, 10, in_other_words=True)
def bit_shift_11_10(node: Node, op: Builder) -> Result:
    """Opset 11 added BitShift; below opset 11, Mul or Div by a power of two is written."""
    x, left = node["X"], node.str("direction") == "LEFT"
    kind, bits = x.elem_type, T(x.elem_type).element.bits
    wide = x if bits == 64 else op.Cast(x, to=T.INT64)
    powers = op.const([2**i for i in range(bits)], T.UINT64 if bits == 64 else T.INT64)
    power = op.Gather(powers, op.Cast(node["Y"], to=T.INT64), axis=0)
    shifted = wide * power if left else wide / power
    if bits == 64:
        return shifted
    if left:
        size = op.const(2**bits)
        shifted = shifted - shifted / size * size
    return op.Cast(shifted, to=kind)


BITS = by_width("BitCast", floats=True)
SHIFT_28 = boundary(28, "BitShift:f10e36", directions="up")


@adapter("BitShift", 28, 27, handles_types=True)
def bit_shift_28_27(node: Node, op: Builder) -> Result:
    """Below opset 28, BitShift is unsigned and needs short shifts; Where replaces other results."""
    x, amount = node["X"], node["Y"]
    kind, bits = x.elem_type, T(x.elem_type).element.bits
    constant = amount.const_or_none()
    inside = None
    zero = op.const(0, like=x)
    if constant is None or not all(0 <= n < bits for n in constant.flat):
        inside = amount < op.const(bits, like=x)
        if kind not in UNSIGNED:
            inside = inside & ~(amount < zero)
        amount = op.Where(inside, amount, zero)
    elif kind in UNSIGNED:
        return KEEP
    if kind in UNSIGNED or node.str("direction") == "LEFT":
        return _where(op, inside, _shift(node, op, x, amount), zero)
    negative, ones = x < zero, op.const(-1, like=x)
    magnitude = op.Where(negative, ones - x, x)
    shifted = _where(op, inside, _shift(node, op, magnitude, amount), zero)
    return op.Where(negative, ones - shifted, shifted)


def _where(op: Builder, condition: Value | None, x: Value, y: Value) -> Value:
    return x if condition is None else op.Where(condition, x, y)


def _shift(node: Node, op: Builder, x: Value, amount: Value) -> Value:
    """Writes BitShift below opset 28, where signed integers are cast to unsigned integers."""
    kind, direction = node["X"].elem_type, node.str("direction")
    if kind in UNSIGNED:
        return op.BitShift(x, amount, direction=direction)
    bare = UNSIGNED_OF[T(kind).element.bits]
    shifted = op.BitShift(op.Cast(x, to=bare), op.Cast(amount, to=bare), direction=direction)
    return op.Cast(shifted, to=kind)


@adapter("BitwiseAnd BitwiseOr BitwiseXor", 18, 17, in_other_words=True)
def bitwise_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, bitwise operators are written as sums of bits on a new last axis."""
    kind, bits = node["A"].elem_type, T(node["A"].elem_type).element.bits
    weights = [2**i for i in range(bits)]
    if kind not in UNSIGNED or bits == 64:
        weights[-1] = -weights[-1]
    for x, mask in ((node["A"], node["B"]), (node["B"], node["A"])):
        number = one_number(mask, x)
        if number is not None and (node.op != "BitwiseXor" or bits < 64):
            return as_type(op, _with_number(op, node.op, x, int(number), weights), kind)
    a, b = (_bits(op, node[name]) for name in ("A", "B"))
    if node.op == "BitwiseXor":
        apart = a - b
        both = apart * apart
    else:
        both = a * b if node.op == "BitwiseAnd" else a + b - a * b
    return as_type(op, _joined(op, both, op.const(weights)), kind)


def _with_number(op: Builder, name: str, x: Value, number: int, weights: Sequence[int]) -> Value:
    """Combines x with a constant: the result for x = 0, plus the change by each bit of x."""
    # Callers pass no BitwiseXor of 64 bits: its sum would exceed the largest int64.
    bits = [number >> i & 1 for i in range(len(weights))]
    by_operator = {"BitwiseAnd": bits, "BitwiseOr": [1 - bit for bit in bits]}
    signs = by_operator.get(name) or [1 - 2 * bit for bit in bits]
    # The nodes that compute the bits of x do not depend on the number, so runtimes merge them.
    parts = op.const([w * sign for w, sign in zip(weights, signs, strict=True)])
    changed = _joined(op, _bits(op, x), parts)
    start = 0 if name == "BitwiseAnd" else sum(w * b for w, b in zip(weights, bits, strict=True))
    return changed + op.const(start) if start else changed


MOST_KNOWN = 256  # constants of up to so many elements have their bits written as a constant


def _bits(op: Builder, x: Value) -> Value:
    """Returns the bits of integers as zeros and ones on a new last axis, the lowest bit first."""
    kind, bits, last = x.elem_type, T(x.elem_type).element.bits, op.const([-1])
    constant = x.const_or_none()
    if constant is not None and constant.size <= MOST_KNOWN:
        places = np.arange(bits).astype(constant.dtype)
        return op.const(constant[..., None] >> places & constant.dtype.type(1), T.INT64)
    if bits == 64:  # onnxruntime 1.10 has Mod of uint64, but no Add, Sub and Mul of uint64
        wide, amounts = op.Unsqueeze(as_type(op, x, T.UINT64), last), op.const(range(64), T.UINT64)
        shifted = op.BitShift(wide, amounts, direction="RIGHT")
        return op.Cast(op.Mod(shifted, op.const(2, T.UINT64)), to=T.INT64)
    wide = as_type(op, x, T.INT64)
    bare = wide if kind in UNSIGNED else op.Mod(wide, op.const(2**bits))
    return op.Mod(op.Unsqueeze(bare, last) / op.const([2**i for i in range(bits)]), op.const(2))


def _joined(op: Builder, bits: Value, weights: Value) -> Value:
    """Returns the weighted sum of the bits; ReduceSum of integers is exact only up to 32 bits."""
    if weights.shape[0] == 64:
        return times_vector(op, bits, weights)
    parts = bits * weights
    # onnxruntime keeps an axis of size 0 if ReduceSum names it by a negative number.
    rank = parts.rank_or_none
    return op.ReduceSum(parts, op.const([-1 if rank is None else rank - 1]), keepdims=0)


@adapter("BitwiseNot", 18, 17, in_other_words=True)
def bitwise_not_18_17(node: Node, op: Builder) -> Result:
    """Opset 18 added BitwiseNot; below opset 18, -1 - x is written, because -1 has all bits set."""
    x = node["X"]
    return op.const(-1, like=x) - x


@adapter("BitCast", 26, 25, in_other_words=True)
def bit_cast_26_25(node: Node, op: Builder) -> Result:
    """Below opset 26, BitCast of constants is computed, and a Cast replaces BitCast of integers."""
    x, to = node["input"], node.int("to")
    if x.elem_type == to:
        return x
    names = {T(kind).element.name.removeprefix("u") for kind in (x.elem_type, to)}
    if len(names) == 1 or (x.elem_type == T.BOOL and to in (T.INT8, T.UINT8)):
        return op.Cast(x, to=to)  # from uint8 to int8, Cast keeps all bits
    constant = x.const_or_none()
    if constant is not None and to in (*INTS, T.FLOAT, T.DOUBLE, T.FLOAT16):
        return op.const(constant.view(dtype_of(to)))
    raise Refusal(
        Why.NOT_EXPRESSIBLE,
        "before opset 26, no operator reinterprets the bits of"
        f" {T(x.elem_type).name.lower()} as {T(to).name.lower()}",
    )

# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with scales and zero points, as QuantizeLinear and DequantizeLinear define it."""

from collections.abc import Callable

from opshift.adapter import Builder, Node, Refusal, T, Value, Why, np

from opshift_adapters._lib.blocks import size_of
from opshift_adapters._lib.kinds import SMALL_INTS, as_type
from opshift_adapters._lib.makers import maker, unmoved
from opshift_adapters.facts.output_bounds import MOVES

FLOAT8 = tuple(kind for kind in T if kind.is_float8)


def widened(op: Builder, value: Value | None) -> Value | None:
    """Returns a constant in a wider element type if this opset lacks its element type."""
    if value is None or op.version >= T(value.elem_type).element.opset:
        return value
    constant = value.const_or_none()
    if constant is None:
        kind = T(value.elem_type).name.lower()
        raise Refusal(
            Why.TYPE_NOT_AVAILABLE,
            f"this opset lacks {kind}, and {value.name!r} is not a constant, so that no other"
            " element type can replace it",
        )
    return op.const(constant.astype(np.float32), T(value.elem_type).element.replacement)


def along(op: Builder, p: Value, x: Value, axis: int, block: int = 0) -> Value:
    """Reshapes a scale or zero point (per tensor, axis or block), so that it broadcasts to x."""
    if block and p.rank_or_none != 0:
        return _each_block_spread(op, p, x, axis % x.rank, block)
    if p.rank == 0 or p.shape_or_none == (1,):
        return p if p.rank == 0 or x.rank_or_none else op.Reshape(p, op.const([]))
    behind = -axis - 1 if axis < 0 else max(x.rank - 1 - axis, 0)
    constant = p.const_or_none() if behind else None
    if constant is not None:
        return op.const(constant.reshape([constant.size] + [1] * behind), like=p)
    return op.Reshape(p, op.const([-1] + [1] * behind)) if behind else p


def _each_block_spread(op: Builder, p: Value, x: Value, axis: int, block: int) -> Value:
    """Repeats each scale along its block; the last block may be shorter."""
    behind = x.rank - 1 - axis
    repeats = op.const([1] * (axis + 1) + [block] + [1] * behind)
    repeated = op.Expand(op.Unsqueeze(p, op.const([axis + 1])), repeats)
    shape = p.shape_or_none
    if shape is not None:
        goal = op.const([*shape[:axis], shape[axis] * block, *shape[axis + 1 :]])
    else:
        merged = op.Reshape(size_of(op, p, axis) * op.const(block), op.const([1]))
        goal = op.Concat(op.Shape(p, end=axis), merged, op.Shape(p, start=axis + 1), axis=0)
    size = op.Reshape(size_of(op, x, axis), op.const([1]))
    whole = op.Reshape(repeated, goal, allowzero=1)
    return op.Slice(whole, op.const([0]), size, op.const([axis]))


Place = Callable[[Value], Value]


def single(op: Builder, p: Value, x: Value) -> Value:
    """Reshapes a scale or zero point (below opset 13) to a scalar if x may be a scalar."""
    return op.Reshape(p, op.const([])) if p.rank_or_none != 0 and not x.rank_or_none else p


def per_tensor(scale: Value) -> bool:
    return scale.rank == 0 or scale.shape_or_none == (1,)


def raised(op: Builder, codes: Value) -> Value:
    """Returns int8 codes as uint8 codes that are 128 higher."""
    return op.Cast(op.Cast(codes, to=T.INT32) + 128, to=T.UINT8)


def unsigned(op: Builder, codes: Value, zero: Value | None) -> tuple[Value, Value]:
    """Returns 8-bit codes and their zero point as uint8."""
    zero = op.const(0, codes.elem_type) if zero is None else zero
    if codes.elem_type == T.UINT8:
        return codes, zero
    return raised(op, codes), raised(op, zero)


FEW_CODES = 1024  # constants of up to so many codes are cast during the conversion
IN_FLOAT = (*SMALL_INTS, *FLOAT8)  # float represents the differences exactly


def multiplied(op: Builder, node: Node, place: Place, x: Value | None = None) -> Value:
    """Writes (x - zero point) * scale: the difference is exact, the product is in float."""
    x, zero = x or node["x"], widened(op, node.input("x_zero_point"))
    shaped = as_type(op, place(node["x_scale"]), T.FLOAT)
    unseen = requantized(op, x, zero)
    if unseen is not None:
        return unseen * shaped
    if zero is not None:
        whole = T.FLOAT if zero.elem_type in IN_FLOAT else T.INT32
        constant = zero.const_or_none()
        if constant is None:
            x = _numbers(op, x, whole) - place(as_type(op, zero, whole))
        elif constant.any():
            x = _numbers(op, x, whole) - place(op.const(constant.astype(np.float32), whole))
    return _numbers(op, x, T.FLOAT) * shaped


def _numbers(op: Builder, codes: Value, kind: int) -> Value:
    """Casts codes; constants are cast at run time if the wider constant would enlarge the model."""
    constant = codes.const_or_none()
    if constant is None or constant.size <= FEW_CODES or codes.elem_type_or_none == kind:
        return as_type(op, codes, kind)
    # A node that is written with `outputs` is not folded.
    (computed,) = op.Cast(codes, to=kind, outputs=1)  # pragma: no cover: examples are small
    return computed  # pragma: no cover: as above


def rounded(op: Builder, node: Node, place: Place, kind: int) -> Value:
    """Writes x / scale, rounded to the nearest even, plus the zero point, clipped to the type."""
    zero = widened(op, node.input("y_zero_point"))
    ratio = _ratio(op, node, place)
    if op.version < 11:
        return quantized(op, ratio, None if zero is None else place(zero), kind)
    steps = op.Round(ratio)
    if zero is not None:
        steps = steps + place(as_type(op, zero, T.FLOAT))
    codes = T(kind).element
    low, high = codes.limits
    cut = op.Clip(steps, op.const(low, T.FLOAT), op.const(high, T.FLOAT))
    return op.Cast(cut, to=codes.replacement or kind)


WHOLE = 3 * 2**22  # floats of this size have no fraction, so adding it rounds to the nearest even


def quantized(op: Builder, ratio: Value, zero: Value | None, kind: int) -> Value:
    """Rounds a float to the nearest even, adds the zero point, casts to 8 bits (opset 6 to 10)."""
    return op.Cast(_codes(op, ratio, _point(op, zero), kind), to=kind)


def _codes(op: Builder, ratio: Value, point: int | Value, kind: int, less: int = 0) -> Value:
    """Returns 8-bit codes as float, minus the number `less`."""
    low, high = T(kind).element.limits
    whole, start = ratio + op.const(WHOLE, T.FLOAT), WHOLE
    if isinstance(point, int):
        start -= point
    else:
        whole = whole + point
    cut = op.Clip(whole, min=start + low, max=start + high)  # else, runtimes merge the two sums
    return cut - op.const(start + less, T.FLOAT)


def _point(op: Builder, zero: Value | None) -> int | Value:
    """Returns a zero point as a number if it is constant, else as a float value."""
    constant = np.array(0) if zero is None else zero.const_or_none()
    return op.Cast(zero, to=T.FLOAT) if constant is None else int(constant.item())


def _ratio(op: Builder, node: Node, place: Place) -> Value:
    x, scale = (
        as_type(op, v, T.FLOAT) if v.elem_type == T.INT32 else v
        for v in (node["x"], node["y_scale"])
    )
    return as_type(op, x / place(scale), T.FLOAT)


def repeated(node: Node) -> Value | None:
    """Returns the input of a second, redundant QuantizeLinear-DequantizeLinear pair, or None.

    Operators that move elements may stand between the pairs. A code times a scale, divided by the
    same scale, rounds to the same code, so the second pair changes no number.
    """
    second = maker(node["x"], "QuantizeLinear")
    if second is None:
        return None
    first = maker(unmoved(second["x"], *MOVES.split()), "DequantizeLinear")
    steps = None if first is None else _steps(first, "x", first["x"].elem_type_or_none)
    ends = _steps(second, "y", T.UINT8), _steps(node, "x", node["x"].elem_type_or_none)
    return second["x"] if steps is not None and ends == (steps, steps) else None


def _steps(node: Node, side: str, kind: int | None) -> tuple[float, int | None, int] | None:
    """Returns constant scale, code type and zero point of a per-tensor quantization, else None."""
    scale, zero = node[f"{side}_scale"].const_or_none(), node.input(f"{side}_zero_point")
    if zero is not None:
        kind = zero.elem_type_or_none
    point = np.array(0) if zero is None else zero.const_or_none()
    if scale is None or point is None or scale.size != 1 or point.size != 1:
        return None
    size = float(scale.item())
    normal = T.FLOAT.fraction.smallest_normal <= size < np.inf
    return (size, kind, int(point.item())) if normal else None


def requantized(op: Builder, x: Value, zero: Value | None) -> Value | None:
    """Returns the codes of a QuantizeLinear as float, minus a zero point (below opset 11)."""
    source = maker(x, "QuantizeLinear")  # com.microsoft has a QuantizeLinear, too
    if op.version >= 11 or source is None:
        return None
    y_zero_point = source.input("y_zero_point")
    data = source["x"]
    ratio = _ratio(op, source, lambda p: single(op, p, data))
    point = _point(op, y_zero_point and single(op, y_zero_point, data))
    alike = y_zero_point is not None and zero is not None and y_zero_point.is_same(zero)
    other_point = point if alike else _point(op, zero and single(op, zero, x))
    kind = y_zero_point.elem_type if y_zero_point is not None else T.UINT8
    if isinstance(other_point, int):
        return _codes(op, ratio, point, kind, other_point)
    return _codes(op, ratio, point, kind) - other_point

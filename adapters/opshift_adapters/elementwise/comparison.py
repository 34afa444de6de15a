# SPDX-License-Identifier: Apache-2.0
"""Less, Greater, Equal, LessOrEqual, GreaterOrEqual and Where."""

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Result,
    T,
    Value,
    adapter,
    alternative,
    boundary,
    in_other_words,
    np,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import (
    arange,
    broadcast,
    element,
    longer_sizes,
    one_number,
    padded_shape,
    shape_of,
)
from opshift_adapters._lib.kinds import (
    EXACT_IN_FLOAT,
    FLOATS,
    INTS,
    SMALL_INTS,
    WIDE_INTS,
    as_type,
    held_by_double,
    in_double,
    neighbours,
)
from opshift_adapters._lib.legacy_broadcast import drop_legacy_broadcast, to_legacy_broadcast
from opshift_adapters._lib.repeats import covers, equal


def _compare(node: Node, op: Builder) -> Result:
    """Opset 9 added integers to Less and Greater; below opset 9, they are cast to floats."""
    a, b = node["A"], node["B"]
    return _less(op, a, b) if node.op == "Less" else _less(op, b, a)


ORDER_9 = boundary(9, "Greater:537f4f Less:ae8854", cast=_compare)


def _compare_equal(node: Node, op: Builder) -> Result:
    """Equal below opset 11 lacks this type; Equal after a Cast, or Less and Greater, replace it."""
    return _equal_before_11(op, node["A"], node["B"])


@alternative("Greater Less", runtime="onnxruntime==0.4")
def by_the_sign_of_the_difference(node: Node, op: Builder) -> Result:
    """Less and Greater of integers compare floats, or the sign of a - b for large numbers."""
    a, b = node["A"], node["B"]
    kind = a.elem_type_or_none
    if kind not in (T.INT8, T.INT16, T.INT64, T.UINT8, T.UINT16, T.UINT32):
        return KEEP
    if node.op == "Greater":
        a, b = b, a
    if any(_is_small(value) for value in (a, b)) or kind not in (T.INT64, T.UINT32):
        return op.Cast(a, to=T.FLOAT) < op.Cast(b, to=T.FLOAT)
    a, b = as_type(op, a, T.INT64), as_type(op, b, T.INT64)
    # The difference of halved numbers cannot overflow, and the Cast to float keeps its sign.
    (half_a, rest_a), (half_b, rest_b) = _halved(op, a), _halved(op, b)
    half = op.Cast(half_a - half_b, to=T.FLOAT)
    fraction = op.Cast(rest_a - rest_b, to=T.FLOAT)
    return half + half + fraction < op.const(0.0, T.FLOAT)


def _is_small(x: Value) -> bool:
    constant = x.const_or_none()
    return constant is not None and all(abs(int(n)) < EXACT_IN_FLOAT for n in constant.ravel())


def _halved(op: Builder, x: Value) -> tuple[Value, Value]:
    """Returns the quotient and the remainder of an int64 divided by 2."""
    two = op.const(2)
    half = x / two
    return half, x - half * two


EQUAL_11 = boundary(11, "Equal:8edd25", cast=_compare_equal)

COMPARISON_13 = boundary(13, "Equal:b27392 Greater:dce3c3 Less:724d71")


@adapter("GreaterOrEqual LessOrEqual", 12, 11, in_other_words=True)
def order_12_11(node: Node, op: Builder) -> Result:
    """Below opset 12, <= and >= are written with Less, Greater, Equal, Or and Not."""
    a, b = node["A"], node["B"]
    above = node.op == "GreaterOrEqual"
    if a.elem_type in INTS:
        return ~(a < b if above else a > b)
    for place, x in enumerate((a, b)):
        around = neighbours(op, x)
        if around is not None:
            beside = around[above == (place == 0)]
            a, b = (beside, b) if place == 0 else (a, beside)
            return a > b if above else a < b
    return (a > b if above else a < b) | op.Equal(a, b)


ORDER_16 = boundary(
    16, "GreaterOrEqual:09b5d4 LessOrEqual:bd57a3 Where:ecbbd0", cast=cast_around("float")
)


def _compare_strings(node: Node, op: Builder) -> Result:
    """Below opset 19, Equal of strings compares the indices that Unique assigns to the strings."""
    a, b = node["A"], node["B"]
    flat = op.const([-1])
    left, right = op.Reshape(a, flat), op.Reshape(b, flat)
    both = op.Concat(left, right, axis=0)
    numbers = op.Unique(both, axis=0, outputs=3)[2]
    border, axis = op.Shape(left), op.const([0])
    first = op.Slice(numbers, op.const([0]), border, axis)
    second = op.Slice(numbers, border, op.const([2**63 - 1]), axis)
    return op.Equal(_in_shape_of(op, first, a), _in_shape_of(op, second, b))


def _in_shape_of(op: Builder, flat: Value, like: Value) -> Value:
    return op.Reshape(flat, op.Shape(like), allowzero=1)


EQUAL_19 = boundary(19, "Equal:3e5525", cast=_compare_strings)


@adapter("Where", 9, 8)
def where_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, Where becomes Gather from both tensors, or arithmetic without rounding."""
    return _select(op, node["condition"], node["X"], node["Y"])


BROADCAST_7 = boundary(
    7, "Less:5510db Greater:4a1d8d Equal:090d88", up=drop_legacy_broadcast, down=to_legacy_broadcast
)


@alternative("Where", runtime="onnxruntime==0.4")
def by_other_means(node: Node, op: Builder) -> Result:
    """Where is written as Gather from both tensors, or as arithmetic without rounding."""
    if op.version > 12 and node["X"].elem_type not in (T.BOOL, *SMALL_INTS, *WIDE_INTS):
        # These decompositions use Squeeze and Unsqueeze with the attribute `axes`.
        return KEEP  # pragma: no cover: only a runtime of the caller asks for this form
    return _select(op, node["condition"], node["X"], node["Y"])


NO_KERNEL = (T.BOOL, T.INT16, T.UINT16, T.UINT64)
"""The types for which no onnxruntime has a kernel of Where; a test compares with the table."""


def choose(op: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Writes Where(condition, x, y), or other operators if no kernel of Where has the type."""
    if x.elem_type_or_none in NO_KERNEL:
        return _select(op, condition, x, y)
    return op.Where(condition, x, y)


def _select(op: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Writes Where(condition, x, y) at opsets 7 and 8, by operators that accept the type."""
    kind = x.elem_type
    if kind == T.BOOL:
        return condition & x | ~condition & y
    if kind in SMALL_INTS:
        wide = _select(op, condition, op.Cast(x, to=T.INT32), op.Cast(y, to=T.INT32))
        return op.Cast(wide, to=kind)
    if kind in WIDE_INTS:
        if held_by_double(x) and held_by_double(y):
            return y + op.Cast(condition, to=kind) * (x - y)
        chosen = op.Cast(condition, to=kind) * x
        return chosen + op.Cast(~condition, to=kind) * y
    if x.rank_or_none == y.rank_or_none == 0:
        pair = op.Concat(op.Unsqueeze(y, axes=[0]), op.Unsqueeze(x, axes=[0]), axis=0)
        return op.Gather(pair, op.Cast(condition, to=T.INT32), axis=0)
    if condition.rank_or_none == 0 and (both := _as_large(op, x, y)) is not None:
        if kind == T.STRING:  # onnxruntime loses strings in a Gather of slices
            other, then = (op.graph(lambda b, v=v: b.Identity(v)) for v in both)
            return op.If(condition, then_branch=then, else_branch=other)
        pair = op.Concat(*(op.Unsqueeze(v, axes=[0]) for v in both), axis=0)
        return op.Gather(pair, op.Cast(condition, to=T.INT64), axis=0)
    if op.version == 8 and None in (v.rank_or_none for v in (condition, x, y)):
        return _gathered_flat(op, condition, x, y)
    return _gathered(op, condition, x, y)


def _as_large(op: Builder, x: Value, y: Value) -> tuple[Value, Value] | None:
    """Returns `y` and `x`, broadcast to the larger of their shapes; None if none is larger."""
    if x.dims_or_none is None or y.dims_or_none is None:
        return None
    if equal(x.dims, y.dims):
        return y, x
    if covers(x.dims, y.dims):
        return op.Expand(y, shape_of(op, x)), x
    return (y, op.Expand(x, shape_of(op, y))) if covers(y.dims, x.dims) else None


def _gathered_flat(op: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Writes Where as a Gather for unknown ranks (opset 8), by the shape of a sum of zeros."""
    zeros = [op.Expand(op.const(0), op.Shape(v)) for v in (condition, x, y)]
    shape = op.Shape(zeros[0] + zeros[1] + zeros[2])
    wide = [op.Expand(v, shape) for v in (condition, y, x)]
    flat = [op.Reshape(v, op.const([-1])) for v in wide]
    size = op.Size(flat[0])
    place = op.Cast(flat[0], to=T.INT64) * size + arange(op, size)
    chosen = op.Gather(op.Concat(*flat[1:], axis=0), place, axis=0)
    return op.If(  # at size 0, Reshape would copy sizes of its input
        op.Cast(size, to=T.BOOL),
        then_branch=op.graph(lambda b: b.Reshape(chosen, shape)),
        else_branch=op.graph(lambda b: b.Identity(wide[2])),
    )


def _gathered(op: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Writes Where as a Gather from x and y joined on a new axis, for every element type."""
    shape = _common_of_three(op, condition, x, y)
    flat = op.const([-1, 1])
    pair = [op.Reshape(op.Expand(v, shape), flat) for v in (y, x)]
    both = op.Reshape(op.Concat(*pair, axis=1), op.const([-1]))
    place, chosen = _positions(op, shape), op.Expand(condition, shape)
    constant = place.const_or_none()
    if constant is not None:  # in double, because Add accepts no integers below opset 6
        doubled = op.const(2 * constant, T.DOUBLE)
        return op.Gather(both, op.Cast(op.Cast(chosen, to=T.DOUBLE) + doubled, to=T.INT64))
    index = place + place + op.Cast(chosen, to=T.INT64)
    return op.Gather(both, index, axis=0)


def _common_of_three(op: Builder, a: Value, b: Value, c: Value) -> Value:
    shapes = [v.shape_or_none for v in (a, b, c)]
    if None not in shapes:
        return op.const(broadcast(*(s for s in shapes if s is not None)))
    rank = max(v.rank for v in (a, b, c))
    for value in (a, b, c):
        if all(covers(value.dims, other.dims) for other in (a, b, c) if other is not value):
            return op.Shape(value)
    first, second, third = (padded_shape(op, shape_of(op, v), rank) for v in (a, b, c))
    return longer_sizes(op, longer_sizes(op, first, second), third)


def _positions(op: Builder, shape: Value) -> Value:
    """Returns a tensor of this shape with the flat index of each element (opset 7 to 12)."""
    sizes = shape.const_or_none()
    if sizes is not None and np.prod(sizes) <= 1024:  # a larger constant would enlarge the model
        return op.const(np.arange(np.prod(sizes, dtype=np.int64)).reshape(sizes))
    index = op.const(0)
    for axis in range(shape.shape[0]):
        size = element(op, shape, axis)
        if axis:
            index = op.Unsqueeze(index, axes=[axis])
        index = index * size + arange(op, size)
    return index


def _less(op: Builder, a: Value, b: Value) -> Value:
    """Writes a < b for integers at opsets 7 and 8, as a comparison of floats.

    The Casts keep the order if the float type represents one of both integers exactly.
    """
    kind = a.elem_type
    if kind in (T.INT64, T.UINT64) and not any(map(held_by_double, (a, b))):
        (high_a, low_a), (high_b, low_b) = _halves(op, a), _halves(op, b)
        return (in_double(op, high_a) < in_double(op, high_b)) | op.Equal(
            op.Cast(high_a, to=T.INT64), op.Cast(high_b, to=T.INT64)
        ) & (in_double(op, low_a) < in_double(op, low_b))
    wide = T.FLOAT if kind in SMALL_INTS else T.DOUBLE
    return op.Cast(a, to=wide) < op.Cast(b, to=wide)


def _halves(op: Builder, x: Value) -> tuple[Value, Value]:
    """Returns x / 2**32 (truncated) and the remainder, which double represents exactly."""
    base = op.const(2**32, like=x)
    high = x / base
    return high, x - high * base


def _equal_before_11(op: Builder, a: Value, b: Value) -> Value:
    """Writes a == b at opsets 7 to 10 for element types that Equal lacks."""
    kind = a.elem_type
    if kind in FLOATS:
        return _equal_floats(op, a, b)
    if kind in SMALL_INTS:
        return op.Equal(op.Cast(a, to=T.INT32), op.Cast(b, to=T.INT32))
    if kind == T.UINT32:
        return op.Equal(op.Cast(a, to=T.INT64), op.Cast(b, to=T.INT64))
    pairs = zip(_halves(op, a), _halves(op, b), strict=True)  # uint64
    return op.And(*(op.Equal(op.Cast(p, to=T.INT64), op.Cast(q, to=T.INT64)) for p, q in pairs))


def _equal_floats(op: Builder, a: Value, b: Value) -> Value:
    """Writes a == b for floats: a lies between the floats next to b, or neither a < b nor a > b."""
    for x, other in ((a, b), (b, a)):
        if one_number(other, x) == 0:
            return ~op.Cast(x, to=T.BOOL)  # Cast gives true for all numbers but 0, also for NaN
        around = neighbours(op, other)
        if around is not None:
            return (x > around[0]) & (x < around[1])
    doubtful = [x for x in (a, b) if not _is_number(x)]
    less, more = a < b, a > b
    if len(doubtful) == 1 and a.elem_type != T.DOUBLE:  # older runtimes have no IsNaN of double
        return op.Equal(less, more | op.IsNaN(doubtful[0]))
    # For equal numbers, the product is not negative; for a NaN, the product is a NaN. Infinities
    # of opposite signs are less or greater.
    return op.Equal(less, more) & (op.const(-1, like=a) < a * b)


def _is_number(x: Value) -> bool:
    constant = x.const_or_none()
    return constant is not None and not np.isnan(constant).any()


@in_other_words("Greater Less")
def exchanged(node: Node, op: Builder) -> Result:
    """Greater a > b is written as Less b < a, and Less a < b as Greater b > a."""
    return op.emit("Less" if node.op == "Greater" else "Greater", node["B"], node["A"])


@in_other_words("Equal")
def neither_less_nor_greater(node: Node, op: Builder) -> Result:
    """Equal is written as neither < nor > for integers, and as both <= and >= for floats."""
    a, b = node["A"], node["B"]
    if a.elem_type == T.BOOL:
        return ~op.Xor(a, b)
    if a.elem_type == T.STRING:
        return KEEP
    if a.elem_type in FLOATS:  # NaN is not equal to any number
        return op.LessOrEqual(a, b) & op.GreaterOrEqual(a, b)
    return ~((a < b) | (a > b))


@in_other_words("Where", approximate=True)
def sum_of_two_products(node: Node, op: Builder) -> Result:
    """Where of finite floats is written as x * condition + y * ~condition."""
    condition, x, y = node["condition"], node["X"], node["Y"]
    if x.elem_type not in FLOATS:
        return KEEP
    op.approximate("Where is written with products; infinity may become NaN, and -0 becomes 0")
    return x * op.Cast(condition, to=x.elem_type) + y * op.Cast(~condition, to=x.elem_type)

# SPDX-License-Identifier: Apache-2.0
"""Small parts that many decompositions share; each writes nodes of the opset that is entered.

A tuple in capitals lists the operators that a function may write, for `emits=` of an adapter.
"""

import functools

from opshift.adapter import Builder, InvalidModel, T, Value, np

FLOATS = (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16)
SMALL_INTS = (T.INT8, T.UINT8, T.INT16, T.UINT16)
WIDE_INTS = (T.INT32, T.UINT32, T.INT64, T.UINT64)
INTS = SMALL_INTS + WIDE_INTS
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)
LARGEST_RANK = 64  # of numpy, which allows more than the runtimes


ARITHMETIC = (
    "Add", "Sub", "Mul", "Div", "Floor", "Ceil", "Max", "Min", "Less", "Greater", "Or", "Not",
    "Where", "Cast",
)  # fmt: skip

# -- shapes --------------------------------------------------------------------------------------


def shape_of(op: Builder, x: Value) -> Value:
    """The shape as a constant if it is static, else computed."""
    known = x.shape_or_none
    return op.Shape(x) if known is None else op.const(list(known))


SIZE_OF = ("Shape", "Gather")


def size_of(op: Builder, x: Value, axis: int) -> Value:
    """One dimension as an int64 scalar; below opset 11 a negative axis needs the rank."""
    if axis < 0 and (op.version < 11 or x.rank_or_none is not None):
        axis += x.rank
    dims = x.dims_or_none
    known = dims[axis] if dims is not None else None
    if isinstance(known, int):
        return op.const(known)
    return op.Gather(op.Shape(x), op.const(axis), axis=0)


def extent(op: Builder, x: Value, axis: int) -> Value:
    """One dimension as an int64 vector of one element (opset 15 and later); writes Shape."""
    size = x.dims[axis]
    if isinstance(size, int):
        return op.const([size])
    return op.Shape(x, start=axis % x.rank, end=axis % x.rank + 1)


COMMON_SHAPE = ("Shape", "Concat", "Equal", "Cast", "Not", "Mul", "Add")


def common_shape(op: Builder, a: Value, b: Value) -> Value:
    """The shape to which two values of known rank broadcast (opset 6 and later)."""
    left, right = a.shape_or_none, b.shape_or_none
    if left is not None and right is not None:
        return op.const(broadcast(left, right))
    rank = max(a.rank, b.rank)
    return _longer(op, _padded(op, shape_of(op, a), rank), _padded(op, shape_of(op, b), rank))


def broadcast(*shapes: tuple[int, ...]) -> list[int]:
    """The shape to which values of these shapes broadcast."""
    try:
        return list(np.broadcast_shapes(*shapes))
    except ValueError:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise InvalidModel(f"values of the shapes {listed} do not broadcast") from None


def _padded(op: Builder, shape: Value, rank: int) -> Value:
    """A shape with leading ones up to a rank."""
    (length,) = shape.shape
    if length == rank:
        return shape
    return op.Concat(op.const([1] * (rank - length)), shape, axis=0)


def _longer(op: Builder, own: Value, other: Value) -> Value:
    """Each size of `own`, or of `other` where `own` is 1; the shapes have equal length."""
    one = op.Equal(own, op.const([1] * own.shape[0]))
    taken = op.Cast(one, to=T.INT64) * other
    return taken + op.Cast(~one, to=T.INT64) * own


EXPAND = ("Expand", "Unsqueeze", "Tile", *COMMON_SHAPE)


def expand_to(op: Builder, x: Value, shape: Value) -> Value:
    """`x` broadcast with `shape` as by Expand; below opset 8 (to 6) by Tile, if ranks are known."""
    if op.version >= 8:
        return op.Expand(x, shape)
    (length,) = shape.shape
    if x.rank < length:
        x = op.Unsqueeze(x, axes=list(range(length - x.rank)))
    rank = x.rank
    if rank == 0:
        return x
    own, goal = x.shape_or_none, shape.const_or_none()
    if own is not None and goal is not None:
        wide = [1] * (rank - length) + goal.tolist()
        each = [want if have == 1 else 1 for have, want in zip(own, wide, strict=True)]
        return x if set(each) == {1} else op.Tile(x, op.const(each))
    times = _padded(op, shape, rank)
    if own is not None and set(own) == {1}:
        return op.Tile(x, times)
    one = op.Equal(op.Shape(x), op.const([1] * rank))
    repeated = op.Cast(one, to=T.INT64) * times
    return op.Tile(x, repeated + op.Cast(~one, to=T.INT64))


# -- moving --------------------------------------------------------------------------------------


END = 2**63 - 1


def part(op: Builder, x: Value, start: int, end: int = END) -> Value:
    """`x[start:end]` of a vector; writes Slice."""
    return op.Slice(x, op.const([start]), op.const([end]), op.const([0]))


COUNTED = ("Slice", "Mul", "Concat", "ReduceProd")


def count_elements(op: Builder, shape: Value) -> Value:
    """The product of the sizes in a vector, as a vector of one element (opset 7 and later)."""
    length = shape.shape_or_none
    if length is None:
        return op.ReduceProd(op.Concat(op.const([1]), shape, axis=0), keepdims=1)
    sizes = [part(op, shape, at, at + 1) for at in range(length[0])]
    return functools.reduce(op.Mul, sizes) if sizes else op.const([1])


RESHAPE_TO = ("Reshape", "Cast", "Expand")


def reshape_to(op: Builder, x: Value, shape: Value) -> Value:
    """Reshape in which a 0 means the size 0 (opset 8 and later).

    Below opset 14 a 0 copies the size of the input. Therefore an empty input first gets a 0 on each
    axis where the shape has one, so that the copy is right.
    """
    if op.version >= 14:
        return op.Reshape(x, shape, allowzero=1)
    goal, own = shape.const_or_none(), x.shape_or_none
    if (goal is not None and 0 not in goal) or (own is not None and 0 not in own):
        return op.Reshape(x, shape)
    ones = op.Cast(op.Cast(shape, to=T.BOOL), to=T.INT64)  # and zeros, if the shape has some
    flat = x if x.rank_or_none == 1 else op.Reshape(x, op.const([-1]))
    return op.Reshape(op.Expand(flat, ones), shape)


AS_IMAGE = ("Reshape", "Shape", "Squeeze", "Unsqueeze")


def as_image(op: Builder, x: Value) -> Value:
    """[N, C, ...] as [N, C, rest, 1], for operators that accept only 4-D data (below opset 13)."""
    if x.rank_or_none in (2, 3):
        return op.Unsqueeze(x, axes=list(range(x.rank, 4)))
    return op.Reshape(x, op.const([0, 0, -1, 1]))


def from_image(op: Builder, y: Value, x: Value) -> Value:
    """Undoes `as_image(op, x)`."""
    if x.rank_or_none in (2, 3):
        return op.Squeeze(y, axes=list(range(x.rank, 4)))
    return op.Reshape(y, op.Shape(x))


def cast(op: Builder, x: Value, to: int) -> Value:
    """Cast, whose `to` is the name of the type below opset 6."""
    return op.Cast(x, to=to if op.version >= 6 else T(to).name)


def as_type(op: Builder, x: Value, kind: int) -> Value:
    """`x` cast to an element type, or `x` itself if it has that type."""
    return x if x.elem_type_or_none == kind else cast(op, x, kind)


def element(op: Builder, vector: Value, at: int) -> Value:
    """`vector[at]` as a scalar; writes Gather."""
    return op.Gather(vector, op.const(at), axis=0)


def column(op: Builder, vector: Value, rank: int, axis: int) -> Value:
    """A vector that lies along one axis of a tensor; writes Reshape."""
    return op.Reshape(vector, op.const([-1] + [1] * (rank - axis - 1)))


def squared(op: Builder, x: Value, kind: int) -> Value:
    """`x` to the power of 2, in the form that exporters write and runtimes fuse; writes Pow."""
    return op.Pow(x, op.const(2, kind))


# -- counting ------------------------------------------------------------------------------------

ARANGE = ("Range", "ConstantOfShape", "NonZero", "Reshape", "Cast", "Loop", "Identity", "Add")


LONGEST = 1 << 20  # a longer constant would be most of the model


def arange(op: Builder, n: Value) -> Value:
    """0, 1, ..., n-1 for an int64 scalar n."""
    known = n.const_or_none()
    if known is not None and known.reshape(-1)[0] <= LONGEST:
        return op.const(np.arange(int(known.reshape(-1)[0])))
    if op.version >= 11:
        return op.Range(op.const(0), n, op.const(1))
    if op.version >= 9:
        length = n if n.shape_or_none == (1,) else op.Reshape(n, op.const([1]))
        ones = op.ConstantOfShape(length, value=np.array([1]))
        return op.Reshape(op.NonZero(ones), op.const([-1]))
    body = op.graph(
        lambda b, i, keep, state: (b.Identity(keep), b.Identity(state), b.Identity(i)),
        (T.INT64, ()),
        (T.BOOL, ()),
        (T.INT64, ()),
    )
    going = op.const(True, T.BOOL)
    counted = op.Loop(n, going, op.const(0), body=body, outputs=2)[1]
    # The Cast and the Reshape declare the type and the rank of the Loop's output, which Add needs.
    return op.Reshape(op.Cast(counted, to=T.INT64), op.const([-1]))


LINEAR_INDEX = ("Gather", "Unsqueeze", "Mul", *ARANGE)


def positions(op: Builder, shape: Value) -> Value:
    """Each element's position in the flattened tensor, in the given shape (opset 7 to 12)."""
    known = shape.const_or_none()
    if known is not None and np.prod(known) <= 1024:  # a larger constant would swell the model
        return op.const(np.arange(np.prod(known, dtype=np.int64)).reshape(known))
    index = op.const(0)
    for axis in range(shape.shape[0]):
        size = element(op, shape, axis)
        if axis:
            index = op.Unsqueeze(index, axes=[axis])
        index = index * size + arange(op, size)
    return index


# -- choosing and comparing ----------------------------------------------------------------------

SELECT = (
    "And", "Or", "Concat", "Size", "If", "Identity", *EXPAND, *LINEAR_INDEX,
)  # fmt: skip


def select(op: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Where(condition, x, y) below opset 9 (to 7), by operators that accept the element type."""
    kind = x.elem_type
    if kind == T.BOOL:
        return condition & x | ~condition & y
    if kind in SMALL_INTS:
        wide = select(op, condition, op.Cast(x, to=T.INT32), op.Cast(y, to=T.INT32))
        return op.Cast(wide, to=kind)
    if kind in WIDE_INTS:
        taken = op.Cast(condition, to=kind) * x
        return taken + op.Cast(~condition, to=kind) * y
    if x.rank_or_none == y.rank_or_none == 0:
        pair = op.Concat(op.Unsqueeze(y, axes=[0]), op.Unsqueeze(x, axes=[0]), axis=0)
        return op.Gather(pair, op.Cast(condition, to=T.INT32), axis=0)
    if op.version == 8 and None in (v.rank_or_none for v in (condition, x, y)):
        return _gathered_flat(op, condition, x, y)
    return _gathered(op, condition, x, y)


def _gathered_flat(op: Builder, condition: Value, x: Value, y: Value) -> Value:
    """`_gathered` for unknown ranks, at opset 8: a sum of zeros has the common shape."""
    zeros = [op.Expand(op.const(0), op.Shape(v)) for v in (condition, x, y)]
    shape = op.Shape(zeros[0] + zeros[1] + zeros[2])
    wide = [op.Expand(v, shape) for v in (condition, y, x)]
    flat = [op.Reshape(v, op.const([-1])) for v in wide]
    size = op.Size(flat[0])
    place = op.Cast(flat[0], to=T.INT64) * size + arange(op, size)
    chosen = op.Gather(op.Concat(*flat[1:], axis=0), place, axis=0)
    return op.If(  # Reshape copies the size of the input for a 0
        op.Cast(size, to=T.BOOL),
        then_branch=op.graph(lambda b: b.Reshape(chosen, shape)),
        else_branch=op.graph(lambda b: b.Identity(wide[2])),
    )


def _gathered(op: Builder, condition: Value, x: Value, y: Value) -> Value:
    """A Gather from both tensors laid side by side, for any element type and any value."""
    shape = _common_of_three(op, condition, x, y)
    flat = op.const([-1, 1])
    pair = [op.Reshape(expand_to(op, v, shape), flat) for v in (y, x)]
    both = op.Reshape(op.Concat(*pair, axis=1), op.const([-1]))
    place, chosen = positions(op, shape), expand_to(op, condition, shape)
    known = place.const_or_none()
    if known is not None:  # added in double, because Add accepts no integers below opset 6
        doubled = op.const(2 * known, T.DOUBLE)
        return op.Gather(both, op.Cast(op.Cast(chosen, to=T.DOUBLE) + doubled, to=T.INT64))
    index = place + place + op.Cast(chosen, to=T.INT64)
    return op.Gather(both, index, axis=0)


def _common_of_three(op: Builder, a: Value, b: Value, c: Value) -> Value:
    shapes = [v.shape_or_none for v in (a, b, c)]
    if None not in shapes:
        return op.const(broadcast(*(s for s in shapes if s is not None)))
    rank = max(v.rank for v in (a, b, c))
    first, second, third = (_padded(op, shape_of(op, v), rank) for v in (a, b, c))
    return _longer(op, _longer(op, first, second), third)


NOT_NAN = ("Greater", "Less", "Or")


def not_nan(op: Builder, x: Value) -> Value:
    """Whether each element is not NaN."""
    zero, one = op.const(0, like=x), op.const(1, like=x)
    return (x > zero) | (x < one)


LESS = ("Less", "Cast", "Div", "Mul", "Sub", "Equal", "And", "Or")


def less(op: Builder, a: Value, b: Value) -> Value:
    """a < b for integers below opset 9 (to 7), by Casts to a float that holds them."""
    kind = a.elem_type
    if kind in (T.INT64, T.UINT64):
        (high_a, low_a), (high_b, low_b) = _halves(op, a), _halves(op, b)
        return (_double(op, high_a) < _double(op, high_b)) | op.Equal(op.Cast(high_a, to=T.INT64), op.Cast(high_b, to=T.INT64)) & (_double(op, low_a) < _double(op, low_b))
    wide = T.FLOAT if kind in SMALL_INTS else T.DOUBLE
    return op.Cast(a, to=wide) < op.Cast(b, to=wide)


def _halves(op: Builder, x: Value) -> tuple[Value, Value]:
    """x / 2**32 truncated, and the remainder: two numbers that a double holds exactly."""
    base = op.const(2**32, like=x)
    high = x / base
    return high, x - high * base


def _double(op: Builder, x: Value) -> Value:
    return op.Cast(x, to=T.DOUBLE)


ADD_WHERE_NEGATIVE = ("Cast", "Less", "Mul", "Add")


def add_where_negative(
    op: Builder, place: Value, size: Value, negative: Value | None = None
) -> Value:
    """The sum with `size` where an int64 is negative, else the int64 (opset 7 and later).

    A Cast to float keeps the sign of every integer; old runtimes neither compare nor select int64.
    `negative` states where, if the place is a float that was cast: old runtimes merge two Casts.
    """
    if negative is None:
        negative = op.Cast(place, to=T.FLOAT) < op.const(0.0, T.FLOAT)
    return place + op.Cast(negative, to=T.INT64) * size


FROM_FRONT = ("Div", "Sub", *ADD_WHERE_NEGATIVE)


def count_from_front(op: Builder, place: Value, size: Value) -> Value:
    """int64 places from -size to size - 1, counted from the front (opset 7 and later).

    For a known size, the remainder of place + size. A computed size may be 0, where there is no
    place and runtimes refuse to divide.
    """
    known = size.const_or_none()
    if known is None or not known.all():
        return add_where_negative(op, place, size)
    shifted = place + size
    return shifted - shifted / size * size


def neighbours(op: Builder, x: Value) -> tuple[Value, Value] | None:
    """The floats just below and just above constant floats.

    None if one of them is subnormal, because some runtimes read it as zero.
    """
    known, kind = x.const_or_none(), x.elem_type_or_none
    if known is None or kind not in (T.FLOAT, T.DOUBLE, T.FLOAT16) or not np.isfinite(known).all():
        return None
    both = [np.nextafter(known, known.dtype.type(end)) for end in (-np.inf, np.inf)]
    if any((np.abs(one) < np.finfo(known.dtype).smallest_normal).any() for one in both):
        return None
    return op.const(both[0], kind), op.const(both[1], kind)


EQUAL = ("Greater", "Not", "IsNaN", *LESS)


def equal(op: Builder, a: Value, b: Value) -> Value:
    """a == b below opset 11 (to 7) for types that Equal lacks, by what compares them there."""
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
    """a == b: between the neighbours of a constant, or neither less nor greater nor NaN."""
    for x, other in ((a, b), (b, a)):
        if _is_one_zero(other, x):
            return ~op.Cast(x, to=T.BOOL)  # Cast gives true for all but zeros, also for NaN
        around = neighbours(op, other)
        if around is not None:
            return (x > around[0]) & (x < around[1])
    doubtful = [x for x in (a, b) if not _is_number(x)]
    differs = (a < b) | (a > b)
    if op.version < 9 or a.elem_type == T.DOUBLE:  # older runtimes lack IsNaN of double
        return functools.reduce(op.And, [~differs, *(not_nan(op, x) for x in doubtful)])
    return ~functools.reduce(op.Or, [differs, *(op.IsNaN(x) for x in doubtful)])


def _is_one_zero(x: Value, other: Value) -> bool:
    """Whether a value is one constant zero that does not broadcast the other value."""
    known = x.const_or_none()
    return known is not None and known.size == 1 and not known.any() and known.ndim <= (other.rank_or_none or 0)


def _is_number(x: Value) -> bool:
    known = x.const_or_none()
    return known is not None and not np.isnan(known).any()


# -- rounding ------------------------------------------------------------------------------------

ROUND = ("Ceil", "Sub", "Mul", "Floor", "Greater", "Less", "Not", "And", "Or", "Cast")


def round_half_even(op: Builder, x: Value) -> Value:
    """Round below opset 11 (to 7): Ceil, minus 1 where that is nearer, halves to the even one."""
    half, two = op.const(0.5, like=x), op.const(2, like=x)
    above = op.Ceil(x)
    over = above - x
    odd = above - op.Floor(above * half) * two > half
    back = (over > half) | ~(over < half) & odd
    return above - op.Cast(back, to=x.elem_type)

# SPDX-License-Identifier: Apache-2.0
"""Small subgraphs that many decompositions share, in operators of the opset after the step."""

import functools
import math
from collections.abc import Sequence
from typing import Any

from opshift.adapter import Builder, InvalidModel, T, Value, dtype_of, np


def shape_of(op: Builder, x: Value) -> Value:
    """Returns the shape of `x` as a constant if it is static, else as a computed value."""
    shape = x.shape_or_none
    return op.Shape(x) if shape is None else op.const(list(shape))


def counted_axis(x: Value, axis: int) -> int:
    """Returns a negative axis as a non-negative axis if the rank is known, else unchanged."""
    rank = x.rank_or_none if axis < 0 else None
    return axis if rank is None else axis + rank


def size_of(op: Builder, x: Value, axis: int) -> Value:
    """Returns one dimension of `x` as an int64 scalar."""
    axis = counted_axis(x, axis)
    dims = x.dims_or_none
    size = dims[axis] if dims is not None else None
    if isinstance(size, int):
        return op.const(size)
    return op.Gather(op.Shape(x), op.const(axis), axis=0, since=11)


def extent(op: Builder, x: Value, axis: int) -> Value:
    """Returns one dimension as an int64 vector of one element, by Shape (opset 15 and later)."""
    size = x.dims[axis]
    if isinstance(size, int):
        return op.const([size])
    return op.Shape(x, start=axis % x.rank, end=axis % x.rank + 1)


def broadcast(*shapes: tuple[int, ...]) -> list[int]:
    """Returns the shape to which values of these shapes broadcast."""
    try:
        return list(np.broadcast_shapes(*shapes))
    except ValueError:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise InvalidModel(f"values of the shapes {listed} do not broadcast") from None


def reshaped(op: Builder, x: Value, sizes: Sequence[int | str | None]) -> Value | None:
    """Reshapes `x` to these sizes, if at most one size is unknown and no known size is 0."""
    unknown = [at for at, size in enumerate(sizes) if not isinstance(size, int)]
    if len(unknown) > 1 or 0 in sizes:
        return None
    return op.Reshape(x, op.const([s if isinstance(s, int) else -1 for s in sizes]))


def padded_shape(op: Builder, shape: Value, rank: int) -> Value:
    """Prepends ones to a shape until it has `rank` entries."""
    (length,) = shape.shape
    if length == rank:
        return shape
    return op.Concat(op.const([1] * (rank - length)), shape, axis=0)


def longer_sizes(op: Builder, sizes: Value, other_sizes: Value) -> Value:
    """Returns the result of broadcasting two shapes of equal length."""
    equal = op.Equal(sizes, op.const([1] * sizes.shape[0]))
    chosen = op.Cast(equal, to=T.INT64) * other_sizes
    return chosen + op.Cast(~equal, to=T.INT64) * sizes


def one_number(x: Value, source: Value) -> Any:
    """Returns the number if `x` is a constant of one element that does not enlarge `source`."""
    constant = x.const_or_none()
    if constant is None or constant.size != 1 or constant.ndim > (source.rank_or_none or 0):
        return None
    return constant.item()


END = 2**63 - 1


def part(op: Builder, x: Value, start: int, end: int = END) -> Value:
    """Writes Slice for `x[start:end]` of a vector."""
    return op.Slice(x, op.const([start]), op.const([end]), op.const([0]))


def count_elements(op: Builder, shape: Value) -> Value:
    """Returns the product of the sizes in a vector, as a vector of one element (opset >= 7)."""
    length = shape.shape_or_none
    if length is None:
        return op.ReduceProd(op.Concat(op.const([1]), shape, axis=0), keepdims=1)
    sizes = [part(op, shape, at, at + 1) for at in range(length[0])]
    return functools.reduce(op.Mul, sizes) if sizes else op.const([1])


def times_vector(op: Builder, x: Value, vector: Value) -> Value:
    """Multiplies the last axis of `x` by a vector (MatMul), also if `x` has no rows.

    In onnxruntime up to 1.20, this product fails if a leading size of `x` is 0.
    """
    dims, length = x.dims_or_none, vector.shape_or_none
    rows = None if dims is None else dims[:-1]
    if rows is not None and all(isinstance(size, int) and size for size in rows):
        return op.MatMul(x, vector)
    column = op.Unsqueeze(vector, op.const([1]))
    if rows is not None and len(rows) == 1:
        return op.Squeeze(op.MatMul(x, column), op.const([1]))
    if length is None or not length[0]:
        return op.MatMul(x, vector)
    product = op.MatMul(op.Reshape(x, op.const([-1, length[0]])), column)
    return op.Reshape(product, part(op, op.Shape(x), 0, -1), allowzero=1)


def one_slice(op: Builder, x: Value, number: float, axis: int) -> Value:
    """Returns a tensor filled with a number: it has the shape of `x`, but size 1 along `axis`."""
    dims = x.dims_or_none or (None,) * x.rank
    sizes = [1 if i == axis else size for i, size in enumerate(dims)]
    fixed = [size for size in sizes if isinstance(size, int)]
    if len(fixed) == len(sizes) and math.prod(fixed) <= LONGEST:
        return op.const(np.full(fixed, number, dtype_of(x.elem_type)), like=x)
    shape, one = op.Shape(x), op.const([1])
    parts = [part(op, shape, 0, axis), one] if axis else [one]
    if axis < x.rank - 1:
        parts.append(part(op, shape, axis + 1))
    return op.Expand(op.const(number, like=x), op.Concat(*parts, axis=0))


def as_image(op: Builder, x: Value) -> Value:
    """Reshapes [N, C, ...] to [N, C, rest, 1] for operators of 4-D data (below opset 13)."""
    if x.rank_or_none in (2, 3):
        return op.Unsqueeze(x, axes=list(range(x.rank, 4)))
    return op.Reshape(x, op.const([0, 0, -1, 1]))


def from_image(op: Builder, y: Value, x: Value) -> Value:
    """Undoes `as_image(op, x)`: reshapes `y` to the shape of `x`."""
    if x.rank_or_none in (2, 3):
        return op.Squeeze(y, axes=list(range(x.rank, 4)))
    return op.Reshape(y, op.Shape(x))


def element(op: Builder, vector: Value, at: int) -> Value:
    """Writes Gather for `vector[at]` as a scalar."""
    return op.Gather(vector, op.const(at), axis=0)


def column(op: Builder, vector: Value, rank: int, axis: int) -> Value:
    """Writes Unsqueeze to place a vector along one axis of a tensor of this rank."""
    behind = list(range(1, rank - axis))
    return op.Unsqueeze(vector, op.const(behind)) if behind else vector


def squared(op: Builder, x: Value, kind: int) -> Value:
    """Writes Pow with exponent 2, the form of a square that exporters write and runtimes fuse."""
    return op.Pow(x, op.const(2, kind))


LONGEST = 1 << 20  # a longer constant would make up most of the model


def arange(op: Builder, n: Value) -> Value:
    """Returns 0, 1, ..., n-1 for an int64 scalar n."""
    constant = n.const_or_none()
    if constant is not None and constant.flat[0] <= LONGEST:
        return op.const(np.arange(int(constant.flat[0])))
    # A decomposition of Range below opset 11 allows negative limits, but a count is not negative.
    if op.version >= 11:
        return op.Range(op.const(0), n, op.const(1))
    if op.version >= 9:
        return op.Reshape(_positions(op, _as_vector(op, n)), op.const([-1]))
    params = (T.INT64, ()), (T.BOOL, ()), (T.INT64, ())
    body = op.graph(
        lambda b, i, keep, state: (b.Identity(keep), b.Identity(state), b.Identity(i)), *params
    )
    going = op.const(True, T.BOOL)
    counted = op.Loop(n, going, op.const(0), body=body, outputs=2)[1]
    # The Cast and the Reshape declare the type and the rank of the Loop's output, which Add needs.
    return op.Reshape(op.Cast(counted, to=T.INT64), op.const([-1]))


def _as_vector(op: Builder, n: Value) -> Value:
    """Returns a scalar count as a vector; if Gather computes it, gathers a vector instead."""
    if n.shape_or_none == (1,):
        return n
    source = n.producer
    if source is not None and source.op == "Gather" and source["data"].rank_or_none == 1:
        at, sizes = source["indices"].const_or_none(), source["data"].shape_or_none
        if at is not None and at.size == 1 and at.min() < 0 and sizes is not None:
            at = at + sizes[0]
        if at is not None and at.size == 1 and at.min() >= 0:  # Gather accepts no negative index
            return op.Gather(source["data"], op.const(at.reshape(1)), axis=0)
    return op.Reshape(n, op.const([1]))


def _positions(op: Builder, length: Value) -> Value:
    """Returns [[0, 1, ..., n-1]] for a vector of one element n (opset 9 and later)."""
    return op.NonZero(op.ConstantOfShape(length, value=np.array([1])))


def places_along(op: Builder, x: Value, axis: int, behind: int) -> Value:
    """Returns the indices along an axis of `x`, with `behind` trailing axes of size 1."""
    size, goal = size_of(op, x, axis), op.const([-1] + [1] * behind)
    if size.const_or_none() is None and op.version in (9, 10):
        length = op.Gather(op.Shape(x), op.const([axis]), axis=0)
        return op.Reshape(_positions(op, length), goal)
    places = arange(op, size)
    return op.Reshape(places, goal) if behind else places


def add_where_negative(
    op: Builder, place: Value, size: Value, negative: Value | None = None
) -> Value:
    """Adds `size` to each negative element of an int64 tensor (opset 7 and later).

    Old runtimes neither compare nor select int64; a Cast to float keeps the sign of every integer.
    If `place` is the Cast of a float, pass `negative`, because old runtimes merge two Casts.
    """
    if negative is None:
        negative = op.Cast(place, to=T.FLOAT) < op.const(0.0, T.FLOAT)
    return place + op.Cast(negative, to=T.INT64) * size


SHORT = 64  # the largest size for which a table of its indices is written


def count_from_front(op: Builder, place: Value, size: Value) -> Value:
    """Converts int64 indices from -size to size - 1 to non-negative indices (opset >= 7).

    If the size is known, the result is (place + size) % size, by a table if the size is small.
    An unknown size is added to negative indices, because runtimes refuse a division by size 0.
    """
    constant = size.const_or_none()
    if constant is None or not constant.all():
        return add_where_negative(op, place, size)
    shifted = place + size
    if constant.size == 1 and constant.item() <= SHORT:
        return op.Gather(op.const(np.tile(np.arange(constant.item()), 2)), shifted, axis=0)
    return shifted - shifted / size * size

# SPDX-License-Identifier: Apache-2.0
"""Operators of early releases of onnx whose schemas no longer exist."""

from collections.abc import Callable
from math import prod
from typing import TypeVar

from opshift.adapter import Builder, InvalidModel, Node, Refusal, Result, T, Value, Why, np, retired
from opshift.objections import LARGEST_RANK

from opshift_adapters._lib.blocks import END
from opshift_adapters._lib.kinds import FLOATS

V = TypeVar("V")
MOST_FILLED = 2**24  # the most elements of a constant that ConstantFill becomes


def _needed(node: Node, name: str, read: Callable[[str], V]) -> V:
    """Returns a required attribute, read by `read`; refuses the node if the attribute is absent."""
    if node.attr(name) is None:
        raise Refusal(Why.AMBIGUOUS, f"no specification defines {node.op} without {name!r}")
    return read(name)


def needed(node: Node, position: int) -> Value:
    """Returns the input at a position; refuses the node if the input is omitted."""
    found = node.input_at(position)
    if found is None:
        raise Refusal(Why.AMBIGUOUS, f"{node.op} lacks its input {position}")
    return found


def number(node: Node, name: str, default: float) -> float:
    """Returns a float attribute, or its default."""
    return default if node.attr(name) is None else node.float(name)


def _numbers(node: Node) -> Value:
    """Returns the first input; raises InvalidModel if its type is known and not a float type."""
    x = needed(node, 0)
    if x.elem_type_or_none not in (None, *FLOATS):
        raise InvalidModel(f"{node.op} {node.name!r} needs floats, but its input has another type")
    return x


@retired("Affine")
def affine(node: Node, op: Builder) -> Result:
    """Affine is written as alpha * x + beta."""
    return _numbers(node) * number(node, "alpha", 1) + number(node, "beta", 0)


@retired("Scale")
def scale(node: Node, op: Builder) -> Result:
    """Scale is written as Mul by a number."""
    return _numbers(node) * number(node, "scale", 1)


@retired("ImageScaler")
def image_scaler(node: Node, op: Builder) -> Result:
    """ImageScaler is written as scale * x + bias, with a bias for each channel."""
    x, bias = _numbers(node), np.array(_needed(node, "bias", node.floats))
    scaled = x * number(node, "scale", 1)
    if op.version >= 7:
        return scaled + bias.reshape(-1, 1, 1)
    return op.Add(scaled, op.const(bias, like=x), axis=1, broadcast=1)


@retired("ParametricSoftplus")
def parametric_softplus(node: Node, op: Builder) -> Result:
    """ParametricSoftplus is written as alpha * Softplus(beta * x)."""
    soft = op.Softplus(_numbers(node) * _needed(node, "beta", node.float))
    return soft * _needed(node, "alpha", node.float)


@retired("ScaledTanh")
def scaled_tanh(node: Node, op: Builder) -> Result:
    """ScaledTanh is written as alpha * Tanh(beta * x)."""
    bent = op.Tanh(_numbers(node) * _needed(node, "beta", node.float))
    return bent * _needed(node, "alpha", node.float)


@retired("FC")
def fc(node: Node, op: Builder) -> Result:
    """FC, a product with transposed weights, is written as Flatten of both inputs and Gemm."""
    x, w, b = node.inputs
    assert x is not None
    assert w is not None
    rows = op.Flatten(x, axis=int(number(node, "axis", 1)))
    columns = op.Flatten(w, axis=int(number(node, "axis_w", 1)))
    return op.Gemm(rows, columns, b, transB=1, since=7)


@retired("Crop")
def crop(node: Node, op: Builder) -> Result:
    """Crop, which removes borders or keeps a part of a fixed size, is written as Slice."""
    border, size = _needed(node, "border", node.ints), node.ints_or_none("scale")
    if len(border) != 4 or (size is not None and len(size) != 2):
        raise InvalidModel(f"Crop {node.name!r}: border must have four numbers, and scale two")
    left, top, right, bottom = border
    ends = [-bottom or END, -right or END] if size is None else [top + size[0], left + size[1]]
    starts = op.const([top, left])
    return op.Slice(needed(node, 0), starts, op.const(ends), op.const([2, 3]))


@retired("DynamicSlice")
def dynamic_slice(node: Node, op: Builder) -> Result:
    """DynamicSlice, whose bounds are inputs, is written as Slice."""
    x, *bounds = node.inputs or (None,)
    if x is None or None in bounds[:2] or len(bounds) < 2:
        raise InvalidModel(f"DynamicSlice {node.name!r} lacks the input data or a bound")
    kinds = {value.elem_type_or_none for value in bounds if value is not None}
    if not kinds <= {T.INT32, T.INT64, None}:
        raise InvalidModel(f"DynamicSlice {node.name!r} has bounds that are not integers")
    if not {value.rank_or_none for value in bounds if value is not None} <= {1, None}:
        raise InvalidModel(f"DynamicSlice {node.name!r} has bounds that are not vectors")
    dims = [value.dims for value in bounds if value is not None and value.dims_or_none]
    counts = [dim[0] for dim in dims if isinstance(dim[0], int)]
    if x.rank_or_none is not None and max(counts, default=0) > x.rank:
        raise InvalidModel(f"DynamicSlice {node.name!r} has bounds for more axes than its data has")
    if op.version < 10:  # an early opset has too few facts for other indices
        bounds = [value and op.const(value.const()) for value in bounds]
    return op.Slice(x, *bounds)


@retired("ConstantFill")
def constant_fill(node: Node, op: Builder) -> Result:
    """ConstantFill is written as ConstantOfShape, Expand or a constant."""
    kind = int(number(node, "dtype", T.FLOAT))
    if kind in (T.STRING, T.UNDEFINED) or not T.has(kind):
        raise InvalidModel(f"ConstantFill {node.name!r} has the dtype {kind}, which is not numeric")
    value = op.const(np.array(number(node, "value", 0)), kind)
    shape = _fill_shape(node, op)
    if shape.rank_or_none not in (1, None):
        raise InvalidModel(f"ConstantFill {node.name!r} has a shape input that is not a vector")
    lengths = shape.dims_or_none
    if lengths and isinstance(lengths[0], int) and lengths[0] > LARGEST_RANK:
        raise InvalidModel(
            f"ConstantFill {node.name!r} has a shape of {lengths[0]} sizes, which are too many"
        )
    constant = shape.const_or_none() if op.version < 9 else None
    if constant is not None and prod(constant.tolist()) <= MOST_FILLED:
        return op.const(np.full(constant, value.const()), kind)
    return op.ConstantOfShape(shape, value=value.const().reshape(1))


def _sizes(node: Node, sizes: list[int]) -> list[int]:
    if any(size < 0 for size in sizes):
        raise InvalidModel(f"{node.op} {node.name!r} has a negative size: its shape is {sizes}")
    return sizes


def _fill_shape(node: Node, op: Builder) -> Value:
    """Returns the shape to fill: the attribute `shape` or the input, followed by `extra_shape`."""
    extra = node.ints_or_none("extra_shape") or []
    if not node.inputs or node.inputs[0] is None:
        return op.const(_sizes(node, [*_needed(node, "shape", node.ints), *extra]))
    x = node.inputs[0]
    if number(node, "input_as_shape", 0):
        known, shape = x.const_or_none(), x
    else:
        static = x.shape_or_none
        known = None if static is None else np.array(static, dtype=np.int64)
        shape = x if static is not None else op.Shape(x)
    if known is not None:
        return op.const(_sizes(node, [*known.tolist(), *extra]))
    return op.Concat(shape, op.const(extra), axis=0) if extra else shape


@retired("GivenTensorFill")
def given_tensor_fill(node: Node, op: Builder) -> Result:
    """GivenTensorFill is written as a constant with the numbers of its attribute `values`."""
    shape = _fill_shape(node, op).const()
    values = np.array(_needed(node, "values", node.floats))
    if values.size != np.prod(shape):
        raise InvalidModel(
            f"GivenTensorFill {node.name!r} has {values.size} values for the shape {shape.tolist()}"
        )
    return op.const(values.reshape(shape), T.FLOAT)


@retired("ATen GRUUnit LoopIndexTensor")
def unknown_by_now(node: Node, op: Builder) -> Result:
    """Refuses an experimental operator, whose result no specification defines."""
    raise Refusal(Why.NOT_EXPRESSIBLE, f"no specification defines what {node.op} computes")

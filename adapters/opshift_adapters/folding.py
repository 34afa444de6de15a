"""Evaluation of small operators, so that shapes, axes and bounds made in the graph are constants.

A function returns None where it is not sure; a Refusal, as for a value that is not constant, and
an illegal operand mean the same. Versions differ in attribute or input, so both forms are read.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from opshift.adapter import Array, Fold, Node, T, Value, fold

MAX_ELEMENTS = 1 << 16
DTYPES: dict[int, Any] = {
    T.FLOAT: np.float32,
    T.DOUBLE: np.float64,
    T.FLOAT16: np.float16,
    T.BOOL: np.bool_,
    T.INT8: np.int8,
    T.INT16: np.int16,
    T.INT32: np.int32,
    T.INT64: np.int64,
    T.UINT8: np.uint8,
    T.UINT16: np.uint16,
    T.UINT32: np.uint32,
    T.UINT64: np.uint64,
}
Elementwise = Callable[..., Any]


def small(value: Value) -> Array:
    """A constant that is no weight: those are not read for nothing."""
    shape = value.shape_or_none if value.producer is None else None
    if shape is not None and math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(shape)
    return value.const()


def known(node: Node, position: int) -> Array:
    """An input that must be there and be constant."""
    value = node.inputs[position]
    if value is None:
        raise IndexError(position)
    return small(value)


def numbers(node: Node, position: int) -> Array:
    """The same, of an element type that numpy computes with as onnx does."""
    found = known(node, position)
    if found.dtype.kind not in "iufb":
        raise ValueError(found.dtype)
    return found


def setting(node: Node, name: str, default: Any = None) -> Any:
    """An attribute, or what it is where it is not written or not there yet."""
    return node.attr(name) if name in node.attributes else default


def listed(node: Node, name: str, position: int) -> list[int] | None:
    """Whole numbers that are an attribute in some versions and an input in others."""
    if name in node.attributes:
        return [int(v) for v in node.attr(name)]
    if position < len(node.inputs) and node.inputs[position] is not None:
        return [int(v) for v in known(node, position).reshape(-1)]
    return None


def sized(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that is small enough to be filled while converting."""
    if math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(shape)
    return tuple(int(size) for size in shape)


def table(operators: dict[str, Callable[[Node], Array | None]]) -> tuple[Fold, ...]:
    return tuple(fold(name)(run) for name, run in operators.items())


# -- shapes ----------------------------------------------------------------------------------


def sizes(node: Node) -> list[int | str | None]:
    """The dimensions a Shape node gives, with symbols or None where they are not static."""
    value = node["data"]
    dims = value.dims_or_none
    if dims is None:
        dims = value.const().shape
    return list(dims)[setting(node, "start", 0) : setting(node, "end")]


def static(entries: Array) -> Array | None:
    """Picked dimensions, if each of them is a number."""
    if not all(isinstance(size, int) and size >= 0 for size in entries.reshape(-1)):
        return None
    return entries.astype(np.int64)


def entries(value: Value) -> Array:
    """A constant, or the dimensions of which perhaps only some are needed."""
    node = value.producer
    if node is None or node.proto.domain not in ("", "ai.onnx") or node.op != "Shape":
        return small(value)
    return np.array(sizes(node), dtype=object)


def picked(found: Array) -> Array | None:
    return static(found) if found.dtype == object else found


@fold("Shape")
def shape(node: Node) -> Array | None:
    return static(np.array(sizes(node), dtype=object))


@fold("Size")
def size(node: Node) -> Array | None:
    value = node["data"]
    found = value.shape_or_none
    return np.array(math.prod(value.const().shape if found is None else found), dtype=np.int64)


@fold("Gather")
def gather(node: Node) -> Array | None:
    data = entries(node["data"])
    axis, indices = setting(node, "axis", 0) % data.ndim, numbers(node, 1).astype(np.int64)
    found = data.take(indices.reshape(-1), axis=axis)
    return picked(found.reshape(data.shape[:axis] + indices.shape + data.shape[axis + 1 :]))


@fold("Slice")
def slice_(node: Node) -> Array | None:
    data = entries(node["data"])
    starts, ends = listed(node, "starts", 1), listed(node, "ends", 2)
    if starts is None or ends is None:
        return None
    axes, steps = listed(node, "axes", 3), listed(node, "steps", 4) or [1] * len(starts)
    cut = [slice(None)] * data.ndim
    for axis, *bounds in zip(axes or range(len(starts)), starts, ends, steps, strict=True):
        cut[axis] = slice(*bounds)
    return picked(data[tuple(cut)])


# -- movement --------------------------------------------------------------------------------


@fold("Concat")
def concat(node: Node) -> Array | None:
    parts = [known(node, i) for i in range(len(node.inputs))]
    return np.concatenate(parts, axis=setting(node, "axis", 1))


@fold("Squeeze")
def squeeze(node: Node) -> Array | None:
    axes = listed(node, "axes", 1)
    if axes == []:
        return None  # runtimes differ
    return known(node, 0).squeeze(None if axes is None else tuple(axes))


@fold("Unsqueeze")
def unsqueeze(node: Node) -> Array | None:
    axes = listed(node, "axes", 1)
    return None if axes is None else np.expand_dims(known(node, 0), tuple(axes))


@fold("Reshape")
def reshape(node: Node) -> Array | None:
    data, wanted = known(node, 0), listed(node, "shape", 1)
    if wanted is None:
        return None
    if not setting(node, "allowzero", 0):
        wanted = [data.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    return data.reshape(wanted)


@fold("Flatten")
def flatten(node: Node) -> Array | None:
    data, axis = known(node, 0), setting(node, "axis", 1)
    if axis < 0:
        axis += data.ndim
    return data.reshape(math.prod(data.shape[:axis]), math.prod(data.shape[axis:]))


@fold("Transpose")
def transpose(node: Node) -> Array | None:
    return known(node, 0).transpose(setting(node, "perm"))


@fold("Expand")
def expand(node: Node) -> Array | None:
    data = known(node, 0)
    wanted = np.broadcast_shapes(data.shape, sized(known(node, 1).tolist()))
    return np.array(np.broadcast_to(data, sized(wanted)))


@fold("Tile")
def tile(node: Node) -> Array | None:
    if len(node.inputs) != 2:
        return None
    data, repeats = known(node, 0), known(node, 1).tolist()
    sized([n * times for n, times in zip(data.shape, repeats, strict=True)])
    return np.tile(data, repeats)


@fold("NonZero")
def non_zero(node: Node) -> Array | None:
    data = numbers(node, 0)
    return np.array(np.nonzero(data), dtype=np.int64) if data.ndim else None


# -- generators ------------------------------------------------------------------------------


@fold("ConstantOfShape")
def constant_of_shape(node: Node) -> Array | None:
    filler = node.tensor("value") if node.has("value") else np.zeros(1, dtype=np.float32)
    return np.full(sized(known(node, 0).tolist()), filler.reshape(-1)[0], dtype=filler.dtype)


@fold("Range")
def range_(node: Node) -> Array | None:
    start, limit, delta = (numbers(node, i) for i in range(3))
    if start.dtype.kind != "i" or not delta:
        return None
    steps = range(int(start.item()), int(limit.item()), int(delta.item()))
    sized([len(steps)])
    return np.array(steps, dtype=start.dtype)


# -- arithmetic ------------------------------------------------------------------------------


@fold("Cast")
def cast(node: Node) -> Array | None:
    data, to = numbers(node, 0), node.attr("to")
    number = T.__members__.get(to.decode(), T.UNDEFINED) if isinstance(to, bytes) else int(to)
    dtype = DTYPES.get(number)
    if dtype is None:
        return None
    if data.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        wide = data.astype(np.float64)
        if not np.all((wide > float(limits.min) - 1) & (wide < float(limits.max) + 1)):
            return None  # out of range, and runtimes differ
    return data.astype(dtype)


def elementwise(compute: Elementwise, kinds: str = "iuf") -> Callable[[Node], Array | None]:
    """An operator that numpy has, on operands that are stretched to fit."""

    def run(node: Node) -> Array | None:
        operands = [numbers(node, i) for i in range(len(node.inputs))]
        stretched = setting(node, "broadcast", 0) and "axis" in node.attributes
        if stretched or not all(one.dtype.kind in kinds for one in operands):
            return None
        sized(np.broadcast_shapes(*(one.shape for one in operands)))
        with np.errstate(all="ignore"):
            found = compute(*operands)
        return None if found is None else np.asarray(found)

    return run


def divide(a: Array, b: Array) -> Array | None:
    """Whole numbers are cut off towards zero; dividing them by zero has no result."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not np.all(b):
        return None
    quotient = a // b
    return np.asarray(quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype))


def over_all(step: Elementwise) -> Elementwise:
    """A function of two operands for any number of them."""

    def run(*operands: Array) -> Array:
        found = operands[0]
        for one in operands[1:]:
            found = step(found, one)
        return found

    return run


ARITHMETIC = table(
    {
        "Add": elementwise(np.add),
        "Sub": elementwise(np.subtract),
        "Mul": elementwise(np.multiply),
        "Div": elementwise(divide),
        "Neg": elementwise(np.negative),
        "Abs": elementwise(np.abs),
        "Floor": elementwise(np.floor, "f"),
        "Ceil": elementwise(np.ceil, "f"),
        "Round": elementwise(np.round, "f"),
        "Sqrt": elementwise(np.sqrt, "f"),
        "Min": elementwise(over_all(np.minimum)),
        "Max": elementwise(over_all(np.maximum)),
        "Sum": elementwise(over_all(np.add)),
    }
)
LOGIC = table(
    {
        "Equal": elementwise(np.equal, "iufb"),
        "Less": elementwise(np.less),
        "LessOrEqual": elementwise(np.less_equal),
        "Greater": elementwise(np.greater),
        "GreaterOrEqual": elementwise(np.greater_equal),
        "Not": elementwise(np.logical_not, "b"),
        "And": elementwise(np.logical_and, "b"),
        "Or": elementwise(np.logical_or, "b"),
        "Xor": elementwise(np.logical_xor, "b"),
        "Where": elementwise(np.where, "iufb"),
    }
)


@fold("Mod")
def mod(node: Node) -> Array | None:
    a, b = numbers(node, 0), numbers(node, 1)
    if a.dtype.kind == "f" or not np.all(b):
        return None
    return np.asarray(np.fmod(a, b) if setting(node, "fmod", 0) else np.mod(a, b))


def reduction(compute: Elementwise) -> Callable[[Node], Array | None]:
    """Whole numbers only: the order in which floats are added is not known."""

    def run(node: Node) -> Array | None:
        data, axes = numbers(node, 0), listed(node, "axes", 1)
        if data.dtype.kind not in "iu" or not data.size:
            return None
        if not axes and setting(node, "noop_with_empty_axes", 0):
            return data
        over, keepdims = tuple(axes) if axes else None, bool(setting(node, "keepdims", 1))
        return np.asarray(compute(data, axis=over, keepdims=keepdims)).astype(data.dtype)

    return run


REDUCTIONS = table(
    {
        "ReduceProd": reduction(np.prod),
        "ReduceSum": reduction(np.sum),
        "ReduceMax": reduction(np.max),
        "ReduceMin": reduction(np.min),
    }
)

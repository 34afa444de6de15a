# SPDX-License-Identifier: Apache-2.0
"""ScatterElements and ScatterND, which become Scatter below opset 11, and their `reduction`."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from opshift.adapter import (
    KEEP,
    Array,
    Builder,
    InvalidModel,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    by_width,
    misread,
    np,
)

from opshift_adapters._lib.blocks import count_elements, part, shape_of, size_of
from opshift_adapters._lib.by_place import (
    REDUCERS,
    Rows,
    combined,
    most_pairs,
    neutral,
    reduced_rows,
    unfit_updates,
)
from opshift_adapters._lib.kinds import WIDE_FLOATS, as_type
from opshift_adapters._lib.makers import maker
from opshift_adapters.select.gather import from_front, linear, place_of_elements, row_width

UNORDERED = (T.BOOL, T.STRING, T.COMPLEX64, T.COMPLEX128)


def only_moves(node: Node) -> bool:
    return "reduction" not in node.attributes or node.str("reduction") == "none"


REDUCED = by_width("ScatterElements ScatterND", unless=only_moves)  # integers wrap around
SCATTER_16 = boundary(16, "ScatterElements:8031ad ScatterND:c5242f", directions="up")
SCATTER_18 = boundary(18, "ScatterElements:765e77 ScatterND:a6b0ae", directions="up")


@adapter("ScatterElements ScatterND", 16, 15)
def scatter_16_15(node: Node, op: Builder) -> Result:
    """Below opset 16, ScatterElements and ScatterND lack `reduction`; values are gathered first."""
    return op.same(node, reduction=None) if only_moves(node) else _reduced(node, op)


@adapter("ScatterElements ScatterND", 18, 17)
def scatter_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, ScatterElements and ScatterND lack max and min; values are gathered first."""
    return _reduced(node, op) if _is_extreme(node) else KEEP


misread_scatter = functools.partial(misread, "ScatterElements ScatterND", since=16)
OF_TYPES = "2026-11-30 22 releases, 1.11..1.32: 12 types"


@misread_scatter("onnxruntime 1.11..1.13", source="2026-11-29 1.11..1.32: 14 nodes", before=18)
def reduces_like_opset_18(node: Node) -> bool:
    """{op} below opset 18 with the reduction max or min of opset 18 only overwrites values."""
    return _is_extreme(node)


@misread_scatter("onnxruntime 1.11..1.32", source=OF_TYPES, wider="data")
def lacks_the_reduction(node: Node) -> bool:
    """{op} of float16, bool or strings does not run with this reduction."""
    kind = node["data"].elem_type_or_none
    if kind == T.STRING:
        return not only_moves(node) and node.str("reduction") != "add"
    runs = only_moves(node) or (node.op == "ScatterElements" and _is_extreme(node))
    return _is_extreme(node) if kind == T.BOOL else kind == T.FLOAT16 and not runs


@misread_scatter("onnxruntime 1.14..1.17", source=OF_TYPES, wider="data")
def is_extreme_of_float16(node: Node) -> bool:
    """{op} of float16 does not run with the reduction max or min."""
    return _is_extreme(node) and node["data"].elem_type_or_none == T.FLOAT16


@misread("ScatterND", "onnxruntime 1.0..1.10", source="2026-11-30 31 releases, 1.2..1.32: 3 forms")
def may_have_negative_indices(node: Node) -> bool | None:
    """ScatterND with negative indices does not run."""
    indices, counted = node["indices"], maker(node["indices"], "Mod")
    constant = indices.const_or_none()
    if constant is not None:
        return bool((constant < 0).any())
    return False if indices.never_negative or (counted and not counted.int("fmod")) else None


@alternative("ScatterElements ScatterND", runtime="onnxruntime==1.11")
def combined_first(node: Node, op: Builder) -> Result:
    """Nodes compute a reduction max or min; negative indices of ScatterND count from the front."""
    if _is_extreme(node):
        return _reduced(node, op)
    width = (node["indices"].dims_or_none or (None,))[-1]
    if node.op == "ScatterElements" or not isinstance(width, int):
        return KEEP  # pragma: no cover: all measured releases run the other nodes of the examples
    sizes = part(op, shape_of(op, node["data"]), 0, width)
    return op.same(node, inputs={"indices": op.Mod(node["indices"], sizes)})


def _is_extreme(node: Node) -> bool:
    return "reduction" in node.attributes and node.str("reduction") in ("max", "min")


def _reduced(node: Node, op: Builder) -> Value:
    return (_reduced_elements if node.op == "ScatterElements" else _reduced_rows)(node, op)


def _reduced_elements(node: Node, op: Builder) -> Value:
    name, axis = node.str("reduction"), node.int("axis")
    data, indices, updates = node["data"], node["indices"], node["updates"]
    _require_ordered(op, name, data)
    if indices.has_zero_dim:
        return op.Identity(data)
    if _are_different_along(indices, axis, data):
        new = combined(op, name, op.GatherElements(data, indices, axis=axis), updates)
        return op.ScatterElements(data, indices, new, axis=axis)
    rank, kind = data.rank_or_none, data.elem_type_or_none
    if not rank or kind is None or indices.rank_or_none != rank:
        return _line_by_line(op, name, axis, data, indices, updates)
    lines = _Lines(op, name, axis % rank, data, indices, updates)
    places = lines.common_places()
    if lines.are_few(MOST_OF_LINES if places is None else most_pairs(places, rank)):
        return _all_at_once(op, name, axis, data, indices, updates)
    return lines.by_element() if places is None else lines.by_row(places)


SHORT = 32  # the largest axis for which the rows of an identity matrix are written
MOST_OF_LINES = 2**20  # pairs of an element and an update of its line that are compared at once


@dataclass(frozen=True, slots=True)
class _Lines:
    """The inputs of a ScatterElements of known rank and type; its lines run along `axis`."""

    op: Builder
    name: str
    axis: int
    data: Value
    indices: Value
    updates: Value

    def are_few(self, most: int) -> bool:
        """Returns whether the data are floats, and elements times updates per line are few."""
        dims, sizes, axis = self.data.shape_or_none, self.indices.shape_or_none, self.axis
        if self.data.elem_type not in WIDE_FLOATS or not dims or not sizes:
            return False
        if 0 in (*dims, *sizes) or _without(dims, axis) != _without(sizes, axis):
            return False
        return math.prod(dims) * sizes[axis] <= most

    def common_places(self) -> Value | None:
        """Returns the indices of a line as a vector if all lines have equal indices, else None."""
        if self.data.rank == 1:
            return self.indices
        dims, sizes = self.data.dims_or_none, self.updates.dims_or_none
        if dims is None or sizes is None or None in _without(dims, self.axis):
            return None
        if _without(dims, self.axis) != _without(sizes, self.axis):
            return None
        constant = self.indices.const_or_none()
        if constant is not None:
            first = np.moveaxis(constant, self.axis, 0).reshape(constant.shape[self.axis], -1)
            return self.op.const(first[:, 0]) if (first == first[:, :1]).all() else None
        expand = self.indices.producer
        if expand is None or expand.op != "Expand":
            return None
        source = expand["input"]
        if (dims := source.dims_or_none) is None or len(dims) != self.data.rank:
            return None
        if dims[self.axis] == 1 or set(_without(dims, self.axis)) != {1}:
            return None
        return _vector(self.op, source)

    def by_row(self, places: Value) -> Value:
        """Writes the reduction of whole rows, because all lines have the same indices."""
        op, axis, rank = self.op, self.axis, self.data.rank
        order = [axis, *(i for i in range(rank) if i != axis)]
        news = op.Transpose(self.updates, perm=order) if axis else self.updates
        counted = _counted(op, places, self.data, axis)
        total = self._reduced(counted, news, size_of(op, self.data, axis))
        if axis:
            total = op.Transpose(total, perm=np.argsort(order).tolist())
        return combined(op, self.name, self.data, total)

    def by_element(self) -> Value:
        """Writes the reduction of single elements, at their indices in the flattened data."""
        op, data, flat = self.op, self.data, self.op.const([-1])
        indices = as_type(op, self.indices, T.INT64)
        counted = from_front(op, indices, data, self.axis)
        place = op.Reshape(place_of_elements(op, data, counted, data.rank, self.axis), flat)
        count = op.Reshape(count_elements(op, shape_of(op, data)), op.const([]))
        total = self._reduced(place, op.Reshape(self.updates, flat), count)
        return combined(op, self.name, data, _shaped_like(op, total, data))

    def _reduced(self, places: Value, news: Value, count: Value) -> Value:
        dims = self.indices.dims_or_none
        length = dims[self.axis] if dims is not None else None
        most = length if isinstance(length, int) else None
        places = as_type(self.op, places, T.INT64)
        return reduced_rows(self.op, Rows(places, news, count, most, self.name))


def _without(sizes: Sequence[object], axis: int) -> list[object]:
    return [size for i, size in enumerate(sizes) if i != axis]


def _vector(op: Builder, indices: Value) -> Value:
    """Returns indices as a vector: the input of their Unsqueeze, or a Reshape."""
    source = indices.producer
    if source is not None and source.op == "Unsqueeze" and source["data"].rank_or_none == 1:
        return source["data"]
    return op.Reshape(indices, op.const([-1]))


def _counted(op: Builder, places: Value, data: Value, axis: int) -> Value:
    """Converts negative indices along an axis to non-negative indices."""
    size = size_of(op, data, axis).const_or_none()
    if places.never_negative or places.const_or_none() is not None or not size:
        return from_front(op, places, data, axis)
    return op.Mod(as_type(op, places, T.INT64), op.const(size))


def _shaped_like(op: Builder, x: Value, data: Value) -> Value:
    return op.Reshape(x, shape_of(op, data), allowzero=1)


def _all_at_once(
    op: Builder, name: str, axis: int, data: Value, indices: Value, updates: Value
) -> Value:
    """Compares each element with each update of its line, and reduces the matching updates."""
    axis %= data.rank
    if axis == data.rank - 1 and data.shape[axis] <= SHORT:
        rows = op.const(np.eye(data.shape[axis], dtype=bool))
        new, along, chosen = data.rank, axis, op.Gather(rows, indices, axis=0)
    else:
        new, along, chosen = axis, axis + 1, _compared(op, indices, data.shape, axis)
    unchosen = op.const(neutral(name, data.elem_type), like=data)
    news = op.Where(chosen, op.Unsqueeze(updates, op.const([new])), unchosen)
    if name == "add":
        return data + op.ReduceSum(news, op.const([along]), keepdims=0)
    return combined(op, name, data, op.emit(REDUCERS[name], news, axes=[along], keepdims=0))


def _compared(op: Builder, indices: Value, shape: tuple[int, ...], axis: int) -> Value:
    """Returns whether an index refers to an element; elements are a new axis before the indices."""
    size = shape[axis]
    places = np.arange(size).reshape([size if i == axis else 1 for i in range(len(shape) + 1)])
    unsqueezed = op.Unsqueeze(indices, op.const([axis]))
    front = op.Equal(unsqueezed, op.const(places, like=indices))
    if indices.never_negative:
        return front
    return front | op.Equal(unsqueezed, op.const(places - size, like=indices))


def _line_by_line(
    op: Builder, name: str, axis: int, data: Value, indices: Value, updates: Value
) -> Value:
    """Writes a Loop over `axis`; each iteration updates at most one element of each line."""

    def write(b: Builder, i: Value, keep: Value, now: Value) -> tuple[Value, Value]:
        one = b.Unsqueeze(i, b.const([0]))
        place = b.Gather(indices, one, axis=axis)
        old = b.GatherElements(now, place, axis=axis)
        new = combined(b, name, old, b.Gather(updates, one, axis=axis))
        return b.Identity(keep), b.ScatterElements(now, place, new, axis=axis)

    body = op.graph(write, (T.INT64, ()), (T.BOOL, ()), data)
    return op.Loop(size_of(op, indices, axis), op.const(True, T.BOOL), data, body=body)


def _reduced_rows(node: Node, op: Builder) -> Value:
    name = node.str("reduction")
    data, indices, updates = node["data"], node["indices"], node["updates"]
    if (fault := unfit_updates(node)) is not None:
        raise InvalidModel(f"{node.op} {node.name!r}: {fault}")
    _require_ordered(op, name, data)
    if updates.has_zero_dim:
        return op.Identity(data)
    if _are_different_rows(indices, data):
        new = combined(op, name, op.GatherND(data, indices), updates)
        return op.ScatterND(data, indices, new)
    dims, rank = indices.dims_or_none, data.rank_or_none
    width = dims[-1] if dims else None
    if not isinstance(width, int) or rank is None or data.elem_type_or_none is None:
        return _one_by_one(op, name, data, indices, updates)
    if width == 1:
        places = _counted(op, _vector(op, indices), data, 0)
    else:
        places = op.Reshape(linear(op, indices, data), op.const([-1]))
    count = _row_count(op, indices)
    news = updates if indices.rank == 2 else _as_rows(op, updates, count, indices.rank - 1)
    constant = count.const_or_none()
    most = int(constant.item()) if constant is not None else None
    total = reduced_rows(op, Rows(places, news, _place_count(op, data, width), most, name))
    if width > 1:
        total = _shaped_like(op, total, data)
    return combined(op, name, data, total)


def _place_count(op: Builder, data: Value, width: int) -> Value:
    """Returns the product of the sizes of the first `width` axes, as a scalar."""
    shape = data.shape_or_none
    if shape is not None:
        return op.const(math.prod(shape[:width]))
    sizes = [size_of(op, data, axis) for axis in range(width)]
    return functools.reduce(op.Mul, sizes)


def _require_ordered(op: Builder, name: str, data: Value) -> None:
    """Refuses element types for which no operator computes the reduction."""
    if data.elem_type_or_none in UNORDERED:
        raise Refusal(Why.NOT_EXPRESSIBLE, f"no operator computes {name!r} for this element type")
    if data.elem_type_or_none is None and any(map(data.may_be, UNORDERED)):
        op.ask_caller(Why.NEEDS_TYPE, f"the element type of {data.name!r} is unknown")


def _are_different_along(indices: Value, axis: int, data: Value) -> bool:
    """Returns whether no two indices of a line along `axis` are known to be equal."""
    known, dims = indices.const_or_none(), indices.dims_or_none
    if known is None:
        return bool(dims) and dims is not None and dims[axis] == 1
    places = _from_front(known, data, axis)
    if places is None:
        return False
    ordered = np.sort(places, axis=axis)
    return bool(np.all(np.diff(ordered, axis=axis) != 0))


def _are_different_rows(indices: Value, data: Value) -> bool:
    """Returns whether all rows of constant indices are known to differ."""
    known, dims = indices.const_or_none(), indices.shape_or_none
    if known is None:
        return dims is not None and math.prod(dims[:-1]) == 1
    columns = []
    for axis in range(known.shape[-1]):
        column = _from_front(known[..., axis], data, axis)
        if column is None:
            return False
        columns.append(column.ravel())
    rows = np.stack(columns, axis=-1)
    return len(np.unique(rows, axis=0)) == len(rows)


def _from_front(indices: Array, data: Value, axis: int) -> Array | None:
    """Returns the indices as non-negative numbers, or None if the size of the axis is unknown."""
    if not (indices < 0).any():
        return indices
    dims = data.dims_or_none
    size = dims[axis] if dims is not None else None
    return np.where(indices < 0, indices + size, indices) if isinstance(size, int) else None


def _one_by_one(op: Builder, name: str, data: Value, indices: Value, updates: Value) -> Value:
    """Writes the reduction as a Loop over the rows of the indices."""
    count = _row_count(op, indices)
    rows = _as_rows(op, indices, count, indices.rank - 1)
    news = _as_rows(op, updates, count, indices.rank - 1)

    def write(b: Builder, i: Value, keep: Value, now: Value) -> tuple[Value, Value]:
        one = b.Unsqueeze(i, b.const([0]))
        row = b.Gather(rows, one, axis=0)
        new = combined(b, name, b.GatherND(now, row), b.Gather(news, one, axis=0))
        return b.Identity(keep), b.ScatterND(now, row, new)

    body = op.graph(write, (T.INT64, ()), (T.BOOL, ()), data)
    return op.Loop(op.Reshape(count, op.const([])), op.const(True, T.BOOL), data, body=body)


def _row_count(op: Builder, indices: Value) -> Value:
    shape = indices.shape_or_none
    if shape is not None:
        return op.const([math.prod(shape[:-1])])
    return count_elements(op, op.Shape(indices, end=-1))


def _as_rows(op: Builder, x: Value, count: Value, leading: int) -> Value:
    """Merges the leading axes of a tensor into one axis."""
    known, shape = count.const_or_none(), x.shape_or_none
    if known is not None and shape is not None:
        goal = op.const([*known.tolist(), *shape[leading:]])
    else:
        goal = op.Concat(count, op.Shape(x, start=leading), axis=0)
    return op.Reshape(x, goal, allowzero=1)


@adapter("ScatterElements", 11, 10)
def scatter_elements_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, ScatterElements is named Scatter and has no negative indices."""
    data, axis = node["data"], node.int("axis")
    indices = from_front(op, node["indices"], data, axis)
    return op.Scatter(data, indices, node["updates"], axis=axis)


@adapter("ScatterND", 11, 10)
def scatter_nd_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, ScatterND is written as a Scatter of the rows of the flattened tensor."""
    data, indices = node["data"], node["indices"]
    width, updates = row_width(indices), node["updates"]
    flat = width == 1 and data.rank_or_none == 2
    rows = data if flat else op.Flatten(data, axis=width)
    if indices.rank == 1:
        updates = op.Unsqueeze(updates, axes=[0])
    if not flat or indices.rank != 2:
        updates = op.Flatten(updates, axis=max(indices.rank - 1, 1))
    place = from_front(op, indices, data, 0) if width == 1 else linear(op, indices, data)
    if width > 1 or indices.rank != 2:
        place = op.Reshape(place, op.const([-1, 1]))
    written = op.Scatter(rows, op.Expand(place, op.Shape(updates)), updates, axis=0)
    return written if flat else op.Reshape(written, op.Shape(data), allowzero=1)


SCATTER_13 = boundary(13, "ScatterElements:490b1e ScatterND:9b14f5")

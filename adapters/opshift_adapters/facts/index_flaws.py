# SPDX-License-Identifier: Apache-2.0
"""Nodes whose constant indices, lengths or pads exceed the data, which onnx does not check."""

from typing import TypeAlias

from opshift.adapter import Node, flaw, np

from opshift_adapters._lib.known_sizes import Size, dims_of
from opshift_adapters._lib.windows import knows

Pads: TypeAlias = dict[int, tuple[int, int]]


def _beyond(node: Node, name: str, size: Size) -> int | None:  # pragma: no cover: for illegal nodes
    """Returns the first constant index that is outside of an axis of this size, or None."""
    constant = node[name].const_or_none() if isinstance(size, int) else None
    if constant is None or constant.dtype.kind not in "iu" or not isinstance(size, int):
        return None
    wrong = constant[(constant < -size) | (constant >= size)].reshape(-1)
    return int(wrong[0]) if wrong.size else None


def _index_flaw(index: int, axis: int, size: Size) -> str:  # pragma: no cover: as above
    return f"the index {index} is outside of axis {axis}, which has size {size}"


@flaw("Gather GatherElements Scatter ScatterElements")
def indices_outside(node: Node) -> str | None:
    """Constant indices (Gather, ScatterElements) must be inside of the axis."""
    dims, axis = dims_of(node, "data"), node.int("axis")
    if not dims or not -len(dims) <= axis < len(dims):
        return None
    index = _beyond(node, "indices", dims[axis])
    return None if index is None else _index_flaw(index, axis, dims[axis])


@flaw("GatherElements Scatter ScatterElements")
def indices_of_more_places(node: Node) -> str | None:
    """Along axes other than `axis`, `indices` must not be larger than `data`."""
    data, indices = dims_of(node, "data"), dims_of(node, "indices")
    pairs = list(zip(data or (), indices or (), strict=False))
    for axis, (size, count) in enumerate(pairs):
        differs = axis != node.int("axis") % len(pairs)
        if differs and isinstance(size, int) and isinstance(count, int) and count > size:
            return f"the node has {count} indices along axis {axis}, which has size {size}"
    return None


@flaw("GatherND ScatterND")
def places_outside(node: Node) -> str | None:
    """Each number in a constant row of indices (GatherND, ScatterND) must be inside of its axis."""
    indices, dims = node["indices"].const_or_none(), dims_of(node, "data")
    first = node.int("batch_dims") if knows(node, "batch_dims") else 0
    if indices is None or not indices.ndim or dims is None:
        return None
    for at, size in enumerate(dims[first : first + indices.shape[-1]]):
        column = indices[..., at]
        wrong = column[(column < -size) | (column >= size)] if isinstance(size, int) else column[:0]
        if wrong.size:
            return _index_flaw(int(wrong.reshape(-1)[0]), first + at, size)
    return None


@flaw("GRU LSTM RNN ReverseSequence")
def lengths_beyond_the_time(node: Node) -> str | None:
    """A constant sequence length must not exceed the size of the time axis."""
    name = "sequence_lens"
    value = node.input(name)
    constant = value and value.const_or_none()
    reverses = node.op == "ReverseSequence"
    dims = dims_of(node, "input" if reverses else "X")
    turned = "layout" in node.attributes and node.int("layout") == 1
    axis = node.int("time_axis") if reverses else int(turned)
    size = dims[axis] if dims and axis < len(dims) else None
    if constant is None or not isinstance(size, int) or not np.any(constant > size):
        return None
    return f"a sequence length is {int(constant.max())}, but axis {axis} has size {size}"


@flaw("RoiAlign")
def pictures_outside(node: Node) -> str | None:
    """A constant in `batch_indices` of RoiAlign must be inside of the batch axis."""
    dims = dims_of(node, "X")
    index = _beyond(node, "batch_indices", dims[0]) if dims else None
    return _index_flaw(index, 0, dims[0]) if dims and index is not None else None


@flaw("Pad")
def pads_beyond_the_axis(node: Node) -> str | None:
    """A Pad of mode edge or reflect must not copy more elements than the cropped axis has."""
    dims, mode = dims_of(node, "data") or (), node.str("mode")
    pads = _pads_by_axis(node, len(dims)) if dims and mode in ("edge", "reflect") else {}
    sizes = {axis: size for axis, size in enumerate(dims) if isinstance(size, int)}
    if any(size + sum(pads.get(axis, ())) == 0 for axis, size in sizes.items()):
        return None  # an empty result needs no elements
    for axis in sorted(pads.keys() & sizes.keys()):
        most, left = max(pads[axis]), sizes[axis] + sum(min(pad, 0) for pad in pads[axis])
        if most > 0 and left < (1 if mode == "edge" else most + 1):
            return f"the mode {mode} adds {most} elements to axis {axis}, which has only {left}"
    return None


def _pads_by_axis(node: Node, rank: int) -> Pads:  # pragma: no cover: as above
    """Returns the pads before and after each axis with constant pads."""
    names = ("paddings", "pads")
    written = next((node.ints(name) for name in names if knows(node, name)), None)
    if written is None:
        constant = node["pads"].const_or_none()
        written = [] if constant is None else constant.tolist()
    listed = node.input("axes") if node.schema and "axes" in node.schema.input_positions else None
    axes = listed.const_or_none() if listed else np.arange(rank)
    if axes is None or len(written) != 2 * axes.size:
        return {}
    pairs = zip(written, written[axes.size :], strict=False)
    return dict(zip([at % rank for at in axes.tolist()], pairs, strict=True))

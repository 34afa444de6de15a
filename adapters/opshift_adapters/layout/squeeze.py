# SPDX-License-Identifier: Apache-2.0
"""Squeeze and Unsqueeze, which remove and insert axes of size 1."""

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Result,
    Value,
    adapter,
    alternative,
    boundary,
    form,
    in_other_words,
    misread,
)
from opshift.objections import LARGEST_RANK

from opshift_adapters._lib.axes import EMPTY_NAME, has_empty_name, in_order, without_empty
from opshift_adapters._lib.blocks import END, part, reshaped
from opshift_adapters.layout.reshape import by_reshape

TYPES_25 = boundary(25, "Squeeze:81d4aa Unsqueeze:0fa17b")
TYPES_24 = boundary(24, "Squeeze:a55538 Unsqueeze:485f9a")
TYPES_23 = boundary(23, "Squeeze:3c4191 Unsqueeze:3e77e5")
TYPES_21 = boundary(21, "Squeeze:04451a Unsqueeze:97a1a4", cast=by_reshape)


@misread("Unsqueeze", "opencv 4.5.5, 4.8, 4.11", source="2026-11-29 4.5.5..4.12.0: 1 or 2 axes")
def adds_several_axes(node: Node) -> bool:
    """Unsqueeze of several axes is not supported."""
    if "axes" in node.attributes:
        return len(node.ints("axes")) > 1
    axes = node.input_at(1)
    length = (axes.dims_or_none or (0,))[0] if axes is not None and axes.rank_or_none == 1 else 0
    return isinstance(length, int) and length > 1


@alternative("Unsqueeze", runtime="opencv==4.11")
def one_axis_after_the_other(node: Node, op: Builder) -> Result:
    """Unsqueeze of several axes becomes several nodes, because OpenCV below 5 needs one axis."""
    x = node["data"]
    axes = node.ints("axes") if op.version < 13 else node["axes"].const().tolist()
    rank = x.rank + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = op.Unsqueeze(x, op.const([axis]))
    return x


@EMPTY_NAME("Squeeze", releases="onnxruntime 1.6..1.32", source="2026-11-29 ten releases")
def has_unnamed_axes(node: Node) -> bool:
    return has_empty_name(node)


@form("Squeeze")
def known_axes(node: Node, op: Builder) -> Result:
    """Squeeze gets `axes` for onnxruntime 0.4, and ascending, named axes for other runtimes."""
    if (found := without_empty(node, op)) is not None:
        return found
    if op.version >= 13 or node.has("axes"):
        return in_order(node, op)
    shape = node["data"].shape_or_none
    axes = [axis for axis, size in enumerate(shape or ()) if size == 1]
    return op.same(node, axes=axes) if axes else KEEP


@form("Unsqueeze")
def inserted_axes_in_order(node: Node, op: Builder) -> Result:
    """The `axes` of Unsqueeze become ascending and non-negative, which some runtimes require."""
    return in_order(node, op, inserted=True)


@adapter("Squeeze Unsqueeze", 12, 13)
def squeeze_12_13(node: Node, op: Builder) -> Result:
    """Opset 13 made `axes` an input; an empty list of Squeeze becomes an absent input."""
    axes = node.ints_or_none("axes")
    if not axes and node.op == "Squeeze":
        return op.same(node, axes=None)
    return op.same(node, inputs={"axes": op.const(axes or [])}, axes=None)


@adapter("Squeeze Unsqueeze", 13, 12)
def squeeze_13_12(node: Node, op: Builder) -> Result:
    """Below opset 13, `axes` is an attribute; with computed axes, a Reshape is written."""
    x, axes = node["data"], node.input("axes")
    if axes is None:
        return op.same(node)
    constant = axes.const_or_none()
    if constant is None:
        return op.Reshape(
            x, (_squeezed if node.op == "Squeeze" else _unsqueezed)(op, x, axes), allowzero=1
        )
    if constant.size == 0:
        return op.Identity(x)
    return op.same(node, inputs={"axes": None}, axes=constant.ravel().tolist())


def _squeezed(op: Builder, x: Value, axes: Value) -> Value:
    shape = op.Shape(x)
    return op.Gather(shape, _others(op, op.Shape(shape), axes)[1], axis=0)


def _unsqueezed(op: Builder, x: Value, axes: Value) -> Value:
    if axes.rank_or_none != 1:  # PyTorch writes a scalar for one axis, which runtimes accept
        axes = op.Reshape(axes, op.const([-1]))
    shape = op.Shape(x)
    ones, places = _others(op, op.Shape(shape) + op.Shape(axes), axes)
    return op.ScatterElements(ones, places, shape, axis=0)


def _others(op: Builder, rank: Value, axes: Value) -> tuple[Value, Value]:
    """Returns a vector of ones of length `rank`, and the axes that are not in `axes`."""
    ones = op.Expand(op.const([1]), rank)
    zeros = op.Expand(op.const([0]), op.Shape(axes))
    marked = op.ScatterElements(ones, axes, zeros, axis=0)
    return ones, op.Squeeze(op.NonZero(marked), axes=[0])


AXES_11_UP = boundary(11, "Squeeze:63e6b2 Unsqueeze:be25f9", directions="up")


@adapter("Squeeze", 11, 10)
def squeeze_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, `axes` of Squeeze are positive; a Reshape replaces other axes."""
    x, axes = node["data"], sorted(node.ints_or_none("axes") or [])
    if not axes or axes[0] >= 0:
        return KEEP
    if axes[-1] >= 0 or x.rank_or_none is not None:
        return op.same(node, axes=sorted(axis % x.rank for axis in axes))
    shape, start, pieces = op.Shape(x), 0, []
    for axis in axes:
        pieces += [part(op, shape, start, axis)] if start != axis else []
        start = axis + 1
    pieces += [part(op, shape, start)] if start else []
    return op.Reshape(x, op.Concat(*pieces, axis=0), allowzero=1)


@adapter("Unsqueeze", 11, 10)
def unsqueeze_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, `axes` of Unsqueeze are positive; a Reshape replaces other axes."""
    x, axes = node["data"], sorted(node.ints("axes"))
    if not axes or axes[0] >= 0:
        return KEEP
    if axes[-1] >= 0 or axes[0] < -LARGEST_RANK or x.rank_or_none is not None:
        rank = x.rank + len(axes)
        return op.same(node, axes=sorted(axis % rank for axis in axes))
    shape, ones = op.Shape(x), op.const([1])
    old = -len(set(range(axes[0], 0)) - set(axes))  # - old axes after the first new axis
    pieces = [part(op, shape, 0, old)] if old else [shape]
    for axis in range(axes[0], 0):
        if axis in axes:
            pieces.append(ones)
        else:
            pieces.append(part(op, shape, old, old + 1 or END))
            old += 1
    return op.Reshape(x, op.Concat(*pieces, axis=0), allowzero=1)


@in_other_words("Squeeze Unsqueeze")
def other_shape(node: Node, op: Builder) -> Result:
    """Squeeze and Unsqueeze are written as Reshape, if at most one size is unknown."""
    x, kept = node["data"], list(node["data"].dims)
    if op.version < 13:
        given = node.ints_or_none("axes")
    else:
        axes = node.input("axes")
        given = None if axes is None else [int(axis) for axis in axes.const().ravel()]
    if node.op == "Squeeze":
        ones = [at for at, size in enumerate(kept) if size == 1]
        gone = ones if given is None else [axis % len(kept) for axis in given]
        sizes = [size for at, size in enumerate(kept) if at not in gone]
    else:
        sizes = list(kept)
        rank = len(kept) + len(given or ())
        for axis in sorted(axis % rank for axis in given or ()):
            sizes.insert(axis, 1)
    found = reshaped(op, x, sizes)
    return KEEP if found is None else found

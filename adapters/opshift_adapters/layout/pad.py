# SPDX-License-Identifier: Apache-2.0
"""Pad and CenterCropPad, which add elements around a tensor or remove elements from its borders."""

from collections.abc import Sequence

from opshift.adapter import (
    KEEP,
    Array,
    Builder,
    InvalidModel,
    Node,
    Result,
    T,
    Value,
    adapter,
    alternative,
    boundary,
    form,
    in_other_words,
    misread,
    np,
)
from opshift.objections import LARGEST_RANK

from opshift_adapters._lib.axes import in_order
from opshift_adapters._lib.blocks import END, arange, part, shape_of
from opshift_adapters._lib.kinds import fits_float
from opshift_adapters._lib.moved import moved
from opshift_adapters.layout.reshape import by_float16

TYPES_25 = boundary(25, "Pad:364e51")
TYPES_24 = boundary(24, "Pad:ad5e74")
TYPES_23 = boundary(23, "Pad:a7d266")
TYPES_21 = boundary(21, "Pad:568996", cast=by_float16)

UNUSED_FILLER = {"constant_value": "only the mode constant of Pad uses `constant_value`"}


def _by_axis(node: Node, op: Builder) -> Value:
    """Writes Pad of any element type as Concat or Gather per axis, and Slice for negative pads."""
    data, pads, axes = node["data"], *_amounts(node, op)
    x, mode, known = data, node.str("mode"), pads.const_or_none()
    rank = len(axes) if node.inputs[3:] in ((), (None,)) else None  # `axes` may list a few axes
    any_sign = not any(_never_negative(pads, at) for at in range(2 * len(axes)))
    at_once = bool(axes) and any_sign and (x.rank_or_none is not None or min(axes) >= 0)
    removed, constant = None, mode == "constant"  # Slice may remove added constants: it is last
    if at_once:
        pads, removed = _by_sign(op, pads)
        x = x if constant else _without(op, x, axes, removed)
    for i, axis in enumerate(axes):
        if known is not None and not known[i] and not known[i + len(axes)]:
            continue
        places = (i, i + len(axes))
        ends = [_amount(op, pads, at) for at in places]
        crops = not at_once and not all(_never_negative(pads, at) for at in places)
        if crops and not constant:
            x = _cropped(op, x, axis, *ends)
        more = [_positive(op, end) for end in ends] if crops else ends
        if all(value.const_or_none() == 0 for value in more):
            pass
        elif constant:
            x = _joined(op, x, _shape(op, x, rank), axis, more, _filler(node, op))
        elif mode == "wrap" and (parts := _few_wrapped(op, x, axis, more)):
            x = op.Concat(*parts, axis=axis)
        else:
            x = op.Gather(x, _picked(op, x, axis, mode, *more), axis=axis)
        if crops and constant:
            x = _cropped(op, x, axis, *ends)
    return _without(op, x, axes, removed) if constant and removed is not None else x


def _amount(op: Builder, pads: Value, at: int) -> Value:
    """Returns the pad at index `at`, as a constant if its value is known from its bounds."""
    bounds = pads.bounds_or_none
    if bounds is not None and bounds.each and bounds.low.flat[at] == bounds.high.flat[at]:
        return op.const([int(bounds.low.flat[at])])
    return part(op, pads, at, at + 1)


def _never_negative(pads: Value, at: int) -> bool:
    bounds = pads.bounds_or_none
    if bounds is None or not bounds.each:
        return bounds is not None and bounds.never_negative
    return bool(bounds.low.flat[at] >= 0)


def _amounts(node: Node, op: Builder) -> tuple[Value, list[int]]:
    """Returns the pads, and the axes to which the pads apply."""
    x, pads = node["data"], node["pads"]
    named = node.input("axes") if node.schema and node.schema.since >= 18 else None
    if named is None:
        rank = pads.shape[0] // 2 if x.rank_or_none is None else x.rank
        if rank > LARGEST_RANK:
            raise InvalidModel(f"Pad {node.name!r} has pads for {rank} axes")
        return pads, list(range(rank))
    constant = named.const_or_none()
    if constant is not None:
        return pads, [int(axis) for axis in constant]
    return op.ScatterElements(*_computed_places(op, x, named), pads), list(range(x.rank))


def _filler(node: Node, op: Builder) -> Value:
    constant = node.input("constant_value")
    if constant is not None:
        return constant
    kind = node["data"].elem_type
    return op.const("" if kind == T.STRING else 0, kind)


def _positive(op: Builder, amount: Value) -> Value:
    zero = op.const([0])
    return op.Where(amount < zero, zero, amount)


def _size(op: Builder, x: Value, axis: int) -> Value:
    return part(op, shape_of(op, x), axis, axis + 1 or END)


def _cropped(op: Builder, x: Value, axis: int, begin: Value, end: Value) -> Value:
    """Returns `x` without the elements that the negative pads of one axis remove."""
    first, last = begin.const_or_none(), end.const_or_none()
    if first is None or last is None:
        start = _positive(op, -begin)
        stop = _size(op, x, axis) - _positive(op, -end)
        return op.Slice(x, start, stop, op.const([axis]))
    stop = op.const([min(int(last.item()), 0) or END])
    return op.Slice(x, op.const(np.maximum(-first, 0)), stop, op.const([axis]))


def _by_sign(op: Builder, pads: Value) -> tuple[Value, Value]:
    """Splits pads into pads that add elements and, as doubles, numbers of elements to remove."""
    amount = op.Cast(pads, to=T.DOUBLE)  # Relu of older opsets needs floats; this holds any pad
    return op.Cast(op.Relu(amount), to=T.INT64), op.Relu(-amount)


def _without(op: Builder, x: Value, axes: Sequence[int], removed: Value) -> Value:
    """Returns `x` without the elements that negative pads of these axes remove."""
    count = len(axes)
    start, end = part(op, removed, 0, count), part(op, removed, count)
    rank = x.rank_or_none
    places = list(axes) if rank is None else [axis % rank for axis in axes]
    size = shape_of(op, x)
    if places != list(range(rank or 0)):
        size = op.Gather(size, op.const(places), axis=0)
    stop = op.Cast(size, to=T.DOUBLE) - end
    bounds = (op.Cast(bound, to=T.INT64) for bound in (start, stop))
    return op.Slice(x, *bounds, op.const(places))


def _shape(op: Builder, x: Value, rank: int | None) -> Value:
    """Returns the shape of `x`, a vector of length `rank` even if only the pads imply the rank."""
    if x.rank_or_none is not None or rank is None:
        return shape_of(op, x)
    return op.Gather(op.Shape(x), op.const(list(range(rank))), axis=0)


def _joined(
    op: Builder, x: Value, shape: Value, axis: int, more: Sequence[Value], filler: Value
) -> Value:
    """Concatenates the filler before and after `x` along one axis."""
    sides, around = [], None
    for amount in more:
        size = amount.const_or_none()
        around = around or _around(op, shape, axis)
        pieces = [*around[0], amount, *around[1]]
        goal = op.Concat(*pieces, axis=0) if len(pieces) > 1 else amount
        sides.append(None if size == 0 else op.Expand(filler, goal))
    return op.Concat(*(value for value in (sides[0], x, sides[1]) if value is not None), axis=axis)


def _around(op: Builder, shape: Value, axis: int) -> tuple[list[Value], list[Value]]:
    """Returns the sizes before the axis and the sizes after the axis; either list may be empty."""
    last = shape.shape_or_none == (axis + 1,)
    before = [part(op, shape, 0, axis)] if axis else []
    return before, [] if last else [part(op, shape, axis + 1)]


MOST_WRAPPED = 4  # up to this length, a strip is copied often enough to fill a pad


def _few_wrapped(op: Builder, x: Value, axis: int, more: Sequence[Value]) -> list[Value] | None:
    """Returns the tensors to concatenate for short pads of mode wrap on an axis of unknown size."""
    size = x.dims_or_none[axis] if x.dims_or_none is not None else None
    begin, end = (None if n.const_or_none() is None else int(n.const().item()) for n in more)
    if begin is None or end is None or max(begin, end) > MOST_WRAPPED or isinstance(size, int):
        return None
    last = _strip(op, x, axis, -begin, END) if begin else None
    first = _strip(op, x, axis, 0, end) if end else None
    return [value for value in (last, x, first) if value is not None]


def _strip(op: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    """Returns elements from one end of an axis of `x`; a short axis (not empty) is repeated."""
    bounds = op.const([start]), op.const([stop]), op.const([axis])
    strip = op.Slice(x, *bounds)
    width = -start or stop
    if width == 1:
        return strip
    return op.Slice(op.Concat(*[strip] * width, axis=axis), *bounds)


def _picked(op: Builder, x: Value, axis: int, mode: str, begin: Value, end: Value) -> Value:
    """Returns, for each element along the padded axis, the index of the element of `x` to copy."""
    size = _size(op, x, axis)
    constants = [one.const_or_none() for one in (begin, size, end)]
    if all(one is not None for one in constants):
        return op.const(_places(mode, *(int(one.item()) for one in constants if one is not None)))
    if op.version >= 11 and constants[0] is not None and constants[2] is not None:
        limit = op.Reshape(size + end if constants[2].any() else size, op.const([]))
        place = op.Range(op.const(-constants[0].item()), limit, op.const(1))
    else:
        count = begin + size + end
        place = arange(op, count if op.version < 11 else op.Reshape(count, op.const([]))) - begin
    if mode == "wrap":
        return op.Mod(place, size)
    last = size - op.const([1])
    if mode == "reflect":
        return last - op.Abs(last - op.Abs(place))
    place = _positive(op, place)
    return op.Where(last < place, last, place)


def _places(mode: str, begin: int, size: int, end: int) -> Array:
    place: Array = np.arange(-begin, size + end)
    if mode == "wrap":
        place = place % max(size, 1)  # an empty axis has no element to repeat
    elif mode == "reflect":
        place = (size - 1) - np.abs((size - 1) - np.abs(place))
    else:
        place = np.clip(place, 0, size - 1)
    return place


@misread(
    "CenterCropPad Pad",
    "onnxruntime 1.14",
    source="2026-11-28 1.14.1: 8 forms of Pad with axes = [-1] crash, 16"
    " other forms run; all forms run in 1.16.3 and 1.17.3; CenterCropPad 2026-11-30: 4 forms",
    since=18,
)
def counts_axes_from_the_end(node: Node) -> bool:
    """{op} with negative axes crashes the process."""
    if node.op == "CenterCropPad":
        return any(axis < 0 for axis in node.ints_or_none("axes") or ())
    axes = node.input("axes")
    constant = axes.const_or_none() if axes is not None else None
    return constant is not None and bool((constant < 0).any())


@misread("CenterCropPad", "onnxruntime 1.14..1.15", source="2026-11-30 1.14..1.32: int32 and int64")
def has_int32_sizes(node: Node) -> bool:
    """CenterCropPad with int32 sizes does not load."""
    return node["shape"].elem_type == T.INT32


@misread("Pad", "onnxruntime 0.4..1.15", source="2026-11-29 1.10..1.32: wrap at 13, 18", before=19)
def wraps_like_opset_19(node: Node) -> bool:
    """Pad below opset 19 with the mode wrap of opset 19 does not load."""
    return node.str("mode") == "wrap"


def _known_pads(node: Node) -> list[int] | None:
    """Returns the constant amounts of a Pad without `axes`: all begins, then all ends."""
    if "pads" in node.attributes:
        return node.ints("pads")
    constant = node.inputs[1].const_or_none() if node.inputs[1:] and node.inputs[1] else None
    return None if constant is None else [int(amount) for amount in constant]


@misread("Pad", "onnxruntime 0.4..1.6", since=2, source="2026-11-30 0.4..1.7: 22 forms", before=18)
def leaves_the_last_axis(node: Node) -> bool | None:
    """Pad of mode edge or reflect adds wrong numbers if the last axis is not padded."""
    pads = _known_pads(node) if node.str("mode") in ("edge", "reflect") else []
    rank = len(pads or ()) // 2
    return None if pads is None else any(pads) and not any(pads[rank - 1 :: rank])


@alternative("Pad", runtime="onnxruntime==1.4")
def of_the_last_axis(node: Node, op: Builder) -> Result:
    """Pad is written between Transposes that move a padded axis to the end."""
    pads = _known_pads(node) if leaves_the_last_axis.run(node) else None
    if pads is None:
        return KEEP
    sides = np.array(pads).reshape(2, -1)
    order = [int(axis) for axis in np.argsort(sides.any(axis=0), kind="stable")]
    moved = [int(amount) for amount in sides[:, order].ravel()]
    turned = {"data": op.Transpose(node["data"], perm=order)}
    named = "pads" in node.attributes
    inputs = turned if named else {**turned, "pads": op.const(moved)}
    y = op.same(node, inputs=inputs, **({"pads": moved} if named else {}))
    return op.Transpose(y, perm=[order.index(axis) for axis in range(len(order))])


@form("Pad")
def for_old_runtimes(node: Node, op: Builder) -> Result:
    """Pad has no empty last input, crops after adding, and gets non-negative `axes`."""
    if node.inputs[2:] and node.inputs[-1] is None:  # OpenVINO 2022.1 does not run such a Pad
        return op.same_but(node, node.inputs[: 3 if node.inputs[2] is not None else 2])
    if op.version < 18:
        return _cropped_last(node, op)
    return in_order(node, op, ("pads",))


def _cropped_last(node: Node, op: Builder) -> Result:
    pads = node.attr("pads") if 2 <= op.version < 11 else None
    if not pads or min(pads) >= 0 or max(pads) <= 0 or node.str("mode") != "constant":
        return KEEP
    rank = len(pads) // 2
    axes = [axis for axis in range(rank) if min(pads[axis], pads[axis + rank]) < 0]
    starts = [max(-pads[axis], 0) for axis in axes]
    ends = [min(pads[axis + rank], 0) or END for axis in axes]
    padded = op.same(node, pads=[max(pad, 0) for pad in pads])
    return op.Slice(padded, op.const(starts), op.const(ends), op.const(axes))


@adapter("Pad", 19, 18, ignores=UNUSED_FILLER)
def pad_19_18(node: Node, op: Builder) -> Result:
    """Opset 19 added the mode `wrap` to Pad; below opset 19, Slice and Gather pad axis by axis."""
    return _by_axis(node, op) if node.str("mode") == "wrap" else KEEP


PAD_19_UP = boundary(19, "Pad:754cbf", directions="up")


@adapter("Pad", 18, 17)
def pad_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, Pad lacks `axes`; the list `pads` gets zeros for the other axes."""
    x, pads, axes = node["data"], node["pads"], node.input("axes")
    if node.str("mode") == "wrap":  # a mode of opset 19, which exporters write at 18
        return _by_axis(node, op)  # pragma: no cover: examples are legal nodes
    if axes is None:
        return op.same(node, inputs={"axes": None})
    constant, rank = axes.const_or_none(), x.rank_or_none
    if constant is None or rank is None:
        full, places = _computed_places(op, x, axes)
    else:
        first = constant.astype(np.int64) % rank
        places = op.const(np.concatenate([first, first + rank]))
        full = op.const([0] * (2 * rank))
    amounts, place = pads.const_or_none(), places.const_or_none()
    if amounts is None or place is None or rank is None:
        every = op.ScatterElements(full, places, pads, axis=0)
    else:
        whole = np.zeros(2 * rank, dtype=np.int64)
        whole[place] = amounts
        every = op.const(whole)
    return op.same(node, inputs={"pads": every, "axes": None})


def _computed_places(op: Builder, x: Value, axes: Value) -> tuple[Value, Value]:
    """Returns zero pads for all axes, and the indices at which the pads of `axes` are written."""
    rank = op.Shape(op.Shape(x))
    axes = op.Cast(axes, to=T.INT64)
    first = op.Where(axes < op.const([0]), axes + rank, axes)
    full = op.ConstantOfShape(rank * op.const([2]), value=np.array([0]))
    return full, op.Concat(first, first + rank, axis=0)


PAD_18_UP = boundary(18, "Pad:94bb8d", directions="up")


def _pad_13_12(node: Node, op: Builder) -> Result:
    """Below opset 13, Pad accepts only numbers; bool is cast, other types need Concat or Gather."""
    data, pads, value = node["data"], node["pads"], node.input("constant_value")
    if data.elem_type != T.BOOL:
        return _by_axis(node, op)
    filler = None if value is None else op.Cast(value, to=T.UINT8)
    (result,) = op.same_but(node, [op.Cast(data, to=T.UINT8), pads, filler])
    return op.Cast(result, to=T.BOOL)


TYPES_13 = boundary(13, "Pad:b76520", cast=_pad_13_12)


@adapter("Pad", 11, 10, handles_types=True, ignores=UNUSED_FILLER)
def pad_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, `pads` and `value` of Pad are attributes; others need Concat or Gather."""
    data, pads, mode = node["data"], node["pads"].const_or_none(), node.str("mode")
    value = node.input("constant_value") if mode == "constant" else None
    filler = value and value.const_or_none()
    number = 0.0 if value is None else None if filler is None else filler.item()
    wide = data.elem_type in (T.INT64, T.UINT64)
    if pads is None or number is None or wide or not fits_float(np.array(number)):
        return _by_axis(node, op)
    filled = None if str(number) in ("0", "0.0") else float(number)
    gone = {"pads": None, "constant_value": None}
    return moved(
        op,
        [data],
        lambda v, _: op.same(node, inputs={"data": v[0], **gone}, pads=pads.tolist(), value=filled),
    )


@adapter("Pad", 10, 11)
def pad_10_11(node: Node, op: Builder) -> Result:
    """Opset 11 made `pads` and `value` inputs of Pad; they were attributes."""
    value, inputs = node.float("value"), {"pads": op.const(node.ints("pads"))}
    if node.str("mode") == "constant" and str(value) != "0.0":
        inputs["constant_value"] = op.const(value, like=node["data"])
    return op.same(node, inputs=inputs, pads=None, value=None)


@adapter("Pad", 2, 1)
def pad_2_1(node: Node, op: Builder) -> Result:
    """Opset 2 renamed the attribute `paddings` of Pad to `pads`; the old name is written."""
    return op.same(node, pads=None, paddings=node.ints("pads"))


@adapter("Pad", 1, 2)
def pad_1_2(node: Node, op: Builder) -> Result:
    """Opset 2 renamed `paddings` of Pad to `pads`, which lists all begins, then all ends."""
    return op.same(node, paddings=None, pads=node.ints("paddings"))


@adapter("CenterCropPad", 18, 17, in_other_words=True)
def center_crop_pad_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, CenterCropPad is written as Pad, with negative pads where it crops."""
    x, goal, axes = node["input_data"], node["shape"], node.ints_or_none("axes")
    own, known = x.shape_or_none, goal.const_or_none()
    if own is not None and known is not None:
        places = np.arange(len(own)) if axes is None else np.array(axes)
        more = known.astype(np.int64) - np.array(own)[places]
        pads = np.zeros((2, len(own)), dtype=np.int64)
        pads[0, places] = np.sign(more) * (np.abs(more) // 2)
        pads[1, places] = more - pads[0, places]
        return op.Pad(x, op.const(pads.ravel()))
    shape = op.Shape(x)
    sizes = shape if axes is None else op.Gather(shape, op.const(axes), axis=0)
    missing = op.Cast(goal, to=T.INT64) - sizes
    begin = op.Sign(missing) * (op.Abs(missing) / op.const([2]))
    ends = [begin, missing - begin]
    if axes is not None:
        none = op.Expand(op.const([0]), op.Shape(shape))
        ends = [op.ScatterElements(none, op.const(axes), end, axis=0) for end in ends]
    return op.Pad(x, op.Concat(*ends, axis=0))


@in_other_words("Pad", ignores=UNUSED_FILLER)
def added_by_axis(node: Node, op: Builder) -> Result:
    """Pad is written axis by axis, as Concat for mode constant and as Gather for other modes."""
    if op.version < 11 or node["pads"].const_or_none() is None:
        return KEEP  # below opset 11, the pads are an attribute
    return _by_axis(node, op)

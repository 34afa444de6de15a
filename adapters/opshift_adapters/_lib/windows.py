# SPDX-License-Identifier: Apache-2.0
"""Windows of pooling operators: pads, spans, and sums over each window."""

from typing import Any

from opshift.adapter import KEEP, Builder, Node, Refusal, Result, T, Value, Why, np

from opshift_adapters._lib.blocks import part


def knows(node: Node, attribute: str) -> bool:
    """Returns whether the operator has an attribute at the opset from which the step converts."""
    return node.schema is not None and attribute in node.schema.attributes


def per_axis(node: Node, name: str, count: int | None = None) -> list[int]:
    """Returns strides or dilations of each axis; 1 if the node or the opset lacks the attribute."""
    numbers = node.ints_or_none(name) if knows(node, name) else None
    return numbers or [1] * (len(node.ints("kernel_shape")) if count is None else count)


def dilated(node: Node) -> bool:
    pairs = zip(node.ints("kernel_shape"), per_axis(node, "dilations"), strict=True)
    return any(dilation != 1 and kernel != 1 for kernel, dilation in pairs)


def spans(node: Node) -> list[int]:
    """Returns the number of elements that a window spans along each axis, gaps included."""
    pairs = zip(node.ints("kernel_shape"), per_axis(node, "dilations"), strict=True)
    return [(kernel - 1) * dilation + 1 for kernel, dilation in pairs]


def same_size(node: Node) -> bool:
    """Returns whether `auto_pad` is SAME_UPPER or SAME_LOWER; then only strides shrink axes."""
    return node.str("auto_pad").startswith("SAME")


def spread_in_same_size(node: Node) -> bool:
    """Returns whether a window with gaps keeps the size of its input."""
    return same_size(node) and any(gap > 1 for gap in per_axis(node, "dilations", 0))


def with_pads(node: Node, op: Builder) -> Result:
    """Writes the node with `pads` instead of `auto_pad`, with which `ceil_mode` has no effect."""
    ceil = {"ceil_mode": None} if "ceil_mode" in node.attributes and node.has("ceil_mode") else {}
    return op.same(node, auto_pad=None, pads=explicit_pads(node, node["X"]), **ceil)


def size(x: Value, axis: int) -> int | None:
    """Returns a dimension if it is static, else None."""
    dims = x.dims_or_none
    length = dims[axis] if dims is not None else None
    return length if isinstance(length, int) else None


def explicit_pads(node: Node, x: Value) -> list[int]:
    """Returns the pads from `pads` or from `auto_pad`: all begins, then all ends."""
    rank = len(node.ints("kernel_shape"))
    pads = node.ints_or_none("pads")  # `auto_pad` replaces `pads`
    if not same_size(node):
        stated_pads = None if node.str("auto_pad") == "VALID" else pads
        return stated_pads or [0] * (2 * rank)
    less, more = [], []
    for axis, (span, stride) in enumerate(zip(spans(node), per_axis(node, "strides"), strict=True)):
        length = size(x, 2 + axis)
        if length is None and stride != 1:
            raise Refusal(Why.NEEDS_SHAPE, f"auto_pad needs the size of axis {2 + axis}")
        past = 0 if length is None else (-(-length // stride) - 1) * stride - length + 1
        total = max(past + span - 1, 0)
        less.append(total // 2)
        more.append(total - total // 2)
    return less + more if node.str("auto_pad") == "SAME_UPPER" else more + less


def floor_pads(node: Node, x: Value) -> list[int]:
    """Returns the pads that give the windows of `ceil_mode` to a pooling without `ceil_mode`."""
    pads, rank = explicit_pads(node, x), len(node.ints("kernel_shape"))
    if not rounds_up(node):
        return pads
    for axis, (span, stride) in enumerate(zip(spans(node), per_axis(node, "strides"), strict=True)):
        begin, end, length = pads[axis], pads[axis + rank], size(x, 2 + axis)
        if length is not None:
            pads[axis + rank] = _end(length + begin, end, span, stride)
        elif end + stride <= span:
            pads[axis + rank] = end + stride - 1
        else:
            raise Refusal(
                Why.NEEDS_SHAPE,
                f"ceil_mode may add a window in the padding of axis {2 + axis}, so the axis size"
                " must be known",
            )
    return pads


def _end(length: int, end: int, span: int, stride: int) -> int:
    """Returns the pad nearest to `end` with which every window starts before the end padding."""
    count = -(-(length + end - span) // stride) + 1
    if (count - 1) * stride >= length:
        count -= 1
    least = (count - 1) * stride + span - length
    return min(max(end, least), least + stride - 1)


def counted_pads(node: Node, x: Value) -> tuple[list[int], list[int]]:
    """Returns the pads that AveragePool counts as elements, and the uncounted pads around them."""
    asked, total = explicit_pads(node, x), floor_pads(node, x)
    if not node.int("count_include_pad"):
        return [0] * len(total), total
    inner = [min(pair) for pair in zip(asked, total, strict=True)]
    return inner, [most - pad for most, pad in zip(total, inner, strict=True)]


def rounds_up(node: Node) -> bool:
    """Returns whether `ceil_mode` may add windows."""
    return knows(node, "ceil_mode") and bool(node.int("ceil_mode")) and not same_size(node)


def adds_windows(node: Node) -> bool:
    """Returns whether `ceil_mode` adds, or may add, windows compared with rounding down."""
    if not rounds_up(node):
        return False
    x = node["X"]
    pads, rank = explicit_pads(node, x), len(node.ints("kernel_shape"))
    for axis, (span, stride) in enumerate(zip(spans(node), per_axis(node, "strides"), strict=True)):
        length = size(x, 2 + axis)
        if stride > 1 and (
            length is None or (length + pads[axis] + pads[axis + rank] - span) % stride
        ):
            return True
    return False


def last_starts_in_pad(node: Node, op: Builder) -> bool:
    """Returns whether `ceil_mode` as specified adds a window that starts in the end padding.

    An unknown axis size is refused only in a function, because it may be known after inlining.
    """
    x = node["X"]
    pads, rank = explicit_pads(node, x), len(node.ints("kernel_shape"))
    for axis, (span, stride) in enumerate(zip(spans(node), per_axis(node, "strides"), strict=True)):
        begin, end, length = pads[axis], pads[axis + rank], size(x, 2 + axis)
        if end + stride <= span:
            continue
        if length is None:
            op.ask_caller(Why.NEEDS_SHAPE, f"the size of axis {2 + axis} of {x.name!r} is unknown")
        elif -(-(length + begin + end - span) // stride) * stride >= length + begin:
            return True
    return False


def rounded_down(node: Node, op: Builder) -> Result:
    """Writes an undilated pooling without the attributes `ceil_mode` and `dilations`."""
    changed: dict[str, Any] = {n: None for n in ("ceil_mode", "dilations") if knows(node, n)}
    if rounds_up(node):
        changed |= {"pads": floor_pads(node, node["X"]), "auto_pad": None}
    result: Value | tuple[Value, ...] = op.same(node, **changed)
    return result


def padded(op: Builder, x: Value, pads: list[int], value: float) -> Value:
    """Writes a Pad that adds these spatial pads to `x`."""
    if not any(pads):
        return x
    half = len(pads) // 2
    every = [0, 0, *pads[:half], 0, 0, *pads[half:]]
    return op.Pad(x, op.const(every), op.const(value, like=x))


def window_sums(op: Builder, x: Value, kernel: list[int], **where: Any) -> Value:
    """Writes the sum of every window of every channel, as Conv with ones (opset 5 and later)."""
    channels = size(x, 1)
    if channels is not None:
        return ones_conv(op, x, kernel, channels, **where)
    sums = ones_conv(op, op.Reshape(x, one_channel(op, x, -1)), kernel, 1, **where)
    back = op.Concat(part(op, op.Shape(x), 0, 2), part(op, op.Shape(sums), 2), axis=0)
    return op.Reshape(sums, back)


def ones_conv(op: Builder, x: Value, kernel: list[int], channels: int, **where: Any) -> Value:
    """Writes the sum of every window, as Conv with ones for a known number of channels."""
    ones = op.const(np.ones([channels, 1, *kernel]), like=x)
    sums: Value = op.Conv(x, ones, kernel_shape=kernel, group=channels, **where)
    return sums


def one_channel(op: Builder, x: Value, batch: int) -> Value:
    """Returns the shape of `x` with this batch size and one channel."""
    shape = x.shape_or_none
    if shape is not None:
        return op.const([batch, 1, *shape[2:]])
    return op.Concat(op.const([batch, 1]), part(op, op.Shape(x), 2), axis=0)


def as_wide(op: Builder, x: Value) -> Value:
    """Casts float16 to float, because sums need the precision of float."""
    return op.Cast(x, to=T.FLOAT) if x.elem_type == T.FLOAT16 else x


def from_wide(op: Builder, y: Value, x: Value) -> Value:
    """Undoes `as_wide(op, x)`: casts `y` to float16 if `x` is float16."""
    return op.Cast(y, to=T.FLOAT16) if x.elem_type == T.FLOAT16 else y


def without_windows_in_pad(node: Node, op: Builder) -> Result:
    """Writes a pooling without the window that `ceil_mode` below opset 22 adds in the end padding.

    Inference below opset 22 counts `pads` also if `auto_pad` replaces them, so they are removed.
    """
    x, own = node["X"], node["X"]
    narrow = x.may_be(T.BFLOAT16) and x.elem_type == T.BFLOAT16
    changes: dict[str, Any] = {}
    if node.str("auto_pad") != "NOTSET" and node.has("pads"):
        changes = {"pads": None}
    if narrow:
        own = op.Cast(x, to=T.FLOAT)
    if rounds_up(node) and last_starts_in_pad(node, op):
        counts = node.op == "AveragePool" and node.int("count_include_pad")
        inner, outer = counted_pads(node, x) if counts else ([], floor_pads(node, x))
        own = padded(op, own, inner, 0.0)
        changes = {"pads": outer, "auto_pad": None, "ceil_mode": 0}
        changes |= {"count_include_pad": 0} if counts else {}
    if not narrow:
        return op.same(node, inputs={"X": own}, **changes) if changes else KEEP
    y, *more = op.same(node, inputs={"X": own}, outputs=node.n_outputs, **changes)
    return op.Cast(y, to=T.BFLOAT16), *more


def windows_of(node: Node) -> tuple[list[int], list[int], list[int]]:
    """Returns the window spans, the strides and the sums of both pads, for each axis."""
    kernel = node.ints_or_none("kernel_shape") if knows(node, "kernel_shape") else None
    sizes = kernel or list(_weights(node).shape[2:])
    strides, dilations = (per_axis(node, name, len(sizes)) for name in ("strides", "dilations"))
    valid = knows(node, "auto_pad") and node.str("auto_pad") == "VALID"
    pads = (None if valid else node.ints_or_none("pads")) or [0] * (2 * len(sizes))
    begins, ends = pads[: len(sizes)], pads[len(sizes) :]
    spans = [(size - 1) * step + 1 for size, step in zip(sizes, dilations, strict=True)]
    return spans, strides, [a + b for a, b in zip(begins, ends, strict=True)]


def _weights(node: Node) -> Value:
    assert node.schema is not None
    return node["W" if "W" in node.schema.input_positions else "w"]

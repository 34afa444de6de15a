# SPDX-License-Identifier: Apache-2.0
"""Conv and ConvTranspose: pads, dilations and element types."""

import functools

from opshift.adapter import KEEP, Builder, Node, Result, alternative, boundary, misread
from opshift.combinators import cast_around

from opshift_adapters._lib import windows

BFLOAT16_22 = boundary(22, "Conv:fa6396 ConvTranspose:ec0d21", cast=cast_around("float"))
# In the specification of opset 1, the odd pad of ConvTranspose is at the other end; onnxruntime
# before 1.13 follows this text.
TEXT_11 = boundary(11, "Conv:2d0976 ConvTranspose:52a9e2")

transposed = functools.partial(
    misread,
    "ConvTranspose",
    source="2026-11-29 20 releases, 0.4..1.32: kernels of 3, one to three axes",
)


@transposed("onnxruntime 0.4..1.6", "ConvTranspose with auto_pad does not crop the result")
def cuts_pads(node: Node) -> bool:
    return any(_cut(node) or ())


@transposed(
    "onnxruntime 1.7..1.12",
    "ConvTranspose with auto_pad crops one element at the wrong end if it crops an odd number",
)
def cuts_an_odd_pad(node: Node) -> bool:
    return any(count % 2 for count in _cut(node) or ())


@transposed("onnxruntime 0.4..1.0", "ConvTranspose along one or three axes is not supported")
def has_not_two_axes(node: Node) -> bool:
    return node["X"].rank_or_none not in (None, 4)


@transposed("onnxruntime 0.4..1.0", "ConvTranspose with dilations ignores them")
def is_dilated(node: Node) -> bool:
    return any(one > 1 for one in node.ints_or_none("dilations") or ())


@transposed("onnxruntime 1.1..1.3", "ConvTranspose along three axes is not supported")
def has_three_axes(node: Node) -> bool:
    return (node["X"].rank_or_none or 4) > 4


@alternative("ConvTranspose", runtime="onnxruntime==1.4")
def with_explicit_pads(node: Node, op: Builder) -> Result:
    """ConvTranspose gets `pads` instead of `auto_pad`, whose pads do not depend on the input."""
    counts = _cut(node)
    if not counts:
        return KEEP  # pragma: no cover: only releases before 1.2 misread other pads
    less, more = [count // 2 for count in counts], [count - count // 2 for count in counts]
    upper = node.attr("auto_pad") == b"SAME_UPPER"
    return op.same(node, auto_pad=None, pads=[*less, *more] if upper else [*more, *less])


def _cut(node: Node) -> list[int] | None:
    """Returns how many elements SAME_UPPER or SAME_LOWER crop along each axis, else None."""
    if node.attr("auto_pad") not in (b"SAME_UPPER", b"SAME_LOWER"):
        return None
    kernel = node.ints_or_none("kernel_shape") or (node["W"].shape_or_none or ())[2:]
    ones = [1] * len(kernel)
    named = (("strides", ones), ("dilations", ones), ("output_padding", [0] * len(ones)))
    steps, spread, added = (node.ints_or_none(name) or usual for name, usual in named)
    return [
        max((size - 1) * between + 1 + more - step, 0)
        for size, between, more, step in zip(kernel, spread, added, steps, strict=False)
    ]


@misread("Conv", "opencv 4.5.5", source="2026-11-29 4.5.5: ranks 3 and 4, different pads")
def pads_one_axis_unequally(node: Node) -> bool:
    """Conv along one axis adds equal pads to both ends, even if `pads` differ."""
    pads = node.ints_or_none("pads") or []
    return len(pads) == 2 and pads[0] != pads[1]


@alternative("Conv", runtime="opencv==4.5.5")
def padded_before(node: Node, op: Builder) -> Result:
    """Conv gets a Pad for unequal pads of its only axis, or `pads` for `auto_pad` and dilations."""
    if windows.spread_in_same_size(node):
        return windows.with_pads(node, op)
    pads = node.ints_or_none("pads") or []
    if len(pads) != 2 or op.version < 11:
        return KEEP
    padded = op.Pad(node["X"], op.const([0, 0, pads[0], 0, 0, pads[1]]))
    return op.same(node, inputs={"X": padded}, pads=[0, 0])

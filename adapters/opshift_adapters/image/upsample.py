# SPDX-License-Identifier: Apache-2.0
"""Upsample, which Resize replaced in opset 10: two factors, and one factor per axis from 7 on."""

from typing import Any

from opshift.adapter import Builder, Node, Refusal, Result, T, Why, adapter, boundary, by_width

from opshift_adapters._lib.sampling import Filter, by_scales, takes_nearest

ROUNDED = by_width("Upsample", unless=takes_nearest)  # interpolated integers are rounded


@adapter("Upsample", 6, 7)
def upsample_6_7(node: Node, op: Builder) -> Result:
    """Opset 7 replaced the two factors by `scales` and renamed the mode bilinear to linear."""
    scales = [1.0, 1.0, node.float("height_scale"), node.float("width_scale")]
    mode = "linear" if node.str("mode") == "bilinear" else node.str("mode")
    return op.same(node, height_scale=None, width_scale=None, scales=scales, mode=mode)


@adapter("Upsample", 7, 6, handles_types=True)
def upsample_7_6(node: Node, op: Builder) -> Result:
    """Below opset 7, Upsample enlarges the last 2 of 4 axes; Gather and sums replace others."""
    x, scales = node["X"], node.floats("scales")
    rank = len(scales)
    mode = "bilinear" if node.str("mode") == "linear" else node.str("mode")
    wide = [1.0] * (4 - rank) + scales
    kinds = (T.BOOL, T.INT32, T.INT64, T.FLOAT16, T.FLOAT, T.DOUBLE)
    if len(wide) == 4 and wide[:2] == [1, 1] and x.elem_type in kinds:
        picture = op.Unsqueeze(x, axes=list(range(4 - rank))) if rank < 4 else x
        named: dict[str, Any] = {"scales": None, "height_scale": wide[2], "width_scale": wide[3]}
        larger = op.same(node, inputs={"X": picture}, mode=mode, **named)
        return op.Squeeze(larger, axes=list(range(4 - rank))) if rank < 4 else larger
    dims = x.dims
    if any(by != 1 and not isinstance(size, int) for size, by in zip(dims, scales, strict=True)):
        raise Refusal(Why.NEEDS_SHAPE, "before opset 7, Upsample needs known sizes of scaled axes")
    return by_scales(op, x, op.const(scales, T.FLOAT), Filter(node.str("mode")))


@adapter("Upsample", 8, 9)
def upsample_8_9(node: Node, op: Builder) -> Result:
    """Opset 9 made `scales` an input of Upsample; it was an attribute."""
    return op.same(node, scales=None, inputs={"scales": op.const(node.floats("scales"), T.FLOAT)})


@adapter("Upsample", 9, 8)
def upsample_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, `scales` of Upsample is an attribute; computed scales need Gather and sums."""
    x, scales = node["X"], node["scales"]
    if node.str("mode") == "nearest" and scales.const_or_none() is None:
        return by_scales(op, x, scales, Filter("nearest"))
    return op.same(node, inputs={"scales": None}, scales=scales.const().tolist())


@adapter("Upsample", 9, 10)
def upsample_9_10(node: Node, op: Builder) -> Result:
    """Opset 10 replaced Upsample by Resize."""
    return op.Resize(node["X"], node["scales"], mode=node.attr("mode"))


# Opset 10 deprecated Upsample; a model with Upsample at opset 10 may still convert down.
UPSAMPLE_10_DOWN = boundary(10, "Upsample:43dd8a", directions="down")

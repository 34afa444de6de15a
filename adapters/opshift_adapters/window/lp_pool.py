# SPDX-License-Identifier: Apache-2.0
"""LpPool and GlobalLpPool with dilations, `ceil_mode`, and `p` (a float at opset 1)."""

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    in_other_words,
)
from opshift.combinators import cast_around

from opshift_adapters._lib import windows
from opshift_adapters.window import pooling

CEIL_22 = boundary(22, "LpPool:a3e292", directions="up")
BFLOAT16_22 = boundary(22, "GlobalLpPool:ad52a7/c56e93", cast=cast_around("float"))
LP_POOL_22 = adapter("LpPool", 22, 21, handles_types=True)(pooling.pool_22_21.run)  # type: ignore[arg-type]
THROUGH_MAX = alternative("GlobalLpPool", runtime="openvino==2022.1")(pooling.through_max.run)  # type: ignore[arg-type]
DILATIONS_18 = boundary(18, "LpPool:1b2195", directions="up")


@adapter("LpPool", 18, 17)
def lp_pool_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, a Conv or wider pads replace `dilations` and `ceil_mode` of LpPool."""
    if not windows.dilated(node):
        return windows.rounded_down(node, op)
    x, p = windows.as_wide(op, node["X"]), float(node.int("p"))
    pads = windows.floor_pads(node, x)
    steps = {name: windows.per_axis(node, name) for name in ("strides", "dilations")}
    powers = power(op, op.Abs(x), p)
    total = windows.window_sums(op, powers, node.ints("kernel_shape"), pads=pads, **steps)
    return windows.from_wide(op, power(op, total, 1 / p), node["X"])


def power(op: Builder, x: Value, exponent: float) -> Value:
    return x if exponent == 1 else x**exponent


@alternative("LpPool", runtime="onnxruntime==1.20")
def with_pads(node: Node, op: Builder) -> Result:
    """LpPool with dilations gets `pads`, because onnxruntime misreads its `auto_pad`."""
    return windows.with_pads(node, op) if windows.spread_in_same_size(node) else KEEP


TEXT_11 = boundary(11, "LpPool:680ffd")


@adapter("LpPool GlobalLpPool", 2, 1)
def lp_pool_2_1(node: Node, op: Builder) -> Result:
    """Below opset 2, `p` of LpPool and GlobalLpPool is a float."""
    return op.same(node, p=float(node.int("p")))


@adapter("LpPool", 1, 2)
def lp_pool_1_2(node: Node, op: Builder) -> Result:
    """From opset 2 on, `p` of LpPool is an integer; a fractional p needs Pow and Conv."""
    x, p = node["X"], node.float("p")
    if not node.has("kernel_shape"):
        raise Refusal(Why.AMBIGUOUS, "no specification defines LpPool without kernel_shape")
    if p.is_integer() and abs(p) >= 2**63:
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"the attribute p must be an int64 from opset 2 on, and is {p:g}"
        )
    if p.is_integer():
        return op.same(node, p=int(p))
    channels, kernel = x.dims[1], node.ints("kernel_shape")
    if not isinstance(channels, int):
        raise Refusal(Why.NEEDS_SHAPE, "LpPool with a fractional p needs the number of channels")
    where = {name: node.attr(name) for name in ("strides", "pads", "auto_pad")}
    total = windows.ones_conv(op, power(op, op.Abs(x), p), kernel, channels, **where)
    return power(op, total, 1 / p)


@adapter("GlobalLpPool", 1, 2)
def global_lp_pool_1_2(node: Node, op: Builder) -> Result:
    """From opset 2 on, `p` of GlobalLpPool is an integer; others need Pow and ReduceSum."""
    x, p = node["X"], node.float("p")
    if p.is_integer():
        return op.same(node, p=int(p))
    if x.rank < 3:  # ReduceSum over no axes would reduce all axes
        return op.Abs(x)
    total = op.ReduceSum(power(op, op.Abs(x), p), axes=list(range(2, x.rank)))
    return power(op, total, 1 / p)


@in_other_words("GlobalLpPool")
def norm_of_all_places(node: Node, op: Builder) -> Result:
    """GlobalLpPool is written as a norm over all axes after the channel axis."""
    x, p = node["X"], node.int("p")
    if (x.rank_or_none or 0) < 3:  # a reduction over no axes would reduce all axes
        return KEEP
    places = list(range(2, x.rank))
    name = {1: "ReduceL1", 2: "ReduceL2"}.get(p, "")
    if name:
        return op.emit(name, x, op.const(places))
    return power(op, op.ReduceSum(power(op, op.Abs(x), p), op.const(places)), 1 / p)

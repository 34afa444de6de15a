# SPDX-License-Identifier: Apache-2.0
"""AveragePool, MaxPool, LpPool, their global forms and MaxRoiPool."""

from functools import partial
from itertools import accumulate
from operator import mul

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    Surroundings,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    in_other_words,
    misread,
    np,
)
from opshift.combinators import cast_around

from opshift_adapters._lib import merged_pads, windows
from opshift_adapters._lib.blocks import END, size_of
from opshift_adapters._lib.makers import maker
from opshift_adapters.facts.output_bounds import is_never_negative

INDICES_ORDER = {"storage_order": "only unread Indices depend on it"}
COUNTS = "AveragePool with ceil_mode and count_include_pad returns wrong numbers"

BFLOAT16_22 = boundary(
    22,
    "GlobalAveragePool:0b6629 GlobalLpPool:ad52a7/c56e93 GlobalMaxPool:7be94c MaxRoiPool:6a4509",
    cast=cast_around("float"),
)
CEIL_22 = boundary(22, "AveragePool:1cb9bf LpPool:a3e292 MaxPool:702056", directions="up")
DILATIONS_18 = boundary(18, "LpPool:1b2195", directions="up")


@adapter("AveragePool LpPool MaxPool", 22, 21, handles_types=True)
def pool_22_21(node: Node, op: Builder) -> Result:
    """Below opset 22, poolings lack bfloat16, and `ceil_mode` may add a window in the padding."""
    return windows.without_windows_in_pad(node, op)


DILATIONS_19 = boundary(19, "AveragePool:79361c", directions="up")


@adapter("AveragePool", 19, 18)
def average_pool_19_18(node: Node, op: Builder) -> Result:
    """Below opset 19, AveragePool lacks `dilations`; Conv sums the windows, Div averages them."""
    if not windows.dilated(node):
        return op.same(node, dilations=None)
    x, kernel = windows.as_wide(op, node["X"]), node.ints("kernel_shape")
    inner, outer = windows.counted_pads(node, x)
    steps = {name: windows.per_axis(node, name) for name in ("strides", "dilations")}
    pads = [own + more for own, more in zip(inner, outer, strict=True)]
    total = windows.window_sums(op, x, kernel, pads=pads, **steps)
    if any(outer):
        ones = op.Expand(op.const(1.0, like=x), windows.one_channel(op, x, 1))
        count = windows.ones_conv(
            op, windows.padded(op, ones, inner, 1.0), kernel, 1, pads=outer, **steps
        )
    else:
        count = op.const(float(np.prod(kernel)), like=x)
    return windows.from_wide(op, total / count, node["X"])


INT8_12 = boundary(12, "MaxPool:c13afe", cast=cast_around("float"))
TEXT_11 = boundary(11, "AveragePool:ca6623 LpPool:680ffd MaxPool:112b82")
CEIL_10 = boundary(10, "AveragePool:a52562 MaxPool:93431a", directions="up")


@adapter("AveragePool", 10, 9)
def average_pool_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, AveragePool lacks `ceil_mode`; uncounted wider end pads replace it."""
    if not (windows.rounds_up(node) and node.int("count_include_pad")):
        return windows.rounded_down(node, op)
    return _with_counted_pads_written(node, op, node["X"])


def _with_counted_pads_written(node: Node, op: Builder, x: Value) -> Result:
    """Writes pads that count as a Pad node, and keeps pads that do not count in the pooling."""
    inner, outer = windows.counted_pads(node, node["X"])
    inputs = {"X": windows.padded(op, x, inner, 0.0)}
    counts = None if any(outer) else 1  # equal without pads, and onnxruntime may merge the Pad
    return op.same(
        node, inputs=inputs, pads=outer, auto_pad=None, ceil_mode=None, count_include_pad=counts
    )


@misread("AveragePool Conv LpPool MaxPool", "onnxruntime 0.4..1.32", source="2026-11-30 426 forms")
def keeps_the_size_with_gaps(node: Node) -> bool:
    """{op} with dilations and auto_pad SAME does not load or returns wrong numbers."""
    return windows.spread_in_same_size(node)


@misread("AveragePool LpPool MaxPool", "onnxruntime 1.6..1.32", source="2026-12-01 108 forms")
def has_a_pad_of_a_window(node: Node) -> bool:
    """{op} with a pad as long as its window does not load."""
    pads = node.ints_or_none("pads")
    return pads is not None and merged_pads.reach_the_kernel(pads, node)


COUNTED = partial(misread, "AveragePool", says=COUNTS, source="2026-11-29 216 forms", since=10)


@COUNTED("onnxruntime 0.4..1.20")
def counts_beyond_the_end(node: Node) -> bool:
    return node.int("count_include_pad") == 1 and windows.adds_windows(node)


@COUNTED("onnxruntime 1.21..1.28", before=19)
def counts_beyond_the_end_below_19(node: Node) -> bool | None:
    return counts_beyond_the_end.run(node)


@misread("AveragePool", "onnxruntime 1.21..1.24", source="2026-11-29 3,360 forms", since=19)
def counts_uneven_pads(node: Node) -> bool:
    """AveragePool with count_include_pad and different pads at begin and end is wrong."""
    pads = node.ints_or_none("pads") or []
    return node.int("count_include_pad") == 1 and merged_pads.differ_by_side(pads)


AFTER_A_PAD = partial(
    misread,
    says="{op} after a Pad of zeros is merged with the Pad and returns wrong numbers or does"
    " not load",
    source="2026-11-29 1.14..1.32: 9,008 forms of Pad and pooling",
)


@AFTER_A_PAD("AveragePool", "onnxruntime 1.19..1.20", since=7, before=21)
def is_merged_with_pads(node: Node, around: Surroundings) -> bool:
    pads = merged_pads.merged_pads(node, around)
    return bool(pads) and (not node.int("count_include_pad") or _gives_others(node, pads))


def _gives_others(node: Node, pads: list[int]) -> bool:
    """Returns whether onnxruntime computes a pooling with these merged pads wrongly."""
    return windows.adds_windows(node) or merged_pads.reach_the_kernel(pads, node)


def _counted(node: Node, around: Surroundings) -> list[int]:
    """Returns the merged pads if the merged pooling counts all of them, else []."""
    if not node.int("count_include_pad") and any(node.ints_or_none("pads") or []):
        return []
    return merged_pads.merged_pads(node, around)


@AFTER_A_PAD("AveragePool", "onnxruntime 1.21..1.24", since=7, before=21)
def counts_merged_pads(node: Node, around: Surroundings) -> bool:
    pads = _counted(node, around)
    return bool(pads) and _gives_others(node, pads)


@AFTER_A_PAD("AveragePool", "onnxruntime 1.21..1.24", since=19, before=21)
def counts_uneven_merged_pads(node: Node, around: Surroundings) -> bool:
    return merged_pads.differ_by_side(_counted(node, around))


@AFTER_A_PAD("AveragePool", "onnxruntime 1.25..1.31", since=7)
def counts_merged_pads_at_every_opset(node: Node, around: Surroundings) -> bool | None:
    return counts_merged_pads.run(node, around)


@alternative("AveragePool", runtime="onnxruntime==1.16")
def average_of_counted_pads(node: Node, op: Builder) -> Result:
    """AveragePool gets a Pad for pads that count, and a Concat between the Pad and the pooling."""
    if op.version < 7:
        return KEEP  # pragma: no cover: only a runtime of the caller asks for this form
    if windows.spread_in_same_size(node):
        return windows.with_pads(node, op)
    x, pads = node["X"], any(windows.explicit_pads(node, node["X"]))
    if node.int("count_include_pad") and (windows.rounds_up(node) or pads):
        return _with_counted_pads_written(node, op, _apart(op, x))
    if not windows.rounds_up(node) and not pads and not node.int("count_include_pad"):
        return op.same(node, count_include_pad=1)  # like the merged pads
    return op.same(node, inputs={"X": _apart(op, x)}) if maker(x, "Pad") else KEEP


def _apart(op: Builder, x: Value) -> Value:
    """Adds a Concat of one value after a Pad, so that onnxruntime does not merge the Pad."""
    return op.Concat(x, axis=0) if maker(x, "Pad") else x


@misread("MaxPool", "onnxruntime 0.4..1.2", source="2026-11-29 0.4..1.7: 384 forms", since=10)
def counts_by_columns(node: Node) -> bool:
    """MaxPool with storage_order=1 returns wrong Indices."""
    indices, axes = node.output("Indices"), len(node.ints("kernel_shape"))
    return node.int("storage_order") == 1 and axes > 1 and indices is not None and indices.used


@AFTER_A_PAD("MaxPool", "onnxruntime 1.17..1.19", since=7, before=21)
def competes_with_stated_pads(node: Node, around: Surroundings) -> bool | None:
    return node.has("pads") and competes_with_pads.run(node, around)


@AFTER_A_PAD("MaxPool", "onnxruntime 1.20..1.24", since=7, before=21)
def competes_with_pads(node: Node, around: Surroundings) -> bool:
    """Returns whether MaxPool after a Pad of zeros differs from MaxPool with these pads."""
    pads = merged_pads.merged_pads(node, around) if node.n_outputs == 1 else []
    producer = node["X"].producer if pads else None
    if producer is None:
        return False
    return not is_never_negative(producer["data"]) or _gives_others(node, pads)


@AFTER_A_PAD("MaxPool", "onnxruntime 1.25..1.31", since=7)
def competes_with_pads_at_every_opset(node: Node, around: Surroundings) -> bool | None:
    return competes_with_pads.run(node, around)


@alternative("MaxPool", runtime="onnxruntime==1.2")
def max_pool_by_rows(node: Node, op: Builder) -> Result:
    """Indices of MaxPool for `storage_order=1` are computed by nodes, for onnxruntime up to 1.2."""
    if windows.spread_in_same_size(node):
        return windows.with_pads(node, op)
    if op.version < 8 or node.int("storage_order") != 1:  # opset 8 added storage_order
        return op.same(node, inputs={"X": _apart(op, node["X"])}) if node.n_outputs == 1 else KEEP
    y, place = op.same(node, outputs=2, storage_order=None)
    sizes = [size_of(op, node["X"], axis) for axis in range(2, node["X"].rank)]
    before = list(accumulate(sizes, mul))
    rest = place % before[-1]
    place = place - rest
    for size, count in zip(reversed(sizes[1:]), reversed(before[:-1]), strict=True):
        place = place + rest % size * count
        rest = rest / size
    return y, place + rest


@adapter("MaxPool", 10, 9, ignores=INDICES_ORDER)
def max_pool_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, Slices or wider pads replace `dilations` and `ceil_mode` of MaxPool."""
    x, strides = node["X"], windows.per_axis(node, "strides")
    if not windows.dilated(node):
        return windows.rounded_down(node, op)
    indices = node.output("Indices")
    if indices is not None and indices.used:
        raise Refusal(
            Why.NOT_EXPRESSIBLE, "MaxPool with dilations cannot compute Indices before opset 10"
        )
    y = windows.padded(op, x, windows.floor_pads(node, x), -np.inf)
    for axis, kernel in enumerate(node.ints("kernel_shape")):
        if kernel > 1:
            y = _largest(op, y, 2 + axis, kernel, windows.per_axis(node, "dilations")[axis])
    ones = [1] * len(strides)
    return y if strides == ones else op.MaxPool(y, kernel_shape=ones, strides=strides)


def _largest(op: Builder, x: Value, axis: int, kernel: int, dilation: int) -> Value:
    """Returns, for each index, the maximum of `kernel` elements at intervals of `dilation`."""
    parts = []
    for place in range(kernel):
        left = (kernel - 1 - place) * dilation
        begin, end = place * dilation, -left if left else END
        slices = op.Slice(x, starts=[begin], ends=[end], axes=[axis])
        parts.append(op.Unsqueeze(slices, axes=[0]))
    return op.ReduceMax(op.Concat(*parts, axis=0), axes=[0], keepdims=0)


INDICES_8 = boundary(8, "MaxPool:20f670", directions="up")


@adapter("MaxPool", 8, 7, ignores=INDICES_ORDER)
def max_pool_8_7(node: Node, op: Builder) -> Result:
    """Below opset 8, MaxPool lacks the output Indices and `storage_order`, which must be unused."""
    indices = node.output("Indices")
    if indices is not None and indices.used:
        raise Refusal(Why.NOT_EXPRESSIBLE, "MaxPool has no output Indices before opset 8")
    return op.same(node, outputs=1, storage_order=None)


INCLUDE_PAD_7 = boundary(7, "AveragePool:19e318", directions="up")


@adapter("AveragePool", 7, 6)
def average_pool_7_6(node: Node, op: Builder) -> Result:
    """Below opset 7, AveragePool lacks `count_include_pad`; pads that count are written as Pad."""
    x = node["X"]
    inner = windows.counted_pads(node, x)[0] if node.int("count_include_pad") else []
    if not any(inner):
        return op.same(node, count_include_pad=None)
    inputs = {"X": windows.padded(op, x, inner, 0.0)}
    return op.same(node, inputs=inputs, pads=None, auto_pad=None, count_include_pad=None)


@in_other_words("GlobalAveragePool GlobalMaxPool")
def over_all_places(node: Node, op: Builder) -> Result:
    """A global pooling is written as a reduction over all axes after the channel axis."""
    x = node["X"]
    if x.rank < 3:  # a reduction over no axes would reduce all axes
        return KEEP
    name = "ReduceMean" if node.op == "GlobalAveragePool" else "ReduceMax"
    return op.emit(name, x, axes=list(range(2, x.rank)), keepdims=1)


@alternative("GlobalAveragePool GlobalLpPool GlobalMaxPool", runtime="openvino==2022.1")
def through_max(node: Node, op: Builder) -> Result:
    """A global pooling goes through Max, which OpenVINO does not merge."""
    y = op.same(node)
    return op.Max(y, y)


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
    """From opset 2 on, `p` of GlobalLpPool is an integer; fractions need Pow and ReduceSum."""
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

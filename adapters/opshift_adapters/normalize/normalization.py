# SPDX-License-Identifier: Apache-2.0
"""Instance, layer, group and RMS normalization, LRN, LpNormalization, MeanVarianceNormalization."""

import functools
import math
from typing import Any

from opshift.adapter import (
    KEEP,
    Builder,
    Found,
    Node,
    Refusal,
    Result,
    Surroundings,
    T,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    in_other_words,
    misread,
    np,
    output_types,
    retired,
    undefaulted,
)
from opshift.combinators import cast_around, drop_attribute

from opshift_adapters._lib.blocks import (
    END,
    as_image,
    counted_axis,
    from_image,
    part,
    size_of,
    squared,
)
from opshift_adapters._lib.kinds import as_type, cast_over

BFLOAT16_22 = boundary(
    22, "InstanceNormalization:7f9424 LpNormalization:16a2be", cast=cast_around("float")
)
BFLOAT16_13 = boundary(13, "LRN:fc10ad")
CONSUMED_6 = boundary(
    6, "InstanceNormalization:a50ea0", up=drop_attribute("consumed_inputs"), directions="up"
)


@adapter("InstanceNormalization", 6, 5)
def instance_normalization_6_5(node: Node, op: Builder) -> Result:
    """Below opset 6, InstanceNormalization needs 4-D data; other ranks are reshaped twice."""
    x = node["input"]
    if x.rank_or_none == 4:
        return KEEP
    return from_image(op, op.same(node, inputs={"input": as_image(op, x)}), x)


def mean_from(op: Builder, x: Value, axis: int) -> Value:
    """Returns the mean over `axis` and all later axes, which are kept with size 1."""
    if axis >= 0 and x.rank_or_none is None:
        sizes = op.Shape(x)
        after = op.ConstantOfShape(op.Shape(part(op, sizes, axis)), value=np.array([1]))
        mean = op.ReduceMean(op.Flatten(x, axis=axis), op.const([1]))
        return op.Reshape(mean, op.Concat(part(op, sizes, 0, axis), after, axis=0), allowzero=1)
    return op.ReduceMean(x, op.const(list(range(axis, 0 if axis < 0 else x.rank))))


of_layers = functools.partial(misread, "LayerNormalization", since=17)


@of_layers(
    "onnxruntime 1.14..1.16", source="2026-11-28 1.14..1.17: three opsets", since=18, wider="X"
)
def of_float16(node: Node) -> bool:
    """LayerNormalization of float16 does not load at opset 18 and above."""
    return node["X"].elem_type_or_none == T.FLOAT16


@of_layers("onnxruntime 1.14..1.18", source="2026-11-29 1.13..1.24: 28 operators", wider="X")
def reuses_memory(node: Node) -> bool | None:
    """LayerNormalization of float16 before other nodes may be wrong after the first run."""
    return None if node["X"].elem_type_or_none == T.FLOAT16 else False


of_scales = functools.partial(
    of_layers,
    says="{op} does not run if its scale or bias has another size than the normalized axes",
    source="2026-11-30 15 releases, 1.12..1.32: 122 scales and biases",
)


@of_layers("onnxruntime 1.13..1.18", source="2026-11-30 1.12..1.21: 1, 2 and 3 readers")
def lacks_a_bias(node: Node, around: Surroundings) -> bool:
    """LayerNormalization without a bias crashes the process if several nodes read its result."""
    y = node.outputs[0]
    return node.input("B") is None and y is not None and len(around.readers(y)) > 1


@of_scales("onnxruntime 1.12")
def broadcasts_several_numbers(node: Node) -> bool:
    return bool(_other_sizes(node) - {1})


@of_scales("onnxruntime 1.13..1.20")
def has_a_scale_that_broadcasts(node: Node) -> bool:
    return bool(_other_sizes(node))


@of_scales("onnxruntime 1.21..1.23")
def broadcasts_to_other_axes(node: Node) -> bool:
    shapes, rank = {value.shape_or_none for value in node.inputs[1:] if value}, node["X"].rank
    whole = len(shapes) == 1 and len(shapes.pop() or ()) == rank
    return bool(_other_sizes(node)) and not (whole and node.int("axis") in (-1, rank - 1))


def _other_sizes(node: Node) -> set[int]:
    """Returns the known sizes of scale and bias that differ from the size of normalized axes."""
    sizes = _normalized_sizes(node)
    shapes = [value.shape_or_none for value in node.inputs[1:] if value is not None]
    counts = {math.prod(shape) for shape in shapes if shape is not None}
    return set() if sizes is None else counts - {math.prod(sizes)}


@alternative("LayerNormalization", runtime="onnxruntime==1.20")
def with_a_whole_scale(node: Node, op: Builder) -> Result:
    """LayerNormalization gets a scale and a bias, of the whole size if they broadcast to it."""
    sizes, scale = _normalized_sizes(node), node["Scale"]
    parts = {name: value for name in ("Scale", "B") if (value := node.input(name)) is not None}
    shapes = {name: value.shape_or_none for name, value in parts.items()}
    if sizes is None or any(shape is None or len(shape) > len(sizes) for shape in shapes.values()):
        return KEEP
    whole = {
        name: op.Expand(value, op.const(sizes))
        for name, value in parts.items()
        if list(shapes[name] or ()) != sizes
    }
    if "B" not in parts:
        whole["B"] = op.const(np.zeros(sizes), like=scale)
    return op.same(node, inputs=whole) if whole else KEEP


def _normalized_sizes(node: Node) -> list[int] | None:
    """Returns the sizes of the normalized axes if all are known, else None."""
    dims = (node["X"].dims_or_none or (None,))[node.int("axis") :]
    sizes = [size for size in dims if isinstance(size, int)]
    return sizes if len(sizes) == len(dims) else None


def stretches(x: Value, part: Value, axis: int) -> bool:
    """Returns whether a scale or a bias is known to broadcast to x from `axis` on."""
    dims, own = x.dims_or_none, part.shape_or_none
    if own is None or len(own) > -axis:
        return False
    if all(size == 1 for size in own):
        return True
    if dims is None:
        return False
    wide = dims[len(dims) - len(own) :]
    return all(size in (1, length) for size, length in zip(own, wide, strict=True))


def stretched(found: Found) -> dict[str, Any] | None:
    """Returns the attributes if scale and bias broadcast to the shape of X, else None."""
    told, x = found.numbers, found["X"]
    if told.get("stash_type", x.elem_type_or_none) == T.FLOAT16:  # runtimes compute it in float
        return None
    parts = [found[name] for name in ("Scale", "scale", "B") if name in found]
    return told if all(stretches(x, part, told["axis"]) for part in parts) else None


def in_float(found: Found) -> dict[str, Any] | None:
    """Returns the attributes if mean and deviation have the types of LayerNormalization outputs."""
    stash = found.numbers.get("stash_type", found["X"].elem_type_or_none)
    return stretched(found) if stash in (T.FLOAT, T.BFLOAT16) else None


@adapter("LayerNormalization", 17, 16, in_other_words=True, mirrored=in_float)
def layer_normalization_17_16(node: Node, op: Builder) -> Result:
    """Below opset 17, LayerNormalization is written as its formula, computed in `stash_type`."""
    scale, bias, axis = node["Scale"], node.input("B"), node.int("axis")
    kind, stash = scale.elem_type, node.int("stash_type")
    x = as_type(op, node["X"], stash)
    if node.n_outputs > 1:  # onnxruntime keeps an empty axis that is counted from the end
        axis = counted_axis(x, axis)
    mean = mean_from(op, x, axis)
    gap = x - mean
    variance = mean_from(op, squared(op, gap, stash), axis)
    deviation = op.Sqrt(variance + op.const(node.float("epsilon"), stash))
    normal = gap / deviation
    y = (normal if kind == stash else op.Cast(normal, to=kind)) * scale
    if bias is not None:
        y = y + bias
    return (y, mean, op.Reciprocal(deviation)) if node.n_outputs == 3 else (y, mean)


EARLY = (  # onnxruntime runs these operators without a schema of onnx
    output_types("", "LayerNormalization", (1, 2), rank=(0,)),
    output_types("", "SimplifiedLayerNormalization", (1,), rank=(0,)),
)


@retired("LayerNormalization")
def layer_normalization_early(node: Node, op: Builder) -> Result:
    """LayerNormalization below 17, which some runtimes run, is written as its formula."""
    _not_before_7(node, op)
    return layer_normalization_17_16(node, op)


def _not_before_7(node: Node, op: Builder) -> None:
    """Refuses a conversion to an opset below 7, at which the scale cannot broadcast."""
    if op.version < 7:
        raise Refusal(Why.AMBIGUOUS, f"{node.op} is impossible below opset 7")


@retired("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: Node, op: Builder) -> Result:
    """SimplifiedLayerNormalization of onnxruntime becomes x / Sqrt(mean of x * x) * scale."""
    _not_before_7(node, op)
    values = [value for value in node.inputs if value is not None]
    if len(values) != 2 or node.n_outputs != 1:
        raise Refusal(
            Why.AMBIGUOUS, "SimplifiedLayerNormalization needs data and scale, and has one output"
        )
    axis = int(node.attr("axis") if node.has("axis") else -1)
    epsilon = float(node.attr("epsilon") if node.has("epsilon") else 1e-5)
    stash = int(node.attr("stash_type") if node.has("stash_type") else T.FLOAT)
    kind = values[0].elem_type
    x = as_type(op, values[0], stash)
    root = op.Sqrt(mean_from(op, squared(op, x, stash), axis) + op.const(epsilon, stash))
    return as_type(op, x / root, kind) * values[1]


@adapter("RMSNormalization", 23, 22, in_other_words=True, mirrored=stretched)
def rms_normalization_23_22(node: Node, op: Builder) -> Result:
    """Below opset 23, RMSNormalization is written as x / Sqrt(mean of x * x) * scale."""
    scale, kind, stash = node["scale"], node["X"].elem_type, node.int("stash_type")
    x = as_type(op, node["X"], stash)
    square = mean_from(op, squared(op, x, stash), node.int("axis"))
    root = op.Sqrt(square + op.const(node.float("epsilon"), stash))
    return cast_over(op, x / root, kind, scale.elem_type) * scale


def by_group(op: Builder, x: Value, groups: int, epsilon: float, kind: int) -> Value:
    """Normalizes [N, groups, rest] along the last axis, with the variance E[x^2] - E[x]^2."""
    rows = op.Reshape(x, op.const([0, groups, -1]))
    last = op.const([2])
    mean = op.ReduceMean(rows, last)
    variance = op.ReduceMean(rows * rows, last) - mean * mean
    deviation = op.Sqrt(variance + op.const(epsilon, kind))
    return (rows - mean) / deviation


def scaled(op: Builder, rows: Value, scale: Value, bias: Value) -> Value:
    """Multiplies by the scale and adds the bias along axis 1 of [N, channels, rest]."""
    middle = op.const([1, -1, 1])
    return rows * op.Reshape(scale, middle) + op.Reshape(bias, middle)


@adapter("GroupNormalization", 21, 20)
def group_normalization_21_20(node: Node, op: Builder) -> Result:
    """GroupNormalization, deprecated in opsets 18 to 20, is written as its formula."""
    x, scale, stash = node["X"], node["scale"], node.int("stash_type")
    kind = scale.elem_type
    work = x if kind == stash else op.Cast(x, to=stash)
    rows = by_group(op, work, node.int("num_groups"), node.float("epsilon"), stash)
    shape = op.Shape(x)
    channels = op.Reshape(op.Reshape(rows, shape), op.const([0, 0, -1]))
    normal = channels if kind == stash else op.Cast(channels, to=kind)
    return op.Reshape(scaled(op, normal, scale, node["bias"]), shape)


@adapter("GroupNormalization", 20, 21)
def group_normalization_20_21(node: Node, op: Builder) -> Result:
    """Opset 21 has a scale and a bias per channel, not per group; both are expanded."""
    channels, groups = size_of(op, node["X"], 1), node.int("num_groups")
    constant = channels.const_or_none()
    if constant is None:
        each = op.Reshape(channels, op.const([1])) / op.const([groups])
        wide = op.Concat(op.const([1]), each, axis=0)
    else:
        wide = op.const([1, int(constant) // groups])
    inputs = {
        name: op.Reshape(op.Expand(op.Reshape(node[name], op.const([-1, 1])), wide), op.const([-1]))
        for name in ("scale", "bias")
    }
    return op.same(node, inputs=inputs, stash_type=node["scale"].elem_type)


@adapter("GroupNormalization", 18, 17, in_other_words=True)
def group_normalization_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, GroupNormalization (with a scale per group) is written as its formula."""
    x, scale, groups = node["X"], node["scale"], node.int("num_groups")
    rows = by_group(op, x, groups, node.float("epsilon"), scale.elem_type)
    return op.Reshape(scaled(op, rows, scale, node["bias"]), op.Shape(x))


def written_axes(node: Node, op: Builder) -> Result:
    """MeanVarianceNormalization gets its default `axes`, because its function body reads `axes`."""
    return KEEP if node.has("axes") else op.same(node, axes=node.ints("axes"))


MEAN_VARIANCE_13 = boundary(13, "MeanVarianceNormalization:a73b3f", up=written_axes)


# The function body reads `axes`, and onnx's inference applies no defaults.
MEAN_VARIANCE = undefaulted("MeanVarianceNormalization")


mean_variance = functools.partial(
    misread, "MeanVarianceNormalization", source="2026-11-30 31 releases: 25 forms"
)


@mean_variance("onnxruntime 0.4..1.12", "{op} of other axes than 0, 2, 3 does not run or is wrong")
def has_other_axes(node: Node) -> bool:
    axes = sorted(axis % 4 for axis in node.ints("axes"))
    return axes not in ([0, 2, 3], [0, 1, 2, 3]) or node["X"].rank != 4


@mean_variance("onnxruntime 1.13..1.15", "{op} of other axes than [0, 2, 3] does not load")
def lists_other_axes(node: Node) -> bool:
    return node.ints("axes") not in ([0, 2, 3], [0, 1, 2, 3]) or node["X"].rank != 4


@mean_variance("onnxruntime 0.4..1.32", "{op} of single elements is NaN")
def normalizes_single_elements(node: Node) -> bool:
    dims = node["X"].dims_or_none
    return dims is not None and all(dims[axis] == 1 for axis in node.ints("axes"))


@adapter("MeanVarianceNormalization", 9, 8, in_other_words=True)
def mean_variance_normalization_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, MeanVarianceNormalization is written as (x - mean) / deviation."""
    kind, axes = node["X"].elem_type, node.ints("axes")
    work = T.FLOAT if kind == T.FLOAT16 else kind
    x = as_type(op, node["X"], work)
    gap = x - op.ReduceMean(x, axes=axes)
    deviation = op.Sqrt(op.ReduceMean(gap * gap, axes=axes))
    return as_type(op, gap / (deviation + op.const(1e-9, work)), kind)


@in_other_words("InstanceNormalization")
def instances_by_definition(node: Node, op: Builder) -> Result:
    """InstanceNormalization becomes (x - mean) / deviation over the axes of each instance."""
    x, rank = node["input"], node["input"].rank_or_none
    if rank is None or rank < 3 or x.elem_type not in (T.FLOAT, T.DOUBLE):
        return KEEP
    places, along = list(range(2, rank)), op.const([-1] + [1] * (rank - 2))
    gap = x - op.ReduceMean(x, op.const(places))
    variance = op.ReduceMean(gap * gap, op.const(places))
    normal = gap / op.Sqrt(variance + op.const(node.float("epsilon"), like=x))
    return normal * op.Reshape(node["scale"], along) + op.Reshape(node["B"], along)


@in_other_words("LpNormalization")
def by_the_norm(node: Node, op: Builder) -> Result:
    """LpNormalization is written as x divided by its norm, or 0 if the norm is 0."""
    x, kind = node["input"], node["input"].elem_type
    if kind not in (T.FLOAT, T.DOUBLE):
        return KEEP
    name, axis = (
        ("ReduceL1" if node.int("p") == 1 else "ReduceL2"),
        counted_axis(x, node.int("axis")),
    )
    norm = op.emit(name, x, op.const([axis]))
    smallest = T(kind).fraction.above(0.0)
    return x / op.Max(norm, op.const(smallest, like=x))


@misread("LRN", "onnxruntime 0.4..1.32", source="2026-11-30 1.2..1.32: sizes 2 to 4, 3 to 5 axes")
def does_not_run(node: Node) -> bool:
    """LRN of an even size or without four axes does not run."""
    return node.int("size") % 2 == 0 or node["X"].rank != 4


@in_other_words("LRN")
def sum_of_neighbours(node: Node, op: Builder) -> Result:
    """LRN is written as x divided by a power of the sum of squares of neighbouring channels."""
    x, size = node["X"], node.int("size")
    if x.rank_or_none is None:
        return KEEP
    pads = np.zeros((2, x.rank), np.int64)
    pads[:, 1] = (size - 1) // 2, size // 2
    squares = op.Pad(x * x, op.const(pads.ravel()))
    ends = (
        (op.const([at]) for at in range(size)),
        (op.const([at - size + 1 or END]) for at in range(size)),
    )
    shifted = [op.Slice(squares, *pair, op.const([1])) for pair in zip(*ends, strict=True)]
    base = functools.reduce(op.Add, shifted) * (node.float("alpha") / size) + node.float("bias")
    return x / op.Pow(base, op.const(node.float("beta"), like=x))

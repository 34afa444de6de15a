# SPDX-License-Identifier: Apache-2.0
"""BatchNormalization: the training mode, the outputs with statistics, and the element types."""

import functools

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    in_other_words,
    misread,
)
from opshift.combinators import drop_attribute

from opshift_adapters._lib.blocks import as_image, from_image
from opshift_adapters._lib.kinds import as_type
from opshift_adapters._lib.makers import maker, unmoved

WIDTH = (T.FLOAT16, T.FLOAT, T.DOUBLE)


def arity(node: Node) -> int:
    """Returns 1 for a BatchNormalization of inference, else the number of outputs in training."""
    return 1 if node.n_outputs == 1 else len(node.outputs)


TYPES_15 = boundary(15, "BatchNormalization:241e77", directions="up")


@adapter("BatchNormalization", 15, 14)
def batch_normalization_15_14(node: Node, op: Builder) -> Result:
    """Below opset 15, X, `scale` and `B` of BatchNormalization need one type; all are cast."""
    x, y, scale = node["X"], node.output("Y"), node["scale"].elem_type
    data = y.elem_type if y is not None and x.elem_type_or_none is None else x.elem_type
    if data == scale:
        return KEEP
    wide = widest(data, scale)
    inputs = {name: as_type(op, node[name], wide) for name in ("X", "scale", "B")}
    count = 3 if node.int("training_mode") else arity(node)
    values = op.same(node, inputs=inputs, outputs=count)
    return as_type(op, values[0], data), *values[1:]


def widest(*kinds: int) -> int:
    """Returns the narrowest of float16, float and double that represents all given types."""
    if T.BFLOAT16 in kinds:
        kinds = (*kinds, T.FLOAT)
    return max((kind for kind in kinds if kind != T.BFLOAT16), key=WIDTH.index)


@adapter("BatchNormalization", 14, 13, handles_types=True)
def batch_normalization_14_13(node: Node, op: Builder) -> Result:
    """Below opset 14, BatchNormalization with 5 outputs is in training, and its types are equal."""
    training = node.int("training_mode")
    data, statistics = node["scale"].elem_type, node["input_mean"].elem_type
    wide = widest(data, statistics)
    inputs = {}
    if {data, statistics} != {wide}:
        names = ("X", "scale", "B", "mean", "var")
        inputs = {
            new: op.Cast(value, to=wide)
            for new, value, kind in zip(
                names, node.inputs, [data] * 3 + [statistics] * 2, strict=True
            )
            if value is not None and kind != wide
        }
    count, kinds = 5 if training else 1, [data, statistics, statistics]
    values = op.same(node, inputs=inputs, outputs=count, training_mode=None)
    return tuple(
        op.Cast(value, to=kind) if kind != wide and wanted(node, i) else value
        for i, (value, kind) in enumerate(zip(values, kinds[: node.n_outputs], strict=False))
    )


@adapter("BatchNormalization", 13, 14)
def batch_normalization_13_14(node: Node, op: Builder) -> Result:
    """Opset 14 replaced five outputs by `training_mode`; ReduceMean computes saved_mean if read."""
    if node.n_outputs == 1:
        return KEEP if len(node.outputs) == 1 else op.same(node, outputs=1)
    if wanted(node, 4):
        raise Refusal(
            Why.AMBIGUOUS,
            "opset 14 removed saved_var, which runtimes compute otherwise than specified",
        )
    values = op.same(node, outputs=3, training_mode=1)
    return (*values, batch_mean(node, op)) if wanted(node, 3) else values


def wanted(node: Node, position: int) -> bool:
    """Returns whether a node or the graph reads the output at this position."""
    outputs = node.outputs
    output = outputs[position] if position < len(outputs) else None
    return output is not None and output.used


def batch_mean(node: Node, op: Builder) -> Value:
    """Returns the mean of each channel (axis 1); with a single scale, all data is one channel."""
    x, scale = node["X"], node["scale"]
    half = scale.elem_type == T.FLOAT16
    if half:
        x = op.Cast(x, to=T.FLOAT)
    if scale.shape_or_none == (1,) or x.rank_or_none == 1:
        mean = op.ReduceMean(op.Reshape(x, op.const([1, -1])), axes=[1], keepdims=0)
    elif x.rank_or_none is None:
        op.ask_caller(Why.NEEDS_RANK, f"the rank of {x.name!r} is unknown")
        mean = op.ReduceMean(op.Reshape(x, op.const([0, 0, -1])), axes=[0, 2], keepdims=0)
    else:
        mean = op.ReduceMean(x, axes=[0, *range(2, x.rank)], keepdims=0)
    return op.Cast(mean, to=T.FLOAT16) if half else mean


@adapter("BatchNormalization", 9, 8)
def batch_normalization_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, data needs a channel axis; Unsqueeze adds the axis to a vector."""
    x = node["X"]
    if node["scale"].shape_or_none not in ((1,), None) or x.rank > 1:
        return KEEP
    inputs = {"X": op.Unsqueeze(x, axes=[1])}
    values = op.same(node, inputs=inputs, outputs=arity(node))
    return op.Squeeze(values[0], axes=[1]), *values[1:]


@adapter("BatchNormalization", 8, 9)
def batch_normalization_8_9(node: Node, op: Builder) -> Result:
    """Opset 9 removed `spatial`; for spatial=0, a Flatten makes each element a channel."""
    if node.int("spatial"):
        return op.same(node, outputs=arity(node), spatial=None)
    x, mean = node["X"], node["mean"]
    inputs = {"X": op.Flatten(x, axis=1)}
    for name in ("scale", "B", "mean", "var"):
        inputs[name] = op.Reshape(node[name], op.const([-1]))
    values = op.same(node, inputs=inputs, outputs=arity(node), spatial=None)
    shapes = [x, *[mean] * 4]
    return tuple(
        op.Reshape(value, op.Shape(like)) if wanted(node, i) else value
        for i, (value, like) in enumerate(zip(values, shapes, strict=False))
    )


@adapter("BatchNormalization", 7, 6)
def batch_normalization_7_6(node: Node, op: Builder) -> Result:
    """Below opset 7, `is_test` of BatchNormalization is 1 for one output, 0 for more outputs."""
    count = arity(node)
    return op.same(node, outputs=count, is_test=int(count == 1))


@adapter("BatchNormalization", 6, 7)
def batch_normalization_6_7(node: Node, op: Builder) -> Result:
    """Opset 7 removed `is_test` of BatchNormalization; with is_test=0, it gets five outputs."""
    if not node.int("is_test"):
        return op.same(node, outputs=5, is_test=None)[: node.n_outputs]
    if any(wanted(node, i) for i in range(1, 5)):
        raise Refusal(Why.AMBIGUOUS, "no specification defines the statistics if is_test is 1")
    return op.same(node, outputs=1, is_test=None)


CONSUMED_6 = boundary(
    6, "BatchNormalization:be04ae", up=drop_attribute("consumed_inputs"), directions="up"
)


@adapter("BatchNormalization", 6, 5)
def batch_normalization_6_5(node: Node, op: Builder) -> Result:
    """Below opset 6, BatchNormalization needs `consumed_inputs`, and Reshape to 4-D data."""
    x, unused = node["X"], [0, 0, 0, 1, 1]
    if x.rank_or_none == 4:
        return op.same(node, consumed_inputs=unused)
    if not node.int("spatial"):
        raise Refusal(Why.NOT_EXPRESSIBLE, "before opset 6, spatial=0 requires data with 4 axes")
    inputs = {"X": as_image(op, x)}
    values = op.same(node, inputs=inputs, outputs=arity(node), consumed_inputs=unused)
    return from_image(op, values[0], x), *values[1:]


measured = functools.partial(misread, "BatchNormalization", source="2026-11-30 1.0..1.32")


@measured("onnxruntime 1.0..1.8", "{op} in training crashes the process or does not load", since=7)
def is_in_training(node: Node) -> bool:
    is_new = node.schema is not None and node.schema.since >= 14
    return bool(node.int("training_mode")) if is_new else len(node.outputs) > 1


@measured("onnxruntime 1.9..1.32", "{op} in training without statistics or per element fails")
def lacks_statistics(node: Node) -> bool:
    made = [value is not None for value in (*node.outputs, None, None)]
    by_element = "spatial" in node.attributes and not node.int("spatial")
    lacked = not all(made[:3]) or made[3] != made[4] or by_element
    return lacked and is_in_training.run(node) is True


@measured("onnxruntime 1.8", "{op} with statistics of another type does not run", since=14)
def has_other_statistics(node: Node) -> bool:
    return node["input_mean"].elem_type != node["X"].elem_type


@measured("onnxruntime 1.17..1.20", "{op} after a MatMul of another rank than 2 does not load")
def is_fused_with_a_product(node: Node) -> bool | None:
    product = maker(unmoved(node["X"], "Reshape", "Transpose"), "MatMul")
    parts = [] if product is None else [product["B"], *node.inputs[1:]]
    constant = all(value is None or value.const_or_none() is not None for value in parts)
    rank = product["A"].rank_or_none if product is not None and constant else 2
    return None if rank is None else rank != 2


@in_other_words("BatchNormalization")
def scaled_and_moved(node: Node, op: Builder) -> Result:
    """BatchNormalization becomes (x - mean) * scale / Sqrt(var + epsilon) + B."""
    flat = op.version < 9 and not node.int("spatial")
    if op.version < 7 or flat or wanted(node, 3) or wanted(node, 4):
        return KEEP
    parts = [value for value in node.inputs if value is not None]
    work = widest(*(kinds := [value.elem_type for value in parts]))
    x, scale, bias, *statistics = (as_type(op, value, work) for value in parts)
    (mean, var), training = statistics, is_in_training.run(node)
    behind = op.const(list(range(1, x.rank - 1)))

    def along(value: Value) -> Value:
        return op.Unsqueeze(value, behind) if x.rank > 2 else value

    if training:
        mean = channel_mean(op, x)
    gap = op.Sub(x, along(mean))
    if training:
        var = channel_mean(op, gap * gap)
    root = op.Sqrt(var + op.const(node.float("epsilon"), work))
    y = op.Add(op.Mul(op.Div(gap, along(root)), along(scale)), along(bias))
    kept = node.float("momentum")
    old, new = op.const(kept, work), op.const(1 - kept, work)
    pairs = zip(statistics, (mean, var), strict=True)
    running = [as_type(op, a * old + b * new, kinds[3]) for a, b in pairs]
    return (as_type(op, y, kinds[0]), *running[: node.n_outputs - 1])


def channel_mean(op: Builder, x: Value) -> Value:
    """Returns the mean of each channel (axis 1)."""
    return op.ReduceMean(x, op.const([0, *range(2, x.rank)]), keepdims=0)

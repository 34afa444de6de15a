# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft.nchwc, which compute images in the blocked channel layout (NCHWc)."""

from opshift.adapter import Array, Builder, Node, Result, T, Value, leaving

from opshift_adapters._lib.channel_blocks import (
    NCHWC,
    ConvFilter,
    filter_of,
    plain_channels,
    round_up,
    width_around,
)
from opshift_adapters._lib.contrib import activated, attribute, written

WINDOW = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


def plain_filter(filter: Array, sizes: ConvFilter) -> Array:
    """Reorders a filter from the blocked layout, whose last axes are the blocks, to plain order."""
    width, window = sizes.width, filter.shape[2:]
    if sizes.has_inner_blocks:
        parts = (sizes.outputs // width, sizes.inputs // width, *window, width, width)
        return filter.reshape(parts).transpose(0, 5, 1, 4, 2, 3).reshape(filter.shape)
    parts = (sizes.outputs // width, sizes.inputs, *window, width)
    return filter.reshape(parts).transpose(0, 4, 1, 2, 3).reshape(filter.shape)


@leaving("Conv", domain=NCHWC)
def conv(node: Node, op: Builder) -> Result:
    """A blocked Conv becomes Conv with a reordered filter, Add of `Sum` and an activation."""
    sizes = filter_of(node, width_around(node))
    filter = op.const(plain_filter(node["W"].const(), sizes))
    y: Value = op.Conv(node["X"], filter, node.input("B"), **written(node, "group", *WINDOW))
    added, name = node.input("Sum"), attribute(node, "activation", "")
    y = y if added is None else y + added
    parameters = [float(parameter) for parameter in attribute(node, "activation_params", [])]
    return activated(op, y, name, parameters) if name else y


@leaving("MaxPool AveragePool", domain=NCHWC, ignores={"storage_order": "no Indices output exists"})
def pool(node: Node, op: Builder) -> Result:
    """A blocked pooling is written as the pooling of ai.onnx."""
    width_around(node)
    counts = ("count_include_pad",) if node.op == "AveragePool" else ()
    result: Value = op.emit(node.op, node["X"], **written(node, "ceil_mode", *counts, *WINDOW))
    return result


@leaving("GlobalMaxPool GlobalAveragePool", domain=NCHWC)
def global_pool(node: Node, op: Builder) -> Result:
    """A blocked global pooling is written as the global pooling of ai.onnx."""
    width_around(node)
    result: Value = op.emit(node.op, node["X"])
    return result


@leaving("Upsample", domain=NCHWC, since=10)
def upsample(node: Node, op: Builder) -> Result:
    """A blocked Upsample is written as Resize by integer factors."""
    width_around(node)
    scales = op.const([float(scale) for scale in attribute(node, "scales", [1] * 4)], dtype=T.FLOAT)
    named = {
        "mode": node.str("mode"),
        "coordinate_transformation_mode": node.str("coordinate_transformation_mode"),
    }
    whole = op.const([], T.FLOAT)  # below opset 13, the input roi is required
    result: Value = op.Resize(node["X"], whole, scales, nearest_mode="floor", **named)
    return result


@leaving("ReorderInput", domain=NCHWC)
def reorder_input(node: Node, op: Builder) -> Result:
    """ReorderInput is written as Pad with the channels that fill the last block."""
    width, x = width_around(node), node["X"]
    channels = plain_channels(node, x.claimed_dims_or_none) or 0  # known, because the width is
    if node.int("channels_last"):
        x = op.Transpose(x, perm=[0, 3, 1, 2])
    added = round_up(channels, width) - channels
    return op.Pad(x, op.const([0, 0, 0, 0, 0, added, 0, 0])) if added else x


@leaving("ReorderOutput", domain=NCHWC)
def reorder_output(node: Node, op: Builder) -> Result:
    """ReorderOutput is written as Slice without the channels that fill the last block."""
    x, channels = node["X"], node.int("channels")
    if round_up(channels, width_around(node)) != channels:
        x = op.Slice(x, op.const([0]), op.const([channels]), op.const([1]))
    return op.Transpose(x, perm=[0, 2, 3, 1]) if node.int("channels_last") else x

# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft that ai.onnx defines, too, with nearly the same inputs."""

from opshift.adapter import Builder, Node, Result, T, leaving

from opshift_adapters._lib.contrib import MICROSOFT, attribute
from opshift_adapters._lib.kinds import as_type


@leaving("ExpandDims", domain=MICROSOFT, since=13)
def expand_dims(node: Node, op: Builder) -> Result:
    """ExpandDims of com.microsoft is written as Unsqueeze, with its scalar axis as a vector."""
    axis = node["axis"]
    constant = axis.const_or_none()
    if constant is not None:
        return op.Unsqueeze(node["X"], op.const(constant.reshape(1).astype("int64")))
    return op.Unsqueeze(node["X"], op.Reshape(op.Cast(axis, to=T.INT64), op.const([1])))


@leaving("GatherND", domain=MICROSOFT, since=11)
def gather_nd(node: Node, op: Builder) -> Result:
    """GatherND of com.microsoft becomes GatherND of ai.onnx, with int64 indices."""
    return op.GatherND(node["data"], as_type(op, node["indices"], T.INT64))


@leaving("GridSample", domain=MICROSOFT, since=16)
def grid_sample(node: Node, op: Builder) -> Result:
    """GridSample of com.microsoft becomes GridSample of ai.onnx with the same attributes."""
    mode, padding, corners = map(node.attr, ("mode", "padding_mode", "align_corners"))
    x, grid = node["X"], node["Grid"]
    return op.GridSample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)


@leaving("Pad", domain=MICROSOFT, since=11)
def pad(node: Node, op: Builder) -> Result:
    """Pad of com.microsoft becomes Pad of ai.onnx: pads are a vector, the value is a scalar."""
    pads, value = node["pads"], node.input("value")
    if pads.rank != 1:
        pads = op.Reshape(pads, op.const([-1]))
    if value is not None and value.rank_or_none != 0:
        value = op.Reshape(value, op.const([]))
    return op.Pad(node["data"], pads, value, mode=node.str("mode"))


@leaving("QuantizeLinear", domain=MICROSOFT, since=21)
def quantize_linear(node: Node, op: Builder) -> Result:
    """QuantizeLinear of com.microsoft becomes QuantizeLinear of ai.onnx."""
    zero, axis = node.input("y_zero_point"), attribute(node, "axis", 1)
    return op.QuantizeLinear(node["x"], node["y_scale"], zero, axis=axis)


@leaving("DequantizeLinear", domain=MICROSOFT, since=21)
def dequantize_linear(node: Node, op: Builder) -> Result:
    """DequantizeLinear of com.microsoft becomes DequantizeLinear of ai.onnx."""
    zero, axis = node.input("x_zero_point"), attribute(node, "axis", 1)
    return op.DequantizeLinear(node["x"], node["x_scale"], zero, axis=axis)


@leaving("Range", domain=MICROSOFT, since=11)
def range_(node: Node, op: Builder) -> Result:
    """Range of com.microsoft becomes Range of ai.onnx, with step 1 by default."""
    start, step = node["start"], node.input("delta")
    return op.Range(start, node["limit"], op.const(1, like=start) if step is None else step)


@leaving("Trilu", domain=MICROSOFT, since=14)
def trilu(node: Node, op: Builder) -> Result:
    """Trilu of com.microsoft becomes Trilu of ai.onnx with the same inputs."""
    return op.Trilu(node["X"], node.input("k"), upper=node.int("upper"))


@leaving("Unique", domain=MICROSOFT, since=11)
def unique(node: Node, op: Builder) -> Result:
    """Unique of com.microsoft becomes unsorted Unique of ai.onnx, without first indices."""
    y, _, place, count = op.Unique(node["x"], sorted=0, outputs=4)
    return (y, place, count)[: node.n_outputs]

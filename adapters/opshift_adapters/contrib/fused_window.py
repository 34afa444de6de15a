# SPDX-License-Identifier: Apache-2.0
"""FusedConv, ConvTransposeWithDynamicPads and NhwcMaxPool, written with operators of ai.onnx."""

from opshift.adapter import Builder, InvalidModel, Node, Result, Value, leaving, misread

from opshift_adapters._lib.contrib import MICROSOFT, activated, attribute, written

CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
TRANSPOSED = ("auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides")
POOL = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


@leaving("FusedConv", domain=MICROSOFT, since=11)
def fused_conv(node: Node, op: Builder) -> Result:
    """FusedConv is written as Conv, an optional Add and its activation."""
    y = op.Conv(node["X"], node["W"], node.input("B"), **written(node, *CONV))
    added = node.input("Z")
    y = y if added is None else y + added
    parameters = [float(parameter) for parameter in attribute(node, "activation_params", [])]
    name = attribute(node, "activation", "")
    return activated(op, y, name, parameters) if name else y


@misread("FusedConv", "onnxruntime 1.8..1.11", source="2026-11-30 1.3..1.32", domain=MICROSOFT)
def adds_a_tensor(node: Node) -> bool:
    """FusedConv applies the activation before it adds Z."""
    return node.input("Z") is not None


@leaving("ConvTransposeWithDynamicPads", domain=MICROSOFT, since=11)
def conv_transpose_with_dynamic_pads(node: Node, op: Builder) -> Result:
    """ConvTransposeWithDynamicPads becomes ConvTranspose, whose pads must be constant."""
    pads, w, bias = node["Pads"].const().tolist(), node["W"], node.input("B")
    if w.rank_or_none not in (None, len(pads) // 2 + 2):
        raise InvalidModel(
            f"{node.op} {node.name!r} has {len(pads)} pads, but weights of rank {w.rank}"
        )
    same = written(node, *TRANSPOSED)
    y: Value = op.ConvTranspose(node["X"], w, bias, pads=pads, **same)
    return y


@leaving("NhwcMaxPool", domain=MICROSOFT, since=12)
def nhwc_max_pool(node: Node, op: Builder) -> Result:
    """NhwcMaxPool (channels last) is written as MaxPool between two Transposes."""
    x = node["x"]
    moved = op.Transpose(x, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    y: Value = op.MaxPool(moved, **written(node, *POOL))
    return op.Transpose(y, perm=[0, *range(2, x.rank), 1])

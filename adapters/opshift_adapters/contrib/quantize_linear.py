# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear of com.microsoft, whose types ai.onnx has from 21 on."""

from opshift.adapter import Builder, Node, Result, leaving

from opshift_adapters._lib.contrib import MICROSOFT, attribute


@leaving("QuantizeLinear", domain=MICROSOFT, since=21)
def quantize_linear(node: Node, op: Builder) -> Result:
    """QuantizeLinear of ai.onnx is written, with the same inputs."""
    zero, axis = node.input("y_zero_point"), attribute(node, "axis", 1)
    return op.QuantizeLinear(node["x"], node["y_scale"], zero, axis=axis)


@leaving("DequantizeLinear", domain=MICROSOFT, since=21)
def dequantize_linear(node: Node, op: Builder) -> Result:
    """DequantizeLinear of ai.onnx is written, with the same inputs."""
    zero, axis = node.input("x_zero_point"), attribute(node, "axis", 1)
    return op.DequantizeLinear(node["x"], node["x_scale"], zero, axis=axis)

# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear of com.microsoft, whose types ai.onnx has from 21 on."""

from opshift.adapter import Builder, Node, Result, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT, attribute


@leaving("QuantizeLinear", domain=MICROSOFT, since=21)
@example(
    "16 bits",
    "(float[2,3] x) => (uint16[2,3] y) <float s = {0.01}, uint16 z = {30000}> { y ="
    " com.microsoft.QuantizeLinear(x, s, z) }",
    gives="QuantizeLinear",
    imports={"": 21},
)
def quantize_linear(node: Node, op: Builder) -> Result:
    """QuantizeLinear of ai.onnx is written, with the same inputs."""
    zero, axis = node.input("y_zero_point"), attribute(node, "axis", 1)
    return op.QuantizeLinear(node["x"], node["y_scale"], zero, axis=axis)


@leaving("DequantizeLinear", domain=MICROSOFT, since=21)
@example(
    "16 bits",
    "(uint16[2,3] x) => (float[2,3] y) <float s = {0.01}, uint16 z = {30000}> { y ="
    " com.microsoft.DequantizeLinear(x, s, z) }",
    gives="DequantizeLinear",
    imports={"": 21},
    inputs={"x": [[0, 65535, 30000], [1, 2, 3]]},
)
def dequantize_linear(node: Node, op: Builder) -> Result:
    """DequantizeLinear of ai.onnx is written, with the same inputs."""
    zero, axis = node.input("x_zero_point"), attribute(node, "axis", 1)
    return op.DequantizeLinear(node["x"], node["x_scale"], zero, axis=axis)

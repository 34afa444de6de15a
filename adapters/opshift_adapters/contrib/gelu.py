# SPDX-License-Identifier: Apache-2.0
"""Gelu, BiasGelu, FastGelu and QuickGelu of com.microsoft."""

from opshift.adapter import Builder, Node, Result, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("Gelu", domain=MICROSOFT, since=9)
def gelu(node: Node, op: Builder) -> Result:
    """Gelu of com.microsoft is written as Gelu of ai.onnx."""
    return op.Gelu(node["X"])


@leaving("BiasGelu", domain=MICROSOFT, since=9)
def bias_gelu(node: Node, op: Builder) -> Result:
    """BiasGelu is written as Gelu of the sum of both inputs."""
    return op.Gelu(node["A"] + node["B"])


@leaving("FastGelu", domain=MICROSOFT)
def fast_gelu(node: Node, op: Builder) -> Result:
    """FastGelu (with Tanh) is written as Gelu with approximate=tanh."""
    x, bias = node["X"], node.input("bias")
    return op.Gelu(x if bias is None else x + bias, approximate="tanh")


@leaving("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node, op: Builder) -> Result:
    """QuickGelu is written as x * Sigmoid(alpha * x)."""
    x, alpha = node["X"], node.float("alpha")
    return x * op.Sigmoid(x if alpha == 1 else x * op.const(alpha, like=x))

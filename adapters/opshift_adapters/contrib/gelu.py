# SPDX-License-Identifier: Apache-2.0
"""Gelu, BiasGelu, FastGelu and QuickGelu."""

from opshift.adapter import Builder, Node, Result, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("Gelu", domain=MICROSOFT, since=9)
def gelu(node: Node, op: Builder) -> Result:
    """Gelu of ai.onnx is written."""
    return op.Gelu(node["X"])


@leaving("BiasGelu", domain=MICROSOFT, since=9)
def bias_gelu(node: Node, op: Builder) -> Result:
    """BiasGelu is Gelu of a sum; Add and Gelu are written."""
    return op.Gelu(node["A"] + node["B"])


@leaving("FastGelu", domain=MICROSOFT)
def fast_gelu(node: Node, op: Builder) -> Result:
    """FastGelu approximates Gelu with Tanh; Gelu is written."""
    x, bias = node["X"], node.input("bias")
    return op.Gelu(x if bias is None else x + bias, approximate="tanh")


@leaving("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node, op: Builder) -> Result:
    """QuickGelu is x * Sigmoid(alpha * x); Mul and Sigmoid are written."""
    x, alpha = node["X"], node.float("alpha")
    return x * op.Sigmoid(x if alpha == 1 else x * op.const(alpha, like=x))

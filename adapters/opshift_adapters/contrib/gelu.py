# SPDX-License-Identifier: Apache-2.0
"""Gelu, BiasGelu, FastGelu and QuickGelu."""

from opshift.adapter import Builder, Node, Result, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT, number


@leaving("Gelu", domain=MICROSOFT, since=9)
@example(
    "early",
    "(float[2,3] x) => (float[2,3] y) { y = com.microsoft.Gelu(x) }",
    gives="Div Erf Mul Add Mul",
    atol=1e-6,
)
def gelu(node: Node, op: Builder) -> Result:
    """Gelu of ai.onnx is written."""
    return op.Gelu(node["X"])


@leaving("BiasGelu", domain=MICROSOFT, since=9)
@example(
    "bias",
    "(float[2,3] x, float[3] b) => (float[2,3] y) { y = com.microsoft.BiasGelu(x, b) }",
    gives="Add Div Erf Mul Add Mul",
    atol=1e-6,
)
def bias_gelu(node: Node, op: Builder) -> Result:
    """BiasGelu is Gelu of a sum; Add and Gelu are written."""
    return op.Gelu(node["A"] + node["B"])


@leaving("FastGelu", domain=MICROSOFT)
@example(
    "alone",
    "(float[2,3] x) => (float[2,3] y) { y = com.microsoft.FastGelu(x) }",
    gives="Pow Mul Add Mul Tanh Mul Add Mul",
    atol=1e-6,
)
def fast_gelu(node: Node, op: Builder) -> Result:
    """FastGelu approximates Gelu with Tanh; Gelu is written."""
    x, bias = node["X"], node.input("bias")
    return op.Gelu(x if bias is None else x + bias, approximate="tanh")


@leaving("QuickGelu", domain=MICROSOFT)
@example(
    "default",
    "(float[2,3] x) => (float[2,3] y) { y = com.microsoft.QuickGelu(x) }",
    gives="Mul Sigmoid Mul",
    inputs={"x": [[-3.5, -0.5, 2.5], [88.0, -88.0, 0.0]]},
    atol=1e-6,
)
def quick_gelu(node: Node, op: Builder) -> Result:
    """QuickGelu is x * Sigmoid(alpha * x); Mul and Sigmoid are written."""
    x, alpha = node["X"], node.float("alpha")
    return x * op.Sigmoid(x if alpha == 1 else x * number(op, alpha, x))

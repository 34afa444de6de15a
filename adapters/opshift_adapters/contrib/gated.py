# SPDX-License-Identifier: Apache-2.0
"""GatedAdd, GatedRMSNorm, LinearAttentionGate and ScaledSiLU: gates of linear attention."""

from opshift.adapter import Builder, InvalidModel, Node, Refusal, Result, T, Value, Why, leaving

from opshift_adapters._lib.contrib import MICROSOFT, mean_of_last, named
from opshift_adapters._lib.kinds import as_type


@leaving("GatedAdd", domain=MICROSOFT, since=7)
def gated_add(node: Node, op: Builder) -> Result:
    """GatedAdd is written as x + y * gate."""
    if node.input("gate_weight") is not None:
        raise Refusal(Why.NOT_EXPRESSIBLE, "GatedAdd with gate_weight is defined only for GPUs")
    return node["X"] + node["Y"] * node["gate"]


@leaving("ScaledSiLU", domain=MICROSOFT, since=7)
def scaled_silu(node: Node, op: Builder) -> Result:
    """ScaledSiLU is written as z * Sigmoid(z) of z = scale * x."""
    x, scale = node["X"], node.input("scale")
    alpha = 1.0 if scale is not None else node.float("alpha")
    if scale is not None or alpha != 1:
        wide = as_type(op, x, T.FLOAT)
        by = op.const(alpha, like=wide) if scale is None else as_type(op, scale, T.FLOAT)
        x = as_type(op, wide * by, x.elem_type)
    return x * op.Sigmoid(x)


@leaving("GatedRMSNorm", domain=MICROSOFT, since=11)
def gated_rms_norm(node: Node, op: Builder) -> Result:
    """GatedRMSNorm is written as RMSNormalization in float, times the activation of the gate."""
    x, kind = node["X"], node["X"].elem_type
    wide, scale, gate = (as_type(op, value, T.FLOAT) for value in named(node, "X scale gate"))
    width, whole = scale.dims[0], x.dims[-1]
    if not isinstance(width, int) or not isinstance(whole, int):
        raise Refusal(Why.NEEDS_SHAPE, f"the last size of {x.name!r} or of its scale is unknown")
    if whole != width and (not width or whole % width):
        raise InvalidModel(
            f"GatedRMSNorm {node.name!r} has rows of {whole} numbers, but a scale of {width}"
        )
    before = [0] * (x.rank - 1)
    rows = wide if whole == width else op.Reshape(wide, op.const([*before, whole // width, width]))
    mean = mean_of_last(op, rows * rows)
    normal = rows / op.Sqrt(mean + op.const(node.float("epsilon"), like=rows)) * scale
    if whole != width:
        normal = op.Reshape(normal, op.const([*before, whole]))
    return as_type(op, normal * _activated(node, op, gate), kind)


def _activated(node: Node, op: Builder, gate: Value) -> Value:
    name = node.str("activation")
    if name not in ("silu", "swish", "sigmoid"):
        raise Refusal(Why.NOT_EXPRESSIBLE, f"ai.onnx has no activation {name!r} for GatedRMSNorm")
    return op.Sigmoid(gate) if name == "sigmoid" else gate * op.Sigmoid(gate)


@leaving("LinearAttentionGate", domain=MICROSOFT, since=7)
def linear_attention_gate(node: Node, op: Builder) -> Result:
    """LinearAttentionGate becomes a scaled Softplus of a + dt_bias, and Sigmoid of b."""
    a, b = node["a"], node.input("b")
    decay = op.Softplus(as_type(op, a, T.FLOAT) + node["dt_bias"]) * node["decay_scale"]
    cast = as_type(op, decay, a.elem_type)
    return cast if node.n_outputs < 2 and b is None else (cast, op.Sigmoid(node["b"]))

# SPDX-License-Identifier: Apache-2.0
"""Attention and QAttention of com.microsoft: one input is projected to queries, keys and values."""

from opshift.adapter import Builder, Node, Result, T, Value, leaving, misread

from opshift_adapters._lib.contrib import MICROSOFT, named, refuse
from opshift_adapters._lib.heads import apart, attended, biases_of, scale_of, width, with_past
from opshift_adapters._lib.kinds import as_type


@leaving("Attention", domain=MICROSOFT, since=13)
def attention(node: Node, op: Builder) -> Result:
    """Attention of com.microsoft projects its input to Q, K and V, by MatMul, Split and Softmax."""
    projected = op.MatMul(node["input"], node["weights"]) + node["bias"]
    return _attended(node, op, projected, node["weights"])


def _attended(node: Node, op: Builder, projected: Value, w: Value) -> Result:
    refuse(node, "past_present_share_buffer", "do_rotary")
    heads = node.int("num_heads")
    whole = width(w, 1, "the rows of its weights")
    qkv_hidden_sizes = node.ints_or_none("qkv_hidden_sizes") if node.op == "Attention" else None
    sizes = qkv_hidden_sizes or [whole // 3] * 3
    q, k, v = (
        apart(op, part, heads) for part in op.Split(projected, op.const(sizes), axis=-1, outputs=3)
    )
    before = node.input("past")
    if before is not None:
        halves = op.Split(before, op.const([1, 1]), axis=0, outputs=2)
        k, v = (
            with_past(op, op.Squeeze(half, op.const([0])), new)
            for half, new in zip(halves, (k, v), strict=True)
        )
    bias = node.input("attention_bias") if node.op == "Attention" else None
    biases = biases_of(node, op, node.input("mask_index"), bias, q, k)
    y = attended(op, q, k, v, scale_of(node, sizes[0] // heads), biases)
    if node.output("present") is None:
        return y
    both = [op.Unsqueeze(one, op.const([0])) for one in (k, v)]
    return y, op.Concat(*both, axis=0)


@misread("Attention", "onnxruntime 1.2..1.7", source="2026-11-29 1.4..1.8: sizes", domain=MICROSOFT)
def changes_the_size(node: Node) -> bool:
    """Attention is computed as if its result had the size of its input."""
    x, w = (node[name].dims_or_none or (None,) for name in ("input", "weights"))
    return isinstance(x[-1], int) and isinstance(w[-1], int) and w[-1] != 3 * x[-1]


@leaving("QAttention", domain=MICROSOFT, since=13)
def qattention(node: Node, op: Builder) -> Result:
    """QAttention is Attention with an integer projection, written as MatMulInteger."""
    zeros = node.input("input_zero_point"), node.input("weight_zero_point")
    sums = op.MatMulInteger(node["input"], node["weight"], *zeros)
    reals = named(node, "bias input_scale weight_scale")
    bias, *scales = (as_type(op, real, T.FLOAT) for real in reals)
    projected = op.Cast(sums, to=T.FLOAT) * op.Mul(*scales) + bias
    projected = as_type(op, projected, node["bias"].elem_type)
    return _attended(node, op, projected, node["weight"])

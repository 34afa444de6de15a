# SPDX-License-Identifier: Apache-2.0
"""MultiHeadAttention: attention of queries, keys and values that are already projected."""

from opshift.adapter import Builder, Node, Refusal, Result, Value, Why, leaving

from opshift_adapters._lib.contrib import MICROSOFT
from opshift_adapters._lib.heads import apart, attended, biases_of, scale_of, width, with_past


@leaving("MultiHeadAttention", domain=MICROSOFT, since=13)
def multi_head_attention(node: Node, op: Builder) -> Result:
    """MultiHeadAttention is written as Softmax(Q @ K^T * scale + biases) @ V."""
    if any(scores is not None and scores.used for scores in node.outputs[3:]):
        raise Refusal(Why.NOT_EXPRESSIBLE, f"{node.op} with the output qk is impossible in ai.onnx")
    q, k, v = (node.input(name) for name in ("query", "key", "value"))
    if q is None or k is None or v is None or q.rank != 3:
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"{node.op} with Q, K and V in one tensor is impossible in ai.onnx"
        )
    heads, bias, is_split = node.int("num_heads"), node.input("bias"), k.rank == 4
    size = width(q, 2, "a query") // heads
    if bias is not None and not is_split:
        q, k, v = _shifted(op, bias, q, k, v)
    q = apart(op, q, heads)
    k, v = (k, v) if is_split else (apart(op, k, heads), apart(op, v, heads))
    k, v = with_past(op, node.input("past_key"), k), with_past(op, node.input("past_value"), v)
    biases = biases_of(node, op, node.input("key_padding_mask"), node.input("attention_bias"), q, k)
    y = attended(op, q, k, v, scale_of(node, size), biases)
    return (y, k, v, y)[: node.n_outputs]


def _shifted(op: Builder, bias: Value, q: Value, k: Value, v: Value) -> tuple[Value, ...]:
    """Splits the bias, and adds the parts to the queries, keys and values."""
    sizes = [width(value, 2, "a projection") for value in (q, k, v)]
    parts = op.Split(bias, op.const(sizes), axis=0, outputs=3)
    return tuple(value + part for value, part in zip((q, k, v), parts, strict=True))

# SPDX-License-Identifier: Apache-2.0
"""MultiHeadAttention: attention of queries, keys and values that are already projected."""

from opshift.adapter import Builder, Node, Refusal, Result, Value, Why, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT
from opshift_adapters._lib.heads import (
    apart,
    attended,
    biases_of,
    scale_of,
    width,
    with_past,
)

QKV = "(float[2,3,8] q, float[2,5,8] k, float[2,5,8] v"
CALL = "com.microsoft.MultiHeadAttention<num_heads=2>"
MASK = {"m": [[1, 1, 0, 1, 1], [1, 0, 0, 0, 0]], "n": [5, 2], "t": [[[1, 1, 0, 1, 1]] * 3, [[1, 0, 0, 1, 0]] * 3]}


@leaving("MultiHeadAttention", domain=MICROSOFT, since=13)
@example("plain", QKV + ") => (float[2,3,8] y) { y = " + CALL + "(q, k, v) }", atol=1e-5)
@example("heads without numbers", QKV.replace("8]", "0]") + ") => (float[2,3,0] y) { y = " + CALL + "(q, k, v) }", invalid="has heads without numbers")
@example("bias", QKV + ", float[24] b) => (float[2,3,8] y) { y = " + CALL + "(q, k, v, b) }", atol=1e-5)
@example("mask of keys", QKV + ", int32[2,5] m) => (float[2,3,8] y) { y = " + CALL + '(q, k, v, "", m) }', inputs=MASK, atol=1e-5)
@example("ends of rows", QKV + ", int32[2] n) => (float[2,3,8] y) { y = " + CALL + '(q, k, v, "", n) }', inputs=MASK, atol=1e-5)
@example("mask of pairs", QKV + ", int32[2,3,5] t) => (float[2,3,8] y) { y = " + CALL + '(q, k, v, "", t) }', inputs=MASK, atol=1e-5)
@example("a bias of products, a scale", QKV + ", float[1,2,3,5] a) => (float[2,3,8] y) { y = com.microsoft.MultiHeadAttention<num_heads=2, scale=0.3>" + '(q, k, v, "", "", a) }', atol=1e-5)
@example("past, in order", "(float[2,3,8] q, float[2,3,8] k, float[2,3,8] v, float[2,2,4,4] c, float[2,2,4,4] d) => (float[2,3,8] y, float[2,2,7,4] e, float[2,2,7,4] f) { y, e, f = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>" + '(q, k, v, "", "", "", c, d) }', atol=1e-5)
@example("heads of keys", "(float[2,3,8] q, float[2,2,5,4] k, float[2,2,5,4] v) => (float[2,3,8] y) { y = " + CALL + "(q, k, v) }", atol=1e-5)
@example("all in one", "(float[2,3,2,3,4] q) => (float[2,3,8] y) { y = " + CALL + "(q) }", refuses=Why.NOT_EXPRESSIBLE)
@example("products", QKV + ') => (float[2,3,8] y, float[2,2,3,5] p) { y, "", "", p = ' + CALL + "(q, k, v) }", refuses=Why.NOT_EXPRESSIBLE)
@example("bias of unknown width", "(float[2,3,D] q, float[2,5,D] k, float[2,5,E] v, float[F] b) => (float[2,3,G] y) { y = " + CALL + "(q, k, v, b) }", refuses=Why.NEEDS_SHAPE)
def multi_head_attention(node: Node, op: Builder) -> Result:
    """MultiHeadAttention is Softmax(Q @ K^T * scale + biases) @ V; this formula is written."""
    if node.output("qk") is not None:
        raise Refusal(Why.NOT_EXPRESSIBLE, f"{node.op} with the products as an output has no other form")
    q, k, v = (node.input(name) for name in ("query", "key", "value"))
    if q is None or k is None or v is None or q.rank != 3:
        raise Refusal(Why.NOT_EXPRESSIBLE, f"{node.op} with queries, keys and values in one tensor has no other form")
    heads, bias, known = node.int("num_heads"), node.input("bias"), k.rank == 4
    size = width(q, 2, "a query") // heads
    if bias is not None and not known:
        q, k, v = _shifted(op, bias, q, k, v)
    q = apart(op, q, heads)
    k, v = (k, v) if known else (apart(op, k, heads), apart(op, v, heads))
    k, v = with_past(op, node.input("past_key"), k), with_past(op, node.input("past_value"), v)
    biases = biases_of(
        node, op, node.input("key_padding_mask"), node.input("attention_bias"), q, k
    )
    y = attended(op, q, k, v, scale_of(node, size), biases)
    return (y, k, v)[: node.n_outputs]


def _shifted(op: Builder, bias: Value, q: Value, k: Value, v: Value) -> tuple[Value, ...]:
    """Each projection plus its part of the bias."""
    sizes = [width(one, 2, "a projection") for one in (q, k, v)]
    parts = op.Split(bias, op.const(sizes), axis=0, outputs=3)
    return tuple(one + part for one, part in zip((q, k, v), parts, strict=True))

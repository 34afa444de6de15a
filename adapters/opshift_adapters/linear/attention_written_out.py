"""Attention below its birth in 23."""

import numpy as np
from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, adapter, example

from opshift_adapters.linear.attention import (
    COUNTING,
    HEADS,
    PACKED,
    PAST,
    PRESENT,
    QKV,
    RANKLESS,
    Y3,
    Y,
    grid,
    hide,
    is_packed,
    lengths,
    mask_of,
    size_at,
)


@adapter("Attention", 23, 22, emits=(
    "Reshape", "Transpose", "Shape", "Concat", "Sqrt", "Cast", "Reciprocal", "Mul", "Div", "MatMul",
    "Tanh", "Add", "Where", "And", "LessOrEqual", "Equal", "ReduceMax", "Softmax", "Unsqueeze",
    "Expand", *COUNTING,
))  # fmt: skip
@example("four axes", QKV + Y + "{ y = Attention(q, k, v) }", gives="Transpose Mul Mul MatMul Softmax MatMul", rtol=1e-5, atol=1e-6)
@example("three axes", PACKED + Y3 + "{ y = Attention<" + HEADS + ",scale=0.3>(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("causal", QKV + Y + "{ y = Attention<is_causal=1>(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("past", QKV + PAST + PRESENT + "{ y, k2, v2 = Attention<is_causal=1>(q, k, v, , pk, pv) }", rtol=1e-5, atol=1e-6)
@example("bool mask", QKV + ", bool[2,1,3,5] m" + Y + "{ y = Attention(q, k, v, m) }", rtol=1e-5, atol=1e-6)
@example("nothing in sight", QKV + ", bool[3,5] m" + Y + "{ y = Attention<is_causal=1>(q, k, v, m) }", inputs={"m": [[False] * 5, [True] * 5, [False] * 5]}, rtol=1e-5, atol=1e-6)
@example("float mask", QKV + ", float[2,3,5] m" + Y + "{ y = Attention<is_causal=1>(q, k, v, m) }", rtol=1e-5, atol=1e-6)
@example("mask of one column", QKV + ", bool[3,1] m" + Y + "{ y = Attention(q, k, v, m) }", inputs={"m": [[True], [False], [True]]}, rtol=1e-5, atol=1e-6)
@example("shared heads", "(float[2,4,3,4] q, float[2,2,5,4] k, float[2,2,5,6] v) => (float[2,4,3,6] y) { y = Attention(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("shared heads, packed", PACKED.replace("3,8", "3,16") + ") => (float[2,3,24] y) { y = Attention<q_num_heads=4,kv_num_heads=2>(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("unknown heads", "(float[2,H,3,4] q, float[2,G,5,4] k, float[2,G,5,6] v) => (float[2,H,3,6] y) { y = Attention(q, k, v) }", inputs={"q": np.ones((2, 4, 3, 4)), "k": np.ones((2, 2, 5, 4)), "v": np.ones((2, 2, 5, 6))}, rtol=1e-5, atol=1e-6)
@example("unknown sizes", "(float[B,S,D] q, float[B,N,D] k, float[B,N,E] v) => (float[B,S,E] y) { y = Attention<is_causal=1," + HEADS + ">(q, k, v) }", inputs={"q": np.sin(np.arange(48)).reshape(2, 3, 8), "k": np.sin(np.arange(80)).reshape(2, 5, 8), "v": np.sin(np.arange(120)).reshape(2, 5, 12)}, rtol=1e-5, atol=1e-6)
@example("heads of four axes", QKV + Y + "{ y = Attention<" + HEADS + ">(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("soft cap", QKV + Y + "{ y = Attention<softcap=2.0,is_causal=1>(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("raw scores", QKV + ") => (float[2,2,3,6] y, float[2,2,3,5] s) { y, k2, v2, s = Attention<softcap=2.0>(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("capped scores", QKV + ") => (float[2,2,3,6] y, float[2,2,3,5] s) { y, k2, v2, s = Attention<softcap=2.0,is_causal=1,qk_matmul_output_mode=1>(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("masked scores", QKV + ") => (float[2,2,3,6] y, float[2,2,3,5] s) { y, k2, v2, s = Attention<is_causal=1,qk_matmul_output_mode=2>(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("chances", PACKED + ") => (float[2,3,12] y, float[2,2,3,5] s) { y, k2, v2, s = Attention<softmax_precision=11,qk_matmul_output_mode=3," + HEADS + ">(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("present without a past", PACKED + ") => (float[2,3,12] y, float[2,2,5,4] k2, float[2,2,5,6] v2) { y, k2, v2 = Attention<" + HEADS + ">(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("double", QKV.replace("float", "double") + Y.replace("float", "double") + "{ y = Attention(q, k, v) }", atol=1e-14)
@example("double, scaled", QKV.replace("float", "double") + Y.replace("float", "double") + "{ y = Attention<scale=0.5>(q, k, v) }", atol=1e-14)
@example("half", QKV.replace("float", "float16") + Y.replace("float", "float16") + "{ y = Attention<softmax_precision=1,is_causal=1>(q, k, v) }", rtol=2e-3, atol=2e-3)
@example("bfloat16", QKV.replace("float", "bfloat16") + Y.replace("float", "bfloat16") + "{ y = Attention(q, k, v) }", rtol=2e-2, atol=2e-2)
@example("unknown rank", RANKLESS + "y = Attention<is_causal=1>(q, k, v) }", inputs={"t": [2, 2, 3, 4]}, rtol=1e-5, atol=1e-6)
@example("no queries", QKV.replace("2,2,3,4", "2,2,0,4") + ") => (float[2,2,0,6] y) { y = Attention<is_causal=1>(q, k, v) }", rtol=1e-5, atol=1e-6)
@example("two types", QKV.replace("float[2,2,5,6]", "double[2,2,5,6]") + Y + "{ y = Attention(q, k, v) }", refuses=Why.AMBIGUOUS)
def attention_23_22(node: Node, op: Builder) -> Result:
    """Born in 23; below it, two products and a softmax."""
    packed, kind = is_packed(node), node["Q"].elem_type
    if node["V"].elem_type != kind:
        raise Refusal(Why.AMBIGUOUS, "what products of two element types mean is not said")
    query, keys, values = (_by_head(op, node, name) if packed else node[name] for name in "QKV")
    past = node.input("past_key")
    if past is not None:
        keys = op.Concat(past, keys, axis=2)
        values = op.Concat(node["past_value"], values, axis=2)
    present = keys, values
    keys, values = (_for_each_query_head(op, node, x, query) for x in (keys, values))
    scale = _root_of_scale(op, node.attr("scale"), query)
    turned = op.Transpose(keys, perm=[0, 1, 3, 2])
    raw = op.MatMul(op.Mul(query, scale), op.Mul(turned, scale))
    cap, capped = node.float("softcap"), raw
    if cap:
        limit = op.const(cap, kind)
        capped = op.Mul(op.Tanh(op.Div(raw, limit)), limit)
    bias = _bias(node, op)
    scores = capped if bias is None else op.Add(capped, bias)
    chances = _softmax(op, scores, node.attr("softmax_precision") or kind, kind)
    if node.input("attn_mask") is not None and bias is not None:
        chances = _nothing_if_hidden(op, chances, bias)
    y = op.MatMul(chances, values)
    if packed:
        y = op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), op.const([0, 0, _width(node)]))
    shown = (raw, capped, scores, chances)[node.int("qk_matmul_output_mode")]
    return (y, *present, shown)[: node.n_outputs]


def _by_head(op: Builder, node: Node, name: str) -> Value:
    x, heads = node[name], node.int("q_num_heads" if name == "Q" else "kv_num_heads")
    width = None if x.dims_or_none is None else x.dims[2]
    sizes = [0, 0, heads, width // heads if isinstance(width, int) else -1]
    return op.Transpose(op.Reshape(x, op.const(sizes)), perm=[0, 2, 1, 3])


def _width(node: Node) -> int:
    """The size of the result's last axis; -1 if it is to be inferred."""
    width = None if node["V"].dims_or_none is None else node["V"].dims[2]
    if not isinstance(width, int):
        return -1
    return width // node.int("kv_num_heads") * node.int("q_num_heads")


def _for_each_query_head(op: Builder, node: Node, x: Value, query: Value) -> Value:
    """Keys or values repeated where several heads of queries share them."""
    if is_packed(node):
        heads, own = node.int("q_num_heads"), node.int("kv_num_heads")
        wanted, times = op.const([heads]), op.const([1, 1, heads // own, 1, 1])
        if heads == own:
            return x
    else:
        pair = [None if v.dims_or_none is None else v.dims[1] for v in (query, node["K"])]
        if pair[0] is not None and pair[0] == pair[1]:
            return x
        wanted = size_at(op, query, 1)
        share = op.Div(wanted, size_at(op, node["K"], 1))
        times = op.Concat(op.const([1, 1]), share, op.const([1, 1]), axis=0)
    wide = op.Expand(op.Unsqueeze(x, op.const([2])), times)
    sizes = op.Concat(op.Shape(x, end=1), wanted, op.Shape(x, start=2), axis=0)
    return op.Reshape(wide, sizes, allowzero=1)


def _root_of_scale(op: Builder, given: float | None, query: Value) -> Value:
    """Both factors of the product are scaled, by the root each."""
    size = None if query.dims_or_none is None else query.dims[3]
    if given is not None:
        return op.const(np.sqrt(np.float32(given)), like=query)  # a float attribute, and its root
    if isinstance(size, int):
        return op.const(np.sqrt(1 / np.sqrt(np.float64(size))), like=query)
    root = op.Sqrt(op.Cast(size_at(op, query, 3), to=T.DOUBLE))
    return op.Cast(op.Sqrt(op.Reciprocal(root)), to=query.elem_type)


def _bias(node: Node, op: Builder) -> Value | None:
    """What is added to the scores: minus infinity hides a key."""
    mask = mask_of(node, op)
    if node.int("is_causal"):
        queries, keys, before = lengths(node, op)
        query, key = grid(op, queries, keys, before)
        mask = hide(op, mask, op.LessOrEqual(key, query))
    if mask is None or mask.elem_type != T.BOOL:
        return mask
    like = node["Q"]
    return op.Where(mask, op.const(0, like=like), op.const(-np.inf, like=like))


def _softmax(op: Builder, scores: Value, precise: int, kind: int) -> Value:
    if precise == kind:
        return op.Softmax(scores)
    return op.Cast(op.Softmax(op.Cast(scores, to=precise)), to=kind)


def _nothing_if_hidden(op: Builder, chances: Value, bias: Value) -> Value:
    """A query that sees no key has zeros for a result, not NaN."""
    highest = op.ReduceMax(bias, op.const([-1]))
    blind = op.Equal(highest, op.const(-np.inf, like=bias))
    return op.Where(blind, op.const(0, like=chances), chances)

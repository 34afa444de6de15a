# SPDX-License-Identifier: Apache-2.0
"""RotaryEmbedding, which opset 23 added."""

from opshift.adapter import Builder, Node, Refusal, Result, Value, Why, adapter

from opshift_adapters._lib.heads import turn, with_last_split


@adapter("RotaryEmbedding", 23, 22, in_other_words=True)
def rotary_embedding_23_22(node: Node, op: Builder) -> Result:
    """Below opset 23, RotaryEmbedding becomes Mul, Sub and Add, which rotate pairs of elements."""
    x, heads = node["X"], node.attr("num_heads") or 0
    packed = (x.rank if heads else x.rank_or_none) == 3
    if packed and not heads:
        raise Refusal(Why.AMBIGUOUS, "RotaryEmbedding of an input with three axes needs num_heads")
    apart = with_last_split(op, x, [heads, -1]) if packed else x
    cos, sin = (_angles(op, node, name, 2 if packed else 1) for name in ("cos_cache", "sin_cache"))
    size = node.attr("rotary_embedding_dim") or 0
    pairs, half = bool(node.attr("interleaved")), size // 2 if size else None
    turned = turn(op, apart, cos, sin, pairs=pairs, half=half, partly=bool(size))
    return op.Reshape(turned, op.Shape(x), allowzero=1) if packed else turned


def _angles(op: Builder, node: Node, name: str, axis: int) -> Value:
    cache, places = node[name], node.input("position_ids")
    if places is not None:
        cache = op.Gather(cache, places)
    return op.Unsqueeze(cache, op.const([axis]))

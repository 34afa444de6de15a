# SPDX-License-Identifier: Apache-2.0
"""RotaryEmbedding of com.microsoft, whose positions may start at one given number."""

from opshift.adapter import Builder, Node, Refusal, Result, Value, Why, leaving

from opshift_adapters._lib.contrib import MICROSOFT, attribute, refuse
from opshift_adapters._lib.heads import turn, with_last_split

UNREAD = {
    "num_heads": "the cache determines the size of a head",
    "scale": "no kernel of onnxruntime reads `scale`",
}


@leaving("RotaryEmbedding", domain=MICROSOFT, since=13, ignores=UNREAD)
def rotary_embedding(node: Node, op: Builder) -> Result:
    """RotaryEmbedding becomes Mul, Sub and Add, which rotate pairs by the angles of positions."""
    refuse(node, "is_packed_batching")
    x, partly = node["input"], attribute(node, "rotary_embedding_dim", 0)
    packed = x.rank == 3
    heads = with_last_split(op, x, _heads(node, partly)) if packed else x
    cos, sin = (_angles(node, op, node[f"{wave}_cache"], packed) for wave in ("cos", "sin"))
    pairs, half = bool(attribute(node, "interleaved", 0)), _half(node, partly)
    turned = turn(op, heads, cos, sin, pairs=pairs, half=half, partly=bool(partly))
    return op.Reshape(turned, op.Shape(x), allowzero=1) if packed else turned


def _half(node: Node, partly: int) -> int:
    """Returns how many pairs of numbers rotate in each head."""
    if partly:
        return partly // 2
    half = node["cos_cache"].dims[1]
    if not isinstance(half, int):
        raise Refusal(Why.NEEDS_SHAPE, "the width of the cache of cosines must be known")
    return half


def _heads(node: Node, partly: int) -> list[int]:
    """Returns the number of heads and the size of a head, one of which is -1 (inferred)."""
    size = 2 * _half(node, partly)
    known = not partly and size
    return [-1, size] if known else [attribute(node, "num_heads", 1), -1]


def _angles(node: Node, op: Builder, cache: Value, packed: bool) -> Value:
    places = node["position_ids"]
    if places.rank == 1:
        length = op.Gather(op.Shape(node["input"]), op.const(1 if packed else 2), axis=0)
        places = op.Range(op.const(0), length, op.const(1)) + places
        gathered = op.Gather(cache, places, axis=0)
        return op.Unsqueeze(gathered, op.const([1])) if packed else gathered
    return op.Unsqueeze(op.Gather(cache, places, axis=0), op.const([2 if packed else 1]))

# SPDX-License-Identifier: Apache-2.0
"""GroupQueryAttention: query heads share key heads; cache lengths differ between batch rows."""

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, leaving

from opshift_adapters._lib.contrib import MICROSOFT, attribute
from opshift_adapters._lib.heads import LOWEST, length, scale_of, turn, width


@leaving("GroupQueryAttention", domain=MICROSOFT, since=13)
def group_query_attention(node: Node, op: Builder) -> Result:
    """GroupQueryAttention appends K and V to its cache and hides keys after each query."""
    if node.int("smooth_softmax") > 0:
        raise Refusal(Why.NOT_EXPRESSIBLE, f"{node.op} with smooth_softmax is not in ai.onnx")
    heads, shared = node.int("num_heads"), node.int("kv_num_heads")
    q, k, v, size = _parts(node, op, heads, shared)
    queries = length(op, q, 1)
    past = op.Cast(node["seqlens_k"], to=T.INT64) + op.const(1) - queries
    past = op.Unsqueeze(op.Max(past, op.const(0)), op.const([1]))  # [batch, 1]
    places = op.Range(op.const(0), queries, op.const(1)) + past  # [batch, sequence]
    if attribute(node, "do_rotary", 0):
        q, k = (_rotated(node, op, value, places, size) for value in (q, k))
    keys, values = (
        _continued(node, op, node.input(name), op.Transpose(new, perm=[0, 2, 1, 3]), past)
        for name, new in (("past_key", k), ("past_value", v))
    )
    grouped = op.Reshape(q, op.const([0, 0, shared, heads // shared, size]))
    grouped = op.Transpose(grouped, perm=[0, 2, 3, 1, 4])  # [batch, shared, group, sequence, size]
    wide_keys, wide_values = (op.Unsqueeze(value, op.const([2])) for value in (keys, values))
    scores = op.MatMul(grouped, op.Transpose(wide_keys, perm=[0, 1, 2, 4, 3]))
    scores = scores * op.const(scale_of(node, size), like=q)
    if cap := attribute(node, "softcap", 0.0):
        scores = op.Tanh(scores / op.const(cap, like=q)) * op.const(cap, like=q)
    scores = scores + _hidden(node, op, places, keys)
    y = op.MatMul(op.Softmax(scores, axis=-1), wide_values)
    y = op.Reshape(op.Transpose(y, perm=[0, 3, 1, 2, 4]), op.const([0, 0, heads * size]))
    return (y, keys, values)[: node.n_outputs]


def _parts(node: Node, op: Builder, heads: int, shared: int) -> tuple[Value, Value, Value, int]:
    """Returns queries, keys and values as [batch, sequence, heads, size]."""
    q, k, v = node["query"], node.input("key"), node.input("value")
    whole = width(q, 2, "a query")
    if k is None or v is None:
        size = whole // (heads + 2 * shared)
        widths = [heads * size, shared * size, shared * size]
        q, k, v = op.Split(q, op.const(widths), axis=-1, outputs=3)
    else:
        size = whole // heads
    q = op.Reshape(q, op.const([0, 0, heads, size]))
    k, v = (op.Reshape(value, op.const([0, 0, shared, size])) for value in (k, v))
    return q, k, v, size


def _rotated(node: Node, op: Builder, x: Value, places: Value, size: int) -> Value:
    half = width(node["cos_cache"], 1, "the cache of cosines")
    cos, sin = (
        op.Unsqueeze(op.Gather(cache, places, axis=0), op.const([2]))
        for cache in (node["cos_cache"], node["sin_cache"])
    )
    pairs = bool(attribute(node, "rotary_interleaved", 0))
    return turn(op, x, cos, sin, pairs=pairs, half=half, partly=2 * half < size)


def _continued(node: Node, op: Builder, cache: Value | None, new: Value, past: Value) -> Value:
    """Returns the cache, with new rows placed after the valid rows of each batch entry."""
    total = op.Cast(node["total_sequence_length"], to=T.INT64)
    if cache is None:
        return new
    room, count = length(op, cache, 2), length(op, new, 2)
    along = op.Range(op.const(0), op.Max(room, op.Reshape(total, op.const([]))), op.const(1))
    behind = along + room - past
    behind = op.Min(behind, room + count - op.const(1))
    index = op.Unsqueeze(op.Where(along < past, along, behind), op.const([2]))
    rows = op.Transpose(op.Concat(cache, new, axis=2), perm=[0, 2, 1, 3])
    return op.Transpose(op.GatherND(rows, index, batch_dims=1), perm=[0, 2, 1, 3])


def _hidden(node: Node, op: Builder, places: Value, keys: Value) -> Value:
    """Returns the bias that hides keys after each query and before the window of the query."""
    along = op.Range(op.const(0), length(op, keys, 2), op.const(1))
    position = op.Unsqueeze(places, op.const([2]))  # [batch, sequence, 1]
    ends = op.Unsqueeze(op.Cast(node["seqlens_k"], to=T.INT64), op.const([1, 2]))
    visible = op.LessOrEqual(along, op.Min(position, ends))
    window = node.int("local_window_size")
    if window > 0:
        visible = visible & (along > position - op.const(window))
    added = op.Where(visible, op.const(0, like=keys), op.const(LOWEST, like=keys))
    return op.Unsqueeze(added, op.const([1, 2]))

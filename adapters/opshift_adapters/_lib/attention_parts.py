# SPDX-License-Identifier: Apache-2.0
"""Parts of the decomposition of Attention: positions, masks, heads and scores."""

from opshift.adapter import Builder, Node, T, Value, np

from opshift_adapters._lib.blocks import LONGEST, arange, extent
from opshift_adapters._lib.heads import apart


def is_packed(node: Node) -> bool:
    """Returns whether Attention has packed heads: rank 3, with all heads on the last axis."""
    rank = node["Q"].rank_or_none
    return node.attr("q_num_heads") is not None if rank is None else rank == 3


def lengths(node: Node, op: Builder) -> tuple[Value, Value, Value | None]:
    """Returns the counts of queries, of all keys and of past keys, each as a one-element vector."""
    axis = 1 if is_packed(node) else 2
    past = node.input("past_key")
    queries, keys = size_at(op, node["Q"], axis), size_at(op, node["K"], axis)
    if past is None:
        return queries, keys, None
    before = size_at(op, past, 2)
    return queries, before + keys, before


def size_at(op: Builder, x: Value, axis: int) -> Value:
    return op.Shape(x, start=axis, end=axis + 1) if x.rank_or_none is None else extent(op, x, axis)


def grid(op: Builder, queries: Value, keys: Value, offset: Value | None) -> tuple[Value, Value]:
    """Returns the positions of the queries as a column and the positions of the keys as a row."""
    column = counted(op, queries, [-1, 1])
    return column if offset is None else column + offset, counted(op, keys, [-1])


def counted(op: Builder, size: Value, shape: list[int]) -> Value:
    constant = size.const_or_none()
    if constant is not None and constant.item() <= LONGEST:
        return op.const(np.arange(constant.item()).reshape(shape))
    return op.Reshape(arange(op, op.Squeeze(size)), op.const(shape))


def offset_of(node: Node, op: Builder, queries: Value, before: Value | None) -> Value | None:
    """Returns the position of the first query, per batch entry if `nonpad_kv_seqlen` is set."""
    valid = node.input("nonpad_kv_seqlen")
    if valid is None:
        return before
    return op.Unsqueeze(valid - queries, op.const([1, 2, 3]))


def mask_of(node: Node, op: Builder) -> Value | None:
    """Returns the attention mask as bool, or cast to the element type of the scores."""
    mask = node.input("attn_mask")
    if mask is None or mask.elem_type in (T.BOOL, node["Q"].elem_type):
        return mask
    return op.Cast(mask, to=node["Q"].elem_type)


def reaches_all(node: Node, mask: Value) -> bool:
    """Returns whether the last axis of the mask is known to have one element for each key."""
    keys, past = node["K"].dims_or_none, node.input("past_key")
    if keys is None or mask.dims_or_none is None:
        return False
    length, own = mask.dims[-1], keys[1 if is_packed(node) else 2]
    if past is None:
        return length is not None and length == own
    before = past.dims[2]
    return isinstance(own, int) and isinstance(before, int) and length == own + before


def full_mask(node: Node, op: Builder, keys: Value) -> Value | None:
    """Pads the mask to the number of keys; a key beyond the end of a shorter mask is hidden."""
    mask = mask_of(node, op)
    if mask is None or reaches_all(node, mask):
        return mask
    length = None if mask.dims_or_none is None else mask.dims[-1]
    constant = op.const([length]) if isinstance(length, int) else op.Shape(mask, start=-1)
    pads = op.Concat(op.const([0]), keys - constant, axis=0)
    hidden = op.const(False if mask.elem_type == T.BOOL else -np.inf, like=mask)
    return op.Pad(mask, pads, hidden, op.const([-1]))


def hide(op: Builder, mask: Value | None, allowed: Value) -> Value:
    """Hides each pair of query and key that is not `allowed`, besides those that the mask hides."""
    if mask is None:
        return allowed
    if mask.elem_type == T.BOOL:
        return mask & allowed
    nothing, hidden = op.const(0, like=mask), op.const(-np.inf, like=mask)
    return mask + op.Where(allowed, nothing, hidden)


def by_head(op: Builder, node: Node, name: str) -> Value:
    return apart(op, node[name], node.int("q_num_heads" if name == "Q" else "kv_num_heads"))


def result_width(node: Node) -> int | None:
    """Returns the size of the last axis of the packed result, or None if it is unknown."""
    width = None if node["V"].dims_or_none is None else node["V"].dims[2]
    if not isinstance(width, int):
        return None
    return width // node.int("kv_num_heads") * node.int("q_num_heads")


def for_each_query_head(op: Builder, node: Node, x: Value, query: Value) -> Value:
    """Repeats keys or values for each query head that shares them (grouped-query attention)."""
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
        share = wanted / size_at(op, node["K"], 1)
        times = op.Concat(op.const([1, 1]), share, op.const([1, 1]), axis=0)
    wide = op.Expand(op.Unsqueeze(x, op.const([2])), times)
    sizes = op.Concat(op.Shape(x, end=1), wanted, op.Shape(x, start=2), axis=0)
    return op.Reshape(wide, sizes, allowzero=1)


def root_of_scale(op: Builder, scale: float | None, query: Value) -> Value:
    """Returns the square root of the attention scale; Q and K are both multiplied by this root."""
    size = None if query.dims_or_none is None else query.dims[3]
    if scale is not None:
        return op.const(np.sqrt(np.float32(scale)), like=query)  # in float, like `scale`
    if isinstance(size, int):  # for heads of size 0, the products are 0 at any scale
        return op.const(np.sqrt(1 / np.sqrt(np.float64(size or 1))), like=query)
    root = op.Sqrt(op.Cast(size_at(op, query, 3), to=T.DOUBLE))
    return op.Cast(op.Sqrt(op.Reciprocal(root)), to=query.elem_type)


def added_to_scores(node: Node, op: Builder) -> Value | None:
    """Returns the attention bias that is added to the scores; minus infinity hides a key."""
    mask = mask_of(node, op)
    if node.int("is_causal"):
        queries, keys, before = lengths(node, op)
        query, key = grid(op, queries, keys, before)
        mask = hide(op, mask, op.LessOrEqual(key, query))
    if mask is None or mask.elem_type != T.BOOL:
        return mask
    like = node["Q"]
    return op.Where(mask, op.const(0, like=like), op.const(-np.inf, like=like))


def softmax_in(op: Builder, scores: Value, precise: int, kind: int) -> Value:
    if precise == kind:
        return op.Softmax(scores)
    return op.Cast(op.Softmax(op.Cast(scores, to=precise)), to=kind)


def nothing_if_hidden(op: Builder, chances: Value, bias: Value) -> Value:
    """Replaces NaN by zeros in the probabilities of a query whose keys are all hidden."""
    constant = bias.const_or_none()
    if constant is not None and not (constant == -np.inf).all(axis=-1).any():
        return chances
    highest = op.ReduceMax(bias, op.const([-1]))
    blind = op.Equal(highest, op.const(-np.inf, like=bias))
    return op.Where(blind, op.const(0, like=chances), chances)

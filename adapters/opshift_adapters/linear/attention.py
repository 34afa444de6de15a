"""Attention: what 25 and 24 hide by windows and lengths is a mask in 23."""

import numpy as np
from opshift.adapter import KEEP, Builder, Node, Refusal, Result, T, Value, Why, adapter, example

from opshift_adapters._lib.blocks import ARANGE, arange, extent

QKV = "(float[2,2,3,4] q, float[2,2,5,4] k, float[2,2,5,6] v"
PACKED = "(float[2,3,8] q, float[2,5,8] k, float[2,5,12] v"
Y, Y3 = ") => (float[2,2,3,6] y) ", ") => (float[2,3,12] y) "
PAST = ", float[2,2,2,4] pk, float[2,2,2,6] pv"
PRESENT = ") => (float[2,2,3,6] y, float[2,2,7,4] k2, float[2,2,7,6] v2) "
HEADS = "q_num_heads=2,kv_num_heads=2"
RANKLESS = "(float[48] v1, int64[n] t, float[2,2,5,4] k, float[2,2,5,6] v) => (float[a,b,c,d] y) { q = Reshape(v1, t) "


# -- positions and masks -------------------------------------------------------------------------


def is_packed(node: Node) -> bool:
    """Whether the heads lie side by side in a third axis; four axes have an axis for them."""
    rank = node["Q"].rank_or_none
    return node.attr("q_num_heads") is not None if rank is None else rank == 3


def lengths(node: Node, op: Builder) -> tuple[Value, Value, Value | None]:
    """How many queries, keys in all, and keys of the past, each a vector of one."""
    axis = 1 if is_packed(node) else 2
    past = node.input("past_key")
    queries, keys = size_at(op, node["Q"], axis), size_at(op, node["K"], axis)
    if past is None:
        return queries, keys, None
    before = size_at(op, past, 2)
    return queries, _sum(op, before, keys), before


def size_at(op: Builder, x: Value, axis: int) -> Value:
    return op.Shape(x, start=axis, end=axis + 1) if x.rank_or_none is None else extent(op, x, axis)


def _sum(op: Builder, a: Value, b: Value) -> Value:
    left, right = a.const_or_none(), b.const_or_none()
    return op.Add(a, b) if left is None or right is None else op.const(left + right)


COUNTING = ("Shape", "Squeeze", "Unsqueeze", "Add", "Sub", "Reshape", *ARANGE)


def grid(op: Builder, queries: Value, keys: Value, offset: Value | None) -> tuple[Value, Value]:
    """The places of the queries as a column and of the keys as a row."""
    column = _counted(op, queries, [-1, 1])
    return column if offset is None else op.Add(column, offset), _counted(op, keys, [-1])


def _counted(op: Builder, size: Value, shape: list[int]) -> Value:
    known = size.const_or_none()
    if known is not None:
        return op.const(np.arange(known.item()).reshape(shape))
    return op.Reshape(arange(op, op.Squeeze(size)), op.const(shape))


def offset_of(node: Node, op: Builder, queries: Value, before: Value | None) -> Value | None:
    """How far the first query stands behind the first key; of each batch if the keys are padded."""
    valid = node.input("nonpad_kv_seqlen")
    if valid is None:
        return before
    return op.Unsqueeze(op.Sub(valid, queries), op.const([1, 2, 3]))


MASKING = ("Pad", "Where", "And", "Shape", "Sub", "Concat", "Add")


def mask_of(node: Node, op: Builder) -> Value | None:
    """What allows (bool) or is added, in the type of the scores."""
    mask = node.input("attn_mask")
    if mask is None or mask.elem_type in (T.BOOL, node["Q"].elem_type):
        return mask
    return op.Cast(mask, to=node["Q"].elem_type)


def reaches_all(node: Node, mask: Value) -> bool:
    """Whether the mask is known to be as long as the keys are."""
    keys, past = node["K"].dims_or_none, node.input("past_key")
    if keys is None or mask.dims_or_none is None:
        return False
    length, own = mask.dims[-1], keys[1 if is_packed(node) else 2]
    if past is None:
        return length is not None and length == own
    before = past.dims[2]
    return isinstance(own, int) and isinstance(before, int) and length == own + before


def full_mask(node: Node, op: Builder, keys: Value) -> Value | None:
    """The mask; a short one hides the keys that it does not reach."""
    mask = mask_of(node, op)
    if mask is None or reaches_all(node, mask):
        return mask
    length = None if mask.dims_or_none is None else mask.dims[-1]
    total = keys.const_or_none()
    if isinstance(length, int) and total is not None:
        pads = op.const([0, int(total.item()) - length])
    else:
        own = op.const([length]) if isinstance(length, int) else op.Shape(mask, start=-1)
        pads = op.Concat(op.const([0]), op.Sub(keys, own), axis=0)
    hidden = op.const(False if mask.elem_type == T.BOOL else -np.inf, like=mask)
    return op.Pad(mask, pads, hidden, op.const([-1]))


def hide(op: Builder, mask: Value | None, allowed: Value) -> Value:
    """The mask, and what is not allowed besides."""
    if mask is None:
        return allowed
    if mask.elem_type == T.BOOL:
        return op.And(mask, allowed)
    nothing, hidden = op.const(0, like=mask), op.const(-np.inf, like=mask)
    return op.Add(mask, op.Where(allowed, nothing, hidden))


# -- the boundaries ------------------------------------------------------------------------------


@adapter("Attention", 24, 25, emits=("Less", "LessOrEqual", *COUNTING, *MASKING))
@example("four axes", QKV + Y + "{ y = Attention(q, k, v) }", gives="Attention")
@example("three axes", PACKED + Y3 + "{ y = Attention<" + HEADS + ">(q, k, v) }", gives="Attention")
@example("heads of four axes", QKV + Y + "{ y = Attention<" + HEADS + ">(q, k, v) }", gives="Attention")
@example("lengths", QKV + ", int64[2] n" + Y + "{ y = Attention(q, k, v, , , , n) }", gives="Attention", inputs={"n": [3, 5]})
@example("lengths and scores", QKV + ", int64[2] n) => (float[2,2,3,6] y, float[2,2,3,5] s) { y, , , s = Attention(q, k, v, , , , n) }", gives="Attention", inputs={"n": [3, 5]})
@example("lengths and present", QKV + ", int64[2] n) => (float[2,2,3,6] y, float[2,2,5,4] k2) { y, k2, v2 = Attention<is_causal=1," + HEADS + ">(q, k, v, , , , n) }", gives="Sub Unsqueeze Add LessOrEqual Attention", inputs={"n": [3, 5]})
def attention_24_25(node: Node, op: Builder) -> Result:
    """Numbers of heads no longer stand beside an axis of heads, nor lengths beside a present."""
    shown = node.output("present_key") or node.output("present_value")
    heads = {} if is_packed(node) else {"q_num_heads": None, "kv_num_heads": None}
    if shown and node.input("nonpad_kv_seqlen") is not None:
        return lengths_as_mask(node, op, **heads)
    return op.same(node, **heads) if heads else KEEP


def lengths_as_mask(node: Node, op: Builder, **attributes: None) -> Result:
    """The same node, its mask hiding what lies behind the valid keys."""
    queries, keys, before = lengths(node, op)
    if node.int("is_causal"):  # the last query stands at the last valid key
        query, key = grid(op, queries, keys, offset_of(node, op, queries, before))
        allowed = op.LessOrEqual(key, query)
    else:
        valid = op.Unsqueeze(node["nonpad_kv_seqlen"], op.const([1, 2, 3]))
        allowed = op.Less(_counted(op, keys, [-1]), valid)
    mask = hide(op, full_mask(node, op, keys), allowed)
    changed = {"attn_mask": mask, "nonpad_kv_seqlen": None}
    return op.same(node, inputs=changed, is_causal=None, **attributes)


@adapter("Attention", 25, 24, emits=("LessOrEqual", "And", *COUNTING, *MASKING))
@example("no window", QKV + Y + "{ y = Attention<left_window_size=-1>(q, k, v) }", gives="Attention")
@example("left", QKV + Y + "{ y = Attention<left_window_size=1>(q, k, v) }", gives="Sub LessOrEqual Attention")
@example("right", PACKED + Y3 + "{ y = Attention<right_window_size=0," + HEADS + ">(q, k, v) }", gives="Sub LessOrEqual Attention")
@example("both and causal", QKV + Y + "{ y = Attention<left_window_size=1,right_window_size=1,is_causal=1>(q, k, v) }", gives="Sub LessOrEqual LessOrEqual And Attention")
@example("past", QKV + PAST + PRESENT + "{ y, k2, v2 = Attention<left_window_size=2>(q, k, v, , pk, pv) }", gives="Add Sub LessOrEqual Attention")
@example("bool mask", QKV + ", bool[3,5] m" + Y + "{ y = Attention<left_window_size=1>(q, k, v, m) }")
@example("float mask", QKV + ", float[2,1,3,5] m" + Y + "{ y = Attention<right_window_size=1>(q, k, v, m) }")
@example("short mask", QKV + ", float[3,4] m" + Y + "{ y = Attention<right_window_size=1>(q, k, v, m) }")
@example("lengths", QKV + ", int64[2] n" + Y + "{ y = Attention<left_window_size=1,right_window_size=0>(q, k, v, , , , n) }", inputs={"n": [3, 5]})
@example("nothing in sight", QKV + ", int64[2] n" + Y + "{ y = Attention<left_window_size=1,is_causal=1>(q, k, v, , , , n) }", inputs={"n": [1, 2]})
@example("unknown sizes", "(float[B,2,S,4] q, float[B,2,N,4] k, float[B,2,N,4] v, bool[S,M] m) => (float[B,2,S,4] y) { y = Attention<left_window_size=1>(q, k, v, m) }", inputs={"q": np.sin(np.arange(48)).reshape(2, 2, 3, 4), "k": np.sin(np.arange(80)).reshape(2, 2, 5, 4), "v": np.sin(np.arange(80)).reshape(2, 2, 5, 4), "m": np.tri(3, 4, 1, dtype=bool)})
@example("unknown rank", RANKLESS + "y = Attention<left_window_size=1>(q, k, v) }", inputs={"t": [2, 2, 3, 4]})
@example("bias given out", QKV + ") => (float[2,2,3,6] y, float[2,2,3,5] s) { y, k2, v2, s = Attention<left_window_size=1,qk_matmul_output_mode=2>(q, k, v) }")
def attention_25_24(node: Node, op: Builder) -> Result:
    """There were no windows: keys too far to either side are hidden by the mask."""
    left, right = node.int("left_window_size"), node.int("right_window_size")
    if left < 0 and right < 0:
        return op.same(node, left_window_size=None, right_window_size=None)
    queries, keys, before = lengths(node, op)
    query, key = grid(op, queries, keys, offset_of(node, op, queries, before))
    ahead = op.Sub(query, key)
    near = []
    if left >= 0:
        near.append(op.LessOrEqual(ahead, op.const(left)))
    if right >= 0:
        near.append(op.LessOrEqual(op.const(-right), ahead))
    allowed = near[0] if len(near) == 1 else op.And(*near)
    mask = {"attn_mask": hide(op, full_mask(node, op, keys), allowed)}
    return op.same(node, inputs=mask, left_window_size=None, right_window_size=None)


@adapter("Attention", 23, 24, emits=("Expand", "Shape", "Add"))
@example("no mask", QKV + Y + "{ y = Attention(q, k, v) }", gives="Attention")
@example("mask", QKV + ", bool[3,5] m" + Y + "{ y = Attention(q, k, v, m) }", gives="Attention")
@example("mask with a past", QKV + PAST.replace(" pk", " pk, float[3,7] m", 1) + PRESENT + "{ y, k2, v2 = Attention(q, k, v, m, pk, pv) }", gives="Attention")
@example("the same for all keys", QKV + ", float[3,1] m" + Y + "{ y = Attention(q, k, v, m) }", gives="Expand Attention")
@example("a name for the size", "(float[1,2,3,4] q, float[1,2,N,4] k, float[1,2,N,4] v, bool[3,N] m) => (float[1,2,3,4] y) { y = Attention(q, k, v, m) }", gives="Attention")
@example("unknown sizes", PACKED.replace("5", "N") + ", bool[3,M] m" + Y3 + "{ y = Attention<" + HEADS + ">(q, k, v, m) }", gives="Shape Expand Attention", inputs={"m": [[True], [False], [True]], "k": np.sin(np.arange(80)).reshape(2, 5, 8), "v": np.sin(np.arange(120)).reshape(2, 5, 12)})
@example("a mask of five, unknown keys", "(float[1,2,3,4] q, float[1,2,N,4] k, float[1,2,N,4] v, bool[3,5] m) => (float[1,2,3,4] y) { y = Attention(q, k, v, m) }", gives="Attention", inputs={"k": np.ones((1, 2, 5, 4)), "v": np.ones((1, 2, 5, 4))})
@example("keys of unknown rank", "(float[1,2,3,4] q, float[40] w, int64[r] s, bool[3,5] m) => (float[1,2,3,4] y) { k = Reshape(w, s) y = Attention(q, k, k, m) }", gives="Reshape Attention", inputs={"s": [1, 2, 5, 4]})
@example("one present", QKV + PAST + PRESENT.replace(", float[2,2,7,6] v2", "") + "{ y, k2 = Attention(q, k, v, , pk, pv) }", gives="Attention")
@example("the other present", QKV + PAST + PRESENT.replace(" float[2,2,7,4] k2,", "") + "{ y, , v2 = Attention(q, k, v, , pk, pv) }", refuses=Why.NOT_EXPRESSIBLE)
def attention_23_24(node: Node, op: Builder) -> Result:
    """A mask of one column held for all keys, and from 24 it hides all but the first; present_key and present_value come together."""
    outputs = 3 if node.n_outputs == 2 else node.n_outputs
    if outputs == 3 and node.output("present_key") is None:
        raise Refusal(Why.NOT_EXPRESSIBLE, "from 24 on present_value comes with present_key only")
    mask = node.input("attn_mask")
    if mask is None or reaches_all(node, mask) or _has_columns(mask):
        return KEEP if outputs == node.n_outputs else op.same(node, outputs=outputs)
    mask = op.Expand(mask, lengths(node, op)[1])
    return op.same(node, inputs={"attn_mask": mask}, outputs=outputs)


def _has_columns(mask: Value) -> bool:
    """Whether a mask is known to have another number of columns than one."""
    length = None if mask.dims_or_none is None else mask.dims[-1]
    return isinstance(length, int) and length != 1


@adapter("Attention", 24, 23, emits=("Less", "LessOrEqual", *COUNTING, *MASKING))
@example("no mask", QKV + Y + "{ y = Attention(q, k, v, , , , ) }", gives="Attention")
@example("mask", QKV + ", bool[3,5] m" + Y + "{ y = Attention(q, k, v, m) }", gives="Attention")
@example("short bool mask", QKV + ", bool[3,4] m" + Y + "{ y = Attention(q, k, v, m) }", gives="Pad Attention")
@example("short float mask", QKV + PAST.replace(" pk", " pk, float[3,6] m", 1) + PRESENT + "{ y, k2, v2 = Attention<is_causal=1>(q, k, v, m, pk, pv) }", gives="Pad Attention")
@example("mask of one column", QKV + ", float[3,1] m" + Y + "{ y = Attention(q, k, v, m) }", gives="Pad Attention")
@example("unknown sizes", PACKED.replace("5", "N") + ", bool[3,M] m" + Y3 + "{ y = Attention<" + HEADS + ">(q, k, v, m) }", inputs={"m": np.tri(3, 4, dtype=bool), "k": np.sin(np.arange(80)).reshape(2, 5, 8), "v": np.sin(np.arange(120)).reshape(2, 5, 12)}, gives="Shape Shape Sub Concat Pad Attention")
@example("lengths", QKV + ", int64[2] n" + Y + "{ y = Attention(q, k, v, , , , n) }", gives="Unsqueeze Less Attention", inputs={"n": [3, 5]})
@example("lengths, causal", PACKED + ", int64[2] n" + Y3 + "{ y = Attention<is_causal=1," + HEADS + ">(q, k, v, , , , n) }", gives="Sub Unsqueeze Add LessOrEqual Attention", inputs={"n": [3, 5]})
@example("lengths, nothing in sight", QKV + ", int64[2] n" + Y + "{ y = Attention<is_causal=1>(q, k, v, , , , n) }", inputs={"n": [1, 2]})
@example("lengths and a mask", QKV + ", float[2,3,4] m, int64[2] n" + Y + "{ y = Attention(q, k, v, m, , , n) }", inputs={"n": [0, 4]})
@example("lengths of unknown sizes", "(float[B,2,S,4] q, float[B,2,N,4] k, float[B,2,N,4] v, bool[S,M] m, int64[B] n) => (float[B,2,S,4] y) { y = Attention<is_causal=1>(q, k, v, m, , , n) }", inputs={"q": np.sin(np.arange(48)).reshape(2, 2, 3, 4), "k": np.sin(np.arange(80)).reshape(2, 2, 5, 4), "v": np.sin(np.arange(80)).reshape(2, 2, 5, 4), "m": np.tri(3, 4, 1, dtype=bool), "n": [4, 3]}, atol=1e-6)
@example("whole numbers as a mask", QKV + ", int32[3,5] m, int64[2] n" + Y + "{ y = Attention(q, k, v, m, , , n) }", inputs={"n": [3, 5]}, rtol=1e-5, atol=1e-6)
def attention_24_23(node: Node, op: Builder) -> Result:
    """Masks were never short, and keys behind the valid ones are hidden by the mask alone."""
    mask = node.input("attn_mask")
    if node.input("nonpad_kv_seqlen") is not None:
        return lengths_as_mask(node, op)
    if mask is None or reaches_all(node, mask):
        return op.same(node)
    _, keys, _ = lengths(node, op)
    return op.same(node, inputs={"attn_mask": full_mask(node, op, keys)})

# SPDX-License-Identifier: Apache-2.0
"""Attention: windows (opset 25) and key lengths (24) become masks; 22 has no Attention."""

from typing import Any

from opshift.adapter import KEEP, Builder, Node, Refusal, Result, Value, Why, adapter, by_width

from opshift_adapters._lib import attention_parts as parts
from opshift_adapters._lib.heads import together

MASK = by_width("Attention")  # a mask of numbers is added, a mask of bools hides keys
Y, Y3 = ") => (float[2,2,3,6] y) ", ") => (float[2,3,12] y) "
HEADS_OF_FOUR_AXES = dict.fromkeys(
    ("q_num_heads", "kv_num_heads"), "inputs of rank 4 have the number of heads as axis 1"
)


@adapter("Attention", 24, 25, ignores=HEADS_OF_FOUR_AXES)
def attention_24_25(node: Node, op: Builder) -> Result:
    """Opset 25 forbids head counts with 4-D inputs, and `nonpad_kv_seqlen` with cache outputs."""
    presents = node.output("present_key"), node.output("present_value")
    changed: dict[str, Any] = {}
    if not parts.is_packed(node):
        changed |= {"q_num_heads": None, "kv_num_heads": None}
    if any(presents) and node.input("nonpad_kv_seqlen") is not None:
        changed |= {"inputs": lengths_as_mask(node, op), "is_causal": None}
    if any(presents) and not all(presents):
        made = op.same(node, outputs=max(node.n_outputs, 3), **changed)  # opset 25 has both or none
        # A value that is also returned for an output without a name would lose its own name.
        return tuple(y if old else made[0] for y, old in zip(made, node.outputs, strict=False))
    return op.same(node, **changed) if changed else KEEP


def lengths_as_mask(node: Node, op: Builder) -> dict[str, Value | None]:
    """Returns a mask that hides keys beyond `nonpad_kv_seqlen`, as the new inputs of Attention."""
    queries, keys, before = parts.lengths(node, op)
    if node.int("is_causal"):  # the last query is aligned with the last valid key
        query, key = parts.grid(op, queries, keys, parts.offset_of(node, op, queries, before))
        allowed = op.LessOrEqual(key, query)
    else:
        # One row for each query, because onnxruntime accepts no mask that broadcasts over queries.
        valid = op.Unsqueeze(node["nonpad_kv_seqlen"], op.const([1, 2, 3]))
        count, one = queries.const_or_none(), op.const([1])
        if count is None:
            rows = op.Expand(valid, op.Concat(one, one, queries, one, axis=0))
        else:
            rows = op.Expand(valid, op.const([1, 1, int(count.item()), 1]))
        allowed = parts.counted(op, keys, [-1]) < rows
    mask = parts.hide(op, parts.full_mask(node, op, keys), allowed)
    return {"attn_mask": mask, "nonpad_kv_seqlen": None}


@adapter("Attention", 25, 24)
def attention_25_24(node: Node, op: Builder) -> Result:
    """Below opset 25, Attention has no window; the mask hides the keys outside of the window."""
    left, right = node.int("left_window_size"), node.int("right_window_size")
    if left < 0 and right < 0:
        return op.same(node, left_window_size=None, right_window_size=None)
    queries, keys, before = parts.lengths(node, op)
    query, key = parts.grid(op, queries, keys, parts.offset_of(node, op, queries, before))
    ahead = query - key
    near = []
    if left >= 0:
        near.append(op.LessOrEqual(ahead, op.const(left)))
    if right >= 0:
        near.append(op.LessOrEqual(op.const(-right), ahead))
    allowed = near[0] if len(near) == 1 else op.And(*near)
    mask = {"attn_mask": parts.hide(op, parts.full_mask(node, op, keys), allowed)}
    return op.same(node, inputs=mask, left_window_size=None, right_window_size=None)


@adapter("Attention", 23, 24)
def attention_23_24(node: Node, op: Builder) -> Result:
    """Opset 24 hides keys beyond the end of a mask; one column is expanded to all keys."""
    outputs = 3 if node.n_outputs == 2 else node.n_outputs
    if outputs == 3 and node.output("present_key") is None:
        raise Refusal(Why.NOT_EXPRESSIBLE, "from opset 24 on, present_value requires present_key")
    mask = node.input("attn_mask")
    if mask is None or parts.reaches_all(node, mask) or _has_columns(mask):
        return KEEP if outputs == node.n_outputs else op.same(node, outputs=outputs)
    mask = op.Expand(mask, parts.lengths(node, op)[1])
    return op.same(node, inputs={"attn_mask": mask}, outputs=outputs)


def _has_columns(mask: Value) -> bool:
    """Returns whether the number of columns of the mask is known and is not one."""
    length = None if mask.dims_or_none is None else mask.dims[-1]
    return isinstance(length, int) and length != 1


@adapter("Attention", 24, 23)
def attention_24_23(node: Node, op: Builder) -> Result:
    """Below opset 24, a full mask replaces `nonpad_kv_seqlen` and a mask that is too short."""
    mask = node.input("attn_mask")
    if node.input("nonpad_kv_seqlen") is not None:
        return op.same(node, inputs=lengths_as_mask(node, op), is_causal=None)
    if mask is None or parts.reaches_all(node, mask):
        return op.same(node)
    _, keys, _ = parts.lengths(node, op)
    return op.same(node, inputs={"attn_mask": parts.full_mask(node, op, keys)})


@adapter("Attention", 23, 22, ignores=HEADS_OF_FOUR_AXES, in_other_words=True)
def attention_23_22(node: Node, op: Builder) -> Result:
    """Below opset 23, Attention is written as MatMul, Softmax and a second MatMul."""
    packed, kind = parts.is_packed(node), node["Q"].elem_type
    if node["V"].elem_type != kind:
        raise Refusal(Why.AMBIGUOUS, "no specification lets V have another type than Q")
    query, keys, values = (parts.by_head(op, node, q) if packed else node[q] for q in "QKV")
    past = node.input("past_key")
    if past is not None:
        keys = op.Concat(past, keys, axis=2)
        values = op.Concat(node["past_value"], values, axis=2)
    present = keys, values
    keys, values = (parts.for_each_query_head(op, node, x, query) for x in (keys, values))
    scale = parts.root_of_scale(op, node.attr("scale"), query)
    turned = op.Transpose(keys, perm=[0, 1, 3, 2])
    raw = op.MatMul(query * scale, turned * scale)
    cap, capped = node.float("softcap"), raw
    if cap:
        limit = op.const(cap, kind)
        capped = op.Tanh(raw / limit) * limit
    bias = parts.added_to_scores(node, op)
    scores = capped if bias is None else capped + bias
    chances = parts.softmax_in(op, scores, node.attr("softmax_precision") or kind, kind)
    if node.input("attn_mask") is not None and bias is not None:
        chances = parts.nothing_if_hidden(op, chances, bias)
    y = op.MatMul(chances, values)
    if packed:
        y = together(op, y, parts.result_width(node))
    shown = (raw, capped, scores, chances)[node.int("qk_matmul_output_mode")]
    return (y, *present, shown)[: node.n_outputs]

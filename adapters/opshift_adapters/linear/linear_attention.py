# SPDX-License-Identifier: Apache-2.0
"""LinearAttention and CausalConvWithState, which opset 27 added."""

from typing import Any

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, adapter, np

from opshift_adapters._lib.blocks import END, extent
from opshift_adapters._lib.heads import with_last_merged, with_last_split
from opshift_adapters._lib.kinds import as_type

SPEED = {"chunk_size": "`chunk_size` is only a hint about speed"}


@adapter("LinearAttention", 27, 26, ignores=SPEED, in_other_words=True)
def linear_attention_27_26(node: Node, op: Builder) -> Result:
    """Below opset 27, LinearAttention is written as a Scan over the sequence with a float state."""
    query, past = node["query"], node.input("past_state")
    heads, kv_heads = node.int("q_num_heads"), node.int("kv_num_heads")
    decays, corrects = (word in node.str("update_rule") for word in ("gated", "delta"))
    q = _packed(op, query, [kv_heads, heads // kv_heads, -1])
    k, v = (_packed(op, node[name], [kv_heads, 1, -1]) for name in ("key", "value"))
    steps = [q, k, v]
    if decays:
        steps.append(op.Exp(_packed(op, node["decay"], [kv_heads, -1, 1])))
    if corrects:
        steps.append(_packed(op, node["beta"], [-1, 1, 1]))

    def step(b: Builder, state: Value, *now: Value) -> tuple[Value, Value]:
        q, k, v, *more = now
        if decays:
            state = state * more[0]
        if corrects:
            v = more[-1] * (v - b.MatMul(k, state))
        state = state + b.MatMul(b.Transpose(k, perm=[0, 1, 3, 2]), v)
        return state, b.MatMul(q, state)

    width = extent(op, k, 4)
    sizes = extent(op, query, 0), op.const([kv_heads]), width, extent(op, v, 4)
    zero = op.const(0, T.FLOAT)
    first = as_type(op, past, T.FLOAT) if past else op.Expand(zero, op.Concat(*sizes, axis=0))
    at_once = [(T.FLOAT, [x.dims[0], *x.dims[2:]]) for x in steps]
    body, n_steps = op.graph(step, first, *at_once), len(steps)
    named: dict[str, Any] = {"body": body, "num_scan_inputs": n_steps}
    named |= {"scan_input_axes": [1] * n_steps, "scan_output_axes": [1]}
    last, read = op.Scan(first, *steps, outputs=2, **named)
    size = v.dims[4]
    flat = with_last_merged(op, read, heads * size if isinstance(size, int) else None)
    scaled = _scale(op, node.float("scale"), width) * flat
    kinds = query.elem_type, (past or query).elem_type
    return tuple(as_type(op, made, kind) for made, kind in zip((scaled, last), kinds, strict=True))


def _packed(op: Builder, x: Value, sizes: list[int]) -> Value:
    """Casts to float and splits the last axis into `sizes`, in which -1 is the remaining size."""
    return with_last_split(op, as_type(op, x, T.FLOAT), sizes)


def _scale(op: Builder, given: float, width: Value) -> Value:
    constant = width.const_or_none()
    if given:
        return op.const(given, T.FLOAT)
    if constant is not None:
        return op.const(1 / np.sqrt(constant), T.FLOAT)
    return op.Reciprocal(op.Sqrt(op.Cast(width, to=T.FLOAT)))


@adapter("CausalConvWithState", 27, 26, in_other_words=True)
def causal_conv_27_26(node: Node, op: Builder) -> Result:
    """Below opset 27, CausalConvWithState is written as Conv of the past joined with the input."""
    x, weight, past = node["input"], node["weight"], node.input("past_state")
    before = _in_front(op, x, weight) if past is None else op.Concat(past, x, axis=2)
    y = op.Conv(before, weight, node.input("bias"), group=_channels(x, weight))
    if node.str("activation") != "none":
        wide = as_type(op, y, T.FLOAT)
        y = as_type(op, wide * op.Sigmoid(wide), x.elem_type)
    return y, op.Slice(before, extent(op, x, 2), op.const([END]), op.const([2]))


def _in_front(op: Builder, x: Value, weight: Value) -> Value:
    """Pads the start of the input with kernel size - 1 zeros."""
    size = weight.dims[2]
    if isinstance(size, int):
        return op.Pad(x, op.const([size - 1, 0]), axes=op.const([2]))
    look_back = extent(op, weight, 2) - op.const([1])
    return op.Pad(x, op.Concat(look_back, op.const([0]), axis=0), axes=op.const([2]))


def _channels(x: Value, weight: Value) -> int:
    for size in (x.dims[1], weight.dims[0]):
        if isinstance(size, int):
            return size
    raise Refusal(Why.NEEDS_SHAPE, f"the number of channels of {x.name!r} is unknown")

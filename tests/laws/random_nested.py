# SPDX-License-Identifier: Apache-2.0
"""Random If, Loop and Scan, calls of local functions, sequences and optionals."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, TensorProto, helper
from random_scope import BOOL, FLOAT, INT64, Scope, Value, float_, known, plain, shaped

DEEPEST = 2


def ending(inner: Scope, elem_type: int, shape: tuple[int | str, ...]) -> Value:
    """Copies the last inner value of a type and shape to a new name."""
    fitting = [v for v in inner.values if (v.elem_type, v.shape) == (elem_type, shape)]
    last = inner.like(fitting[-1])
    inner.add("Identity", [fitting[-1].name], last)
    return last


def branch(s: Scope, x: Value) -> GraphProto:
    """A subgraph that may read all outer values; its output has the type and shape of `x`."""
    inner = s.inner([*s.values, x], "b")
    inner.grow(s.one_of(0, 1, 2))
    inner.graph.output.append(ending(inner, x.elem_type, x.shape).info)
    return inner.graph


def branched(s: Scope) -> None:
    x = s.pick(plain)
    if x and s.depth < DEEPEST:
        which = s.const(s.chance(), np.bool_, needed=False)
        result = s.like(x, exact=False)
        s.add("If", [which], result, then_branch=branch(s, x), else_branch=branch(s, x))


def looped(s: Scope) -> None:
    """A Loop that carries a value, with or without a stacked result."""
    x = s.pick(plain)
    if not x or s.depth >= DEEPEST:
        return
    inner = s.inner(list(s.values), "l")
    counter, go = Value(inner.fresh(), INT64, ()), Value(inner.fresh(), BOOL, ())
    # The checker takes a body's input that is called like a value outside of it.
    state = inner.like(x) if s.chance() else x
    inner.values = [*(v for v in inner.values if v.name != state.name), state, counter]
    inner.grow(s.one_of(0, 1, 2))
    inner.node("Identity", [go.name], [out := inner.fresh()])
    last = ending(inner, FLOAT, x.shape)
    inner.graph.input.extend([counter.info, go.info, state.info])
    inner.graph.output.extend([helper.make_tensor_value_info(out, BOOL, []), last.info])
    results = [s.like(x, exact=False)]
    if s.chance():
        inner.node("Identity", [last.name], [copy := inner.fresh()])
        inner.graph.output.append(helper.make_tensor_value_info(copy, FLOAT, x.shape))
        results.append(s.like(x, shape=(2, *x.shape), exact=False))
    trips = s.const(2, needed=False)
    s.add("Loop", [trips, s.const(True, np.bool_), x.name], *results, body=inner.graph)


def scanned(s: Scope) -> None:
    """A Scan that sums along the first axis; up to opset 8, every value has a batch axis first."""
    batched = s.opset < 9
    x = s.pick(plain, known, lambda v: v.rank >= (2 if batched else 1))
    if not x or s.depth >= DEEPEST or s.opset < 8:
        return
    first = 1 if batched else 0
    one = x.shape[first + 1 :]
    inner = s.inner([], "s")
    before, item = Value(inner.fresh(), FLOAT, one), Value(inner.fresh(), FLOAT, one)
    inner.values = [before, item]
    inner.add("Add", [before.name, item.name], inner.like(item, exact=False))
    inner.grow(s.one_of(0, 1))
    outs = [ending(inner, FLOAT, one) for _ in range(2)]
    inner.graph.input.extend([before.info, item.info])
    inner.graph.output.extend(v.info for v in outs)
    start = s.const(np.zeros((*x.shape[:first], *one)), np.float32, needed=False)
    results = s.like(x, shape=(*x.shape[:first], *one), exact=False), s.like(x, exact=False)
    inputs = ["", start, x.name] if batched else [start, x.name]
    how = {} if batched or s.chance() else {"scan_input_axes": [-x.rank if s.opset >= 11 else 0]}
    s.add("Scan", inputs, *results, body=inner.graph, num_scan_inputs=1, **how)


def called(s: Scope) -> None:
    """A function that uses the names of the outer graph for other values."""
    x = s.pick(plain, shaped)
    if not x or s.opset < 9 or s.depth:
        return
    name = s.one_of("Own", "Softmax") + str(len(s.functions))
    value = Value(s.values[0].name, FLOAT, x.shape)
    inner = s.inner([value], "f", in_function=True)
    inner.sequences = []
    inner.grow(s.one_of(1, 2, 3))
    result = ending(inner, FLOAT, x.shape)
    entries = [helper.make_opsetid("", s.opset)]
    if s.ml:
        entries.append(helper.make_opsetid("ai.onnx.ml", s.ml))
    s.functions.append(
        helper.make_function(
            "own", name, [value.name], [result.name], list(inner.graph.node), entries
        )
    )
    s.add(name, [x.name], s.like(x, exact=False), domain="own")


def called_with_an_axis(s: Scope) -> None:
    """A function that passes an attribute on; its name is that of another operator."""
    x = s.pick(float_, shaped)
    if not x or s.opset < 13 or s.depth:
        return
    if not any(f.name == "Softmax" for f in s.functions):
        node = helper.make_node("LogSoftmax", ["u"], ["v"])
        node.attribute.add(name="axis", ref_attr_name="axis", type=2)
        function = helper.make_function(
            "own", "Softmax", ["u"], ["v"], [node], [helper.make_opsetid("", s.opset)], ["axis"]
        )
        s.functions.append(function)
    s.add("Softmax", [x.name], s.like(x, exact=False), domain="own", axis=s.axis(x.rank))


def sequenced(s: Scope) -> None:
    """A sequence of two tensors, or of the slices of one."""
    x = s.pick(shaped, lambda v: isinstance(v.shape[0], int) and v.shape[0] > 0)
    if not x or s.opset < 11:
        return
    if s.chance():
        y = s.pick(lambda v: (v.elem_type, v.shape) == (x.elem_type, x.shape))
        result = s.like(x, exact=x.exact and y.exact)
        s.node("SequenceConstruct", [x.name, y.name], [result.name])
    else:
        result = s.like(x, shape=(1, *x.shape[1:]))
        s.node("SplitToSequence", [x.name], [result.name], axis=0, keepdims=1)
    s.sequences.append(result)


def unsequenced(s: Scope) -> None:
    """Reads a sequence: one element, all joined, its length, or the sequence with one more."""
    if not s.sequences:
        return
    x = s.one_of(*s.sequences)
    match s.one_of("SequenceAt", "ConcatFromSequence", "SequenceLength", "SequenceInsert"):
        case "SequenceAt":
            s.add("SequenceAt", [x.name, s.const(s.one_of(0, -1))], s.like(x))
        case "ConcatFromSequence" if x.rank:
            name = s.fresh()
            result = Value(name, x.elem_type, (f"of_{name}", *x.shape[1:]), x.exact)
            s.add("ConcatFromSequence", [x.name], result, axis=0)
        case "SequenceLength":
            s.add("SequenceLength", [x.name], Value(s.fresh(), INT64, ()))
        case "SequenceInsert":
            first = s.like(x)
            s.add("SequenceAt", [x.name, s.const(0)], first)
            longer = s.like(x)
            s.node("SequenceInsert", [x.name, first.name], [longer.name])
            s.sequences.append(longer)


def optional(s: Scope) -> None:
    """An optional with a value, its element, and whether it has one."""
    x = s.pick(plain)
    if x and s.opset >= 15:
        s.node("Optional", [x.name], [box := s.fresh()])
        if s.chance():
            s.add("OptionalHasElement", [box], Value(s.fresh(), TensorProto.BOOL, ()))
        s.add("OptionalGetElement", [box], s.like(x))


ALL = (
    *(branched, looped, scanned, called, called_with_an_axis, sequenced, sequenced),
    *(unsequenced, unsequenced, optional),
)

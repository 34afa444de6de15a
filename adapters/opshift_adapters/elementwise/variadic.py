# SPDX-License-Identifier: Apache-2.0
"""Max, Min, Sum and Mean, which have any number of inputs; from opset 8 on, these broadcast."""

from functools import reduce

from opshift.adapter import (
    KEEP,
    Builder,
    InvalidModel,
    Node,
    Result,
    T,
    Value,
    adapter,
    boundary,
    in_other_words,
)
from opshift.combinators import drop_attribute

from opshift_adapters._lib.blocks import one_number
from opshift_adapters._lib.kinds import FLOATS
from opshift_adapters.elementwise.comparison import choose

VARIADIC_6 = boundary(
    6, "Max:298ef4 Min:950431 Sum:58cbef Mean:924b85", up=drop_attribute("consumed_inputs")
)
VARIADIC_8 = boundary(8, "Max:189642 Min:f3f263 Sum:2f2c7b Mean:9f9851", directions="up")


@adapter("Sum Mean", 8, 7)
def sums_8_7(node: Node, op: Builder) -> Result:
    """Opset 8 broadcasts the inputs of Sum and Mean; below opset 8, Add (and Div) is written."""
    inputs = _given(node)
    if not inputs:
        raise InvalidModel(f"{node.op} {node.name!r} has no input")
    if _one_shape(inputs):
        return KEEP
    total = reduce(lambda a, b: a + b, inputs)
    if node.op == "Sum":
        return total
    return total / op.const(len(inputs), like=inputs[0])


@adapter("Max Min", 8, 7)
def extremes_8_7(node: Node, op: Builder) -> Result:
    """Below opset 8, Max and Min do not broadcast; the addition of -0.0 broadcasts the inputs."""
    inputs = _given(node)
    if any(x.elem_type_or_none == T.DOUBLE for x in inputs):
        return extreme_of_doubles(op, node.op, inputs)
    return KEEP if _one_shape(inputs) else op.same_but(node, _in_one_shape(op, inputs))[0]


def extreme_of_doubles(op: Builder, name: str, inputs: list[Value]) -> Value:
    """Writes Max or Min of doubles by Relu or a reduction; onnxruntime has no kernel at opset 7."""
    if len(inputs) == 1:
        return op.Identity(inputs[0])
    for x, other in (inputs, inputs[::-1]) if name == "Max" and len(inputs) == 2 else ():
        if one_number(other, x) == 0:
            return op.Relu(x)
    wide = inputs if _one_shape(inputs) else _in_one_shape(op, inputs)
    stack = op.Concat(*(op.Unsqueeze(x, axes=[0]) for x in wide), axis=0)
    return op.emit(f"Reduce{name}", stack, axes=[0], keepdims=0)


def _in_one_shape(op: Builder, inputs: list[Value]) -> list[Value]:
    """Returns the inputs broadcast to their common shape."""
    largest = [x for x in inputs if x.rank_or_none != 0] or inputs
    zeros = reduce(lambda a, b: a + b, [-op.Cast(x < x, to=x.elem_type) for x in largest])
    return [x if largest == [x] else x + zeros for x in inputs]


def _given(node: Node) -> list[Value]:
    return [x for x in node.inputs if x is not None]


def _one_shape(inputs: list[Value]) -> bool:
    """Returns whether there is one input, or all shapes are static and equal."""
    shapes = {x.dims_or_none for x in inputs}
    (first,) = shapes if len(shapes) == 1 else (None,)
    return len(inputs) == 1 or (first is not None and None not in first)


def _pairwise(node: Node, op: Builder) -> Result:
    """Opset 12 added integers to Max and Min; before that, Less and Where select from each pair."""
    inputs = _given(node)
    if node.op == "Max":
        return reduce(lambda a, b: choose(op, a < b, b, a), inputs)
    return reduce(lambda a, b: choose(op, b < a, b, a), inputs)


EXTREMES_12 = boundary(12, "Max:8a7944 Min:4069a3", cast=_pairwise)
VARIADIC_13 = boundary(13, "Max:7910d3 Min:7adbe0 Sum:9060da Mean:733b07")


@in_other_words("Sum Mean")
def sums_of_two(node: Node, op: Builder) -> Result:
    """Sum is written with Add; Mean is the sum divided by the number of inputs."""
    inputs = _given(node)
    total = reduce(lambda a, b: a + b, inputs)
    if len(inputs) == 1:
        return op.Identity(total)
    return total if node.op == "Sum" else total / op.const(len(inputs), like=total)


@in_other_words("Max Min")
def extremes_of_two(node: Node, op: Builder) -> Result:
    """Max of floats is written as -Min(-x), Min as -Max(-x); Where selects integers."""
    inputs = _given(node)
    if len(inputs) == 1:
        return op.Identity(inputs[0])
    if inputs[0].elem_type in FLOATS:
        opposite: Value = op.emit("Min" if node.op == "Max" else "Max", *(-x for x in inputs))
        return -opposite

    def chosen(a: Value, b: Value) -> Value:
        return op.Where(a > b if node.op == "Max" else a < b, a, b)

    return reduce(chosen, inputs)

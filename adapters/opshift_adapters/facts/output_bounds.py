# SPDX-License-Identifier: Apache-2.0
"""Bounds of outputs: of sizes, indices, arithmetic on bounded integers, and activations."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from opshift.adapter import Bounds, Node, T, Value, for_all, moved_bounds, np, output_bounds

from opshift_adapters._lib.makers import maker

LONGEST = 2**40  # no axis is longer, because the tensor would not fit into memory
# Operators that copy the elements of their first input without a computation.
MOVES = (
    "DepthToSpace Expand Flatten Gather Identity Reshape Slice SpaceToDepth Squeeze Tile Transpose"
    " Unsqueeze"
)
# Operators of floats whose results are never below zero.
FROM_ZERO_UP = ("Abs", "Exp", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt")
Told = Sequence[Bounds | None]


def needed(value: Value | None) -> Value:
    assert value is not None  # these inputs are required
    return value


@output_bounds("Shape")
def shape(node: Node) -> Told:
    dims = needed(node.inputs[0]).dims_or_none
    if dims is None:
        return [for_all(0, LONGEST)]
    start = node.int("start") if "start" in node.attributes else 0
    end = node.int("end") if "end" in node.attributes else None
    bounds = [(d, d) if isinstance(d, int) else (0, LONGEST) for d in dims[start:end]]
    low, high = (np.array([bound[i] for bound in bounds], dtype=object) for i in range(2))
    return [Bounds(low, high, each=True)]


@output_bounds("Size")
def size(node: Node) -> Told:
    return [for_all(0, min(math.prod(longest(node.inputs[0])), LONGEST))]


@output_bounds("ArgMax", "ArgMin")
def place(node: Node) -> Told:
    return [below(node.inputs[0], node.int("axis"))]


@output_bounds("NonZero")
def places(node: Node) -> Told:
    return [for_all(0, max(longest(node.inputs[0])))]


@output_bounds("TopK")
def places_of_the_largest(node: Node) -> Told:
    return [None, below(node.inputs[0], node.int("axis"))]


def longest(value: Value | None) -> list[int]:
    """Returns the largest possible size of each axis of a value; [1] for a scalar."""
    dims = needed(value).dims_or_none
    if dims is None:
        return [LONGEST]
    return [d if isinstance(d, int) else LONGEST for d in dims or (1,)]


def below(value: Value | None, axis: int) -> Bounds:
    """Returns the bounds of the indices along an axis."""
    lengths = longest(value)
    return for_all(0, lengths[axis] if -len(lengths) <= axis < len(lengths) else LONGEST)


@output_bounds(*MOVES.split())
def of_the_first(node: Node) -> Told:
    return [moved_bounds(node, [needed(node.inputs[0])])]


@output_bounds("Concat")
def of_all(node: Node) -> Told:
    return [moved_bounds(node, list(map(needed, node.inputs)))]


@output_bounds("Split")
def of_each(node: Node) -> Told:
    return [needed(node.inputs[0]).bounds.joint for _ in node.outputs]


Pick = Callable[[int, int], int]


@output_bounds("Where")
def one_of_two(node: Node) -> Told:
    x, y = (needed(value).bounds for value in node.inputs[1:])
    low, high = _picks(node)
    return [for_all(low(x.lowest, y.lowest), high(x.highest, y.highest))]


def _picks(node: Node) -> tuple[Pick, Pick]:
    """Returns the functions (min, max) that give the bounds of Where from its branches' bounds."""
    compared = needed(node.inputs[0]).producer
    if compared is None or compared.op not in ("Less", "Greater"):
        return min, max
    a, b, x, y = map(needed, (*compared.inputs, *node.inputs[1:]))
    if not (a.is_same(x) and b.is_same(y)) and not (a.is_same(y) and b.is_same(x)):
        return min, max
    pick = min if a.is_same(x) is (compared.op == "Less") else max
    return pick, pick


@output_bounds("Cast")
def cast(node: Node) -> Told:
    x, to = needed(node.inputs[0]), node.attr("to")
    bounds = x.bounds_or_none
    if bounds is None and x.elem_type != T.STRING:
        element = T(x.elem_type).element
        bounds = for_all(*element.limits) if element.is_integer and element.bits < 64 else None
    return [_held(bounds or x.bounds, to)]


def _held(bounds: Bounds, kind: Any) -> Bounds | None:
    """Returns the bounds if the integer type holds all numbers between them, else None."""
    low, high = T(kind).element.limits if kind in (T.INT32, T.INT64) else (1, 0)
    return bounds if low <= bounds.lowest and bounds.highest <= high else None


def computed(node: Node, compute: Callable[..., tuple[Any, Any]]) -> Told:
    """Returns the bounds of a result; `compute` gets the lower and upper bound of each operand."""
    operands = [needed(value) for value in node.inputs]
    bounds = [value.bounds for value in operands]
    each = all(bound.each for bound in bounds) and "broadcast" not in node.attributes
    bounds = bounds if each else [bound.joint for bound in bounds]
    low, high = compute(*((bound.low, bound.high) for bound in bounds))
    found = Bounds(np.array(low, dtype=object), np.array(high, dtype=object), each=each)
    return [_held(found, operands[0].elem_type)]


@output_bounds("Add")
def add(node: Node) -> Told:
    return computed(node, lambda a, b: (a[0] + b[0], a[1] + b[1]))


@output_bounds("Sub")
def subtract(node: Node) -> Told:
    return computed(node, lambda a, b: (a[0] - b[1], a[1] - b[0]))


@output_bounds("Mul")
def multiply(node: Node) -> Told:
    def corners(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        products = [x * y for x in a for y in b]
        return _over(products, np.minimum), _over(products, np.maximum)

    return computed(node, corners)


@output_bounds("Max", "Min")
def extreme(node: Node) -> Told:
    pick = np.maximum if node.op == "Max" else np.minimum
    return computed(node, lambda *of: tuple(_over([one[i] for one in of], pick) for i in range(2)))


def _over(values: Sequence[Any], pick: Any) -> Any:
    """Reduces values with `pick` as Python integers, because numpy integers wrap around."""
    return functools.reduce(lambda a, b: _exact(pick(_exact(a), _exact(b))), values)


def _exact(value: Any) -> Any:
    return np.asarray(value, dtype=object)


@output_bounds("Neg")
def negate(node: Node) -> Told:
    return computed(node, lambda a: (-a[1], -a[0]))


@output_bounds("Abs")
def absolute(node: Node) -> Told:
    return computed(
        node, lambda a: (_over((a[0], -a[1], 0), np.maximum), _over((-a[0], a[1]), np.maximum))
    )


def is_never_negative(x: Value) -> bool:
    """Returns whether no element of a value can be negative."""
    return maker(x, *FROM_ZERO_UP) is not None or x.never_negative


@output_bounds("Div", "Mod")
def divide(node: Node) -> Told:
    if needed(node.inputs[1]).bounds.lowest <= 0 or (
        node.op == "Div" and not needed(node.inputs[0]).never_negative
    ):
        return [None]
    if node.op == "Div":
        return computed(node, lambda a, b: (a[0] // b[1], a[1] // b[0]))
    if node.int("fmod"):
        return [None]
    if needed(node.inputs[0]).bounds_or_none is None:
        return [for_all(0, needed(node.inputs[1]).bounds.highest - 1)]
    return computed(node, lambda a, b: (0 * (a[0] + b[0]), 0 * a[0] + b[1] - 1))


@output_bounds("Range")
def steps(node: Node) -> Told:
    start, limit, delta = (needed(value).bounds for value in node.inputs)
    if delta.lowest > 0:
        return [for_all(start.lowest, max(limit.highest - 1, start.lowest))]
    if delta.highest < 0:
        return [for_all(min(limit.lowest + 1, start.highest), start.highest)]
    return [None]

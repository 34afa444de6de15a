# SPDX-License-Identifier: Apache-2.0
"""Constant folding of arithmetic, comparisons, reductions and Cast."""

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

from opshift.adapter import Array, Fold, Node, T, Why, example, fold, np, shown

from opshift_adapters.facts.folding import listed, numbers, numpy_type, setting, sized

Compute = Callable[..., Any]
Run = Callable[[Node], Array | None]


@fold("Cast")
def cast(node: Node) -> Array | None:
    data, to = numbers(node, 0), node.attr("to")
    number = T.__members__.get(to.decode(), T.UNDEFINED) if isinstance(to, bytes) else int(to)
    dtype = numpy_type(number)
    if not dtype:
        return None
    if data.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        lowest, highest = map(float, T(number).element.limits)
        wide = data.astype(np.float64)
        if not np.all((wide > lowest - 1) & (wide < highest + 1)):
            return None  # out of range: runtimes differ in the result
    return data.astype(dtype)


def elementwise(compute: Compute, kinds: str = "iuf") -> Run:
    """Returns a function that folds a broadcasting operator with a numpy function."""

    def run(node: Node) -> Array | None:
        operands = [numbers(node, i) for i in range(len(node.inputs))]
        stretched = setting(node, "broadcast", 0) and "axis" in node.attributes
        if stretched or not all(operand.dtype.kind in kinds for operand in operands):
            return None
        sized(np.broadcast_shapes(*(operand.shape for operand in operands)))
        with np.errstate(all="ignore"):
            result = compute(*operands)
        return None if result is None else np.asarray(result)

    return run


def of_numpy(name: str) -> Compute:
    """Returns a numpy function; numpy is imported only when an operator is folded."""
    return lambda *operands, **options: getattr(np, name)(*operands, **options)


def divide(a: Array, b: Array) -> Array | None:
    """Returns the quotient, truncated towards zero for integers; None for a division by zero."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not np.all(b):
        return None
    quotient = a // b
    return np.asarray(quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype))


def over_all(step: Compute) -> Run:
    """Returns a function that folds an operator with any number of operands, two at a time."""
    return elementwise(lambda *operands: functools.reduce(step, operands))


def table(rule: Callable[[Compute], Run], functions: str, *examples: Any) -> tuple[Fold, ...]:
    """Declares the folding of operators with numpy functions, listed as `Add=add Sub=subtract`."""
    pairs = (word.split("=") for word in functions.split())
    return tuple(fold(op)(shown(rule(of_numpy(name)), *examples)) for op, name in pairs)


SIGNED = "<float[3] a = {2.5, -0.5, 6.25}, float[3] b = {-1.5, -0.5, 3}>"
STRETCHED = "<float[2,3] a = {1, 2, 3, 4, 5, 6}, float[2] b = {7, 8}>"
TWO = (
    example(
        "whole numbers",
        "() => (int64[2,2] y) <int64[2,1] a = {-7, 8}, int64[2] b = {2, 3}> { y = {op}(a, b) }",
    ),
    example("floats", "() => (float[3] y) " + SIGNED + " { y = {op}(a, b) }"),
    example(
        "stretched along an axis",
        "() => (float[2,3] y) " + STRETCHED + " { y = {op}<broadcast=1, axis=0>(a, b) }",
        imports={"": 6},
        refuses=Why.NEEDS_CONSTANT,
    ),
)
ARITHMETIC = table(elementwise, "Add=add Sub=subtract Mul=multiply", *TWO)
DIVISION = fold("Div")(
    shown(
        elementwise(divide),
        *TWO,
        example(
            "by zero",
            "() => (int64[1] y) <int64[1] a = {7}, int64[1] b = {0}> { y = Div(a, b) }",
            refuses=Why.NEEDS_CONSTANT,
        ),
    )
)
OF_MANY = table(
    over_all,
    "Min=minimum Max=maximum Sum=add",
    example("one", "() => (float[3] y) " + SIGNED + " { y = {op}(a) }"),
    example("three", "() => (float[3] y) " + SIGNED + " { y = {op}(a, b, a) }"),
)
SIGNS = table(
    elementwise,
    "Neg=negative Abs=abs",
    example("whole numbers", "() => (int64[2] y) <int64[2] a = {-7, 8}> { y = {op}(a) }"),
    example(
        "of an input", "(int64[2] a) => (int64[2] y) { y = {op}(a) }", refuses=Why.NEEDS_CONSTANT
    ),
)
ROUNDED = table(
    partial(elementwise, kinds="f"),
    "Floor=floor Ceil=ceil Round=round Sqrt=sqrt",
    example("floats", "() => (float[3] y) " + SIGNED + " { y = {op}(a) }"),
)
PAIR = example("floats", "() => (bool[3] y) " + SIGNED + " { y = {op}(a, b) }")
EQUAL = table(partial(elementwise, kinds="iufb"), "Equal=equal", PAIR)
ORDERED = table(
    elementwise,
    "Less=less LessOrEqual=less_equal Greater=greater GreaterOrEqual=greater_equal",
    PAIR,
)
CHOICE = "<bool[2,1] c = {1, 0}, bool[2] d = {1, 0}>"
LOGIC = table(
    partial(elementwise, kinds="b"),
    "And=logical_and Or=logical_or Xor=logical_xor",
    example("two", "() => (bool[2,2] y) " + CHOICE + " { y = {op}(c, d) }"),
)
NOT = table(
    partial(elementwise, kinds="b"),
    "Not=logical_not",
    example("one", "() => (bool[2] y) " + CHOICE + " { y = Not(d) }"),
)
WHERE = table(
    partial(elementwise, kinds="iufb"),
    "Where=where",
    example(
        "stretched",
        "() => (float[2,3] y) <bool[2,1] c = {1, 0}, float[3] a = {2.5, -0.5, 6.25}, float b ="
        " {-1.5}> { y = Where(c, a, b) }",
    ),
)


@fold("Mod")
def mod(node: Node) -> Array | None:
    a, b = numbers(node, 0), numbers(node, 1)
    if a.dtype.kind == "f" or not np.all(b):
        return None
    return np.asarray(np.fmod(a, b) if setting(node, "fmod", 0) else np.mod(a, b))


def reduction(compute: Compute) -> Run:
    """Returns a function that folds a reduction of integers (a float sum depends on the order)."""

    def run(node: Node) -> Array | None:
        data, axes = numbers(node, 0), listed(node, "axes", 1)
        if data.dtype.kind not in "iu" or not data.size:
            return None
        if not axes and setting(node, "noop_with_empty_axes", 0):
            return data
        over, keepdims = tuple(axes) if axes else None, bool(setting(node, "keepdims", 1))
        return np.asarray(compute(data, axis=over, keepdims=keepdims)).astype(data.dtype)

    return run


REDUCTIONS = table(
    reduction,
    "ReduceProd=prod ReduceSum=sum ReduceMax=max ReduceMin=min",
    example("all", "() => (int64[1,1] y) <int64[2,2] a = {1, 2, 3, -4}> { y = {op}(a) }"),
    example(
        "one axis",
        "() => (int64[2] y) <int64[2,2] a = {1, 2, 3, -4}, int64[1] k = {-1}> { y ="
        " {op}<keepdims=0>(a, k) }",
    ),
    example(
        "no axes",
        "() => (int64[2] y) <int64[2] a = {1, 2}> { y = {op}<noop_with_empty_axes=1>(a) }",
    ),
    example(
        "attribute",
        "() => (int32[1,2] y) <int32[2,2] a = {1, 2, 3, -4}> { y = {op}<axes=[0]>(a) }",
        imports={"": 5},
    ),
    example(
        "of floats",
        "() => (float[1] y) <float[2] a = {0.1, 0.2}> { y = {op}(a) }",
        refuses=Why.NEEDS_CONSTANT,
    ),
)

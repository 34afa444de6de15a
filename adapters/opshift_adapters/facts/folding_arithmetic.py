# SPDX-License-Identifier: Apache-2.0
"""Constant folding of arithmetic, comparisons, reductions and Cast."""

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

from opshift.adapter import Array, Fold, Node, T, fold, np

from opshift_adapters.facts.folding import listed, numbers, numpy_type, setting, sized

Compute = Callable[..., Any]
Run = Callable[[Node], Array | None]


@fold("Cast", ignores=dict.fromkeys(("saturate", "round_mode"), "types of 8 bits are not folded"))
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


def table(name: str, rule: Callable[[Compute], Run], functions: str) -> tuple[Fold, ...]:
    """Declares the folding of operators with numpy functions, listed as `Add=add Sub=subtract`."""
    folds = []
    for op, function in (word.split("=") for word in functions.split()):
        run = rule(of_numpy(function))
        run.__name__ = name
        folds.append(fold(op)(run))
    return tuple(folds)


@fold("Div")
def division(node: Node) -> Array | None:
    return elementwise(divide)(node)


ARITHMETIC = table("arithmetic", elementwise, "Add=add Sub=subtract Mul=multiply")
OF_MANY = table("of_many", over_all, "Min=minimum Max=maximum Sum=add")
SIGNS = table("signs", elementwise, "Neg=negative Abs=abs")
FLOATS = partial(elementwise, kinds="f")
ROUNDED = table("rounded", FLOATS, "Floor=floor Ceil=ceil Round=round Sqrt=sqrt")
ANY = partial(elementwise, kinds="iufb")
EQUAL = table("compared", ANY, "Equal=equal")
COMPARISONS = "Less=less LessOrEqual=less_equal Greater=greater GreaterOrEqual=greater_equal"
ORDERED = table("compared", elementwise, COMPARISONS)
BOOL = partial(elementwise, kinds="b")
LOGIC = table("logic", BOOL, "And=logical_and Or=logical_or Xor=logical_xor")
NOT = table("negation", BOOL, "Not=logical_not")
WHERE = table("choice", ANY, "Where=where")


@fold("Mod")
def mod(node: Node) -> Array | None:
    a, b = numbers(node, 0), numbers(node, 1)
    if a.dtype.kind == "f" or not np.all(b):
        return None
    return np.asarray(np.fmod(a, b) if setting(node, "fmod", 0) else np.mod(a, b))


def reduction(compute: Compute) -> Run:
    """Returns a function that folds a reduction of integers (a float sum depends on the order)."""

    def run(node: Node) -> Array | None:
        data, axes = numbers(node, 0), tuple(listed(node, "axes", 1) or ()) or None
        if data.dtype.kind not in "iu" or not data.size:
            return None
        keepdims, is_noop = setting(node, "keepdims", 1), setting(node, "noop_with_empty_axes", 0)
        if axes is None and is_noop:
            return data
        return np.asarray(compute(data, axis=axes, keepdims=bool(keepdims))).astype(data.dtype)

    return run


REDUCTIONS = table(
    "reductions", reduction, "ReduceProd=prod ReduceSum=sum ReduceMax=max ReduceMin=min"
)

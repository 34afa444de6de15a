# SPDX-License-Identifier: Apache-2.0
"""Clip: bounds are attributes below opset 11 and inputs from 11 on; opset 12 added integers."""

from typing import Any

from opshift.adapter import (
    KEEP,
    Array,
    Builder,
    Node,
    Result,
    T,
    Value,
    adapter,
    alternative,
    boundary,
    dtype_of,
    form,
    in_other_words,
    misread,
    np,
)

from opshift_adapters._lib.kinds import EXACT_IN_FLOAT, FLOATS
from opshift_adapters.elementwise.comparison import choose
from opshift_adapters.elementwise.variadic import extreme_of_doubles


def _limits(elem_type: int) -> list[Array]:
    """Returns the smallest and the largest finite number of a type, the default bounds of Clip."""
    return [np.array(end, dtype_of(elem_type)) for end in T(elem_type).element.finite]


def _elem_type(node: Node) -> int:
    """Returns the common element type of the inputs, from any input whose type is known."""
    kinds = [value.elem_type_or_none for value in node.inputs if value is not None]
    return next(filter(None, kinds), None) or node["input"].elem_type


@adapter("Clip", 5, 6, ignores={"consumed_inputs": "`consumed_inputs` is a hint about memory"})
def clip_5_6(node: Node, op: Builder) -> Result:
    """Below opset 6, Clip without a bound has no limit; opset 6 needs infinity as the bound."""
    if not node.has("min") and not node.has("max"):
        return op.Identity(node["input"])
    absent = {"min": -np.inf, "max": np.inf}
    written: dict[str, Any] = {n: v for n, v in absent.items() if not node.has(n)}
    same: Value = op.same(node, consumed_inputs=None, **written)
    return same


@adapter("Clip", 10, 11)
def clip_10_11(node: Node, op: Builder) -> Result:
    """Opset 11 turned `min` and `max` of Clip into inputs with the element type of the data."""
    x = node["input"]
    kind = dtype_of(x.elem_type)
    bounds: dict[str, Value | None] = {}
    for name, limit in zip(("min", "max"), _limits(x.elem_type), strict=True):
        with np.errstate(over="ignore"):
            bound = np.array(node.float(name), dtype=np.float32).astype(kind)
        bounds[name] = None if bound == limit else op.const(bound, x.elem_type)
    return op.same(node, inputs=bounds, min=None, max=None)


@form("Clip")
def by_max_and_min(node: Node, op: Builder) -> Result:
    """Below opset 12, onnxruntime has no kernel for Clip of double; Max and Min are written."""
    x = node["input"]
    if not 7 <= op.version < 12 or x.elem_type_or_none != T.DOUBLE:
        return KEEP
    if op.version < 11:
        low, high = (op.const(node.float(name), T.DOUBLE) for name in ("min", "max"))
        if op.version == 7:
            return extreme_of_doubles(op, "Min", [extreme_of_doubles(op, "Max", [x, low]), high])
        return op.Min(op.Max(x, low), high)
    bounded = x
    for name, cut in (("min", op.Max), ("max", op.Min)):
        bound = node.input(name)
        bounded = bounded if bound is None else cut(bounded, bound)
    return KEEP if bounded is x else bounded


@misread("Clip", "onnxruntime 1.0..1.7", source="2026-11-29 12 releases: 18 forms", since=11)
def has_a_vector_as_bound(node: Node) -> bool:
    """{op} with a bound that is a vector of one element, not a scalar, is rejected."""
    return any(value is not None and value.rank_or_none == 1 for value in node.inputs[1:])


@alternative("Clip", runtime="onnxruntime==1.7")
def with_scalar_bounds(node: Node, op: Builder) -> Result:
    """Vector bounds of Clip become scalars, because onnxruntime up to 1.7 requires scalars."""
    if op.version < 11:
        return KEEP  # pragma: no cover: only a runtime of the caller asks for this form
    bounds = {name: node.input(name) for name in ("min", "max")}
    return op.same(
        node,
        inputs={
            name: op.Squeeze(value, axes=[0]) if value and value.rank_or_none == 1 else value
            for name, value in bounds.items()
        },
    )


@adapter("Clip", 13, 12)
def clip_13_12(node: Node, op: Builder) -> Result:
    """Below opset 13, Clip with `min` > `max` is written as Max and Min, so that `max` wins."""
    low, high = node.input("min"), node.input("max")
    if low is None or high is None:
        return KEEP
    least, most = low.const_or_none(), high.const_or_none()
    if least is None or most is None or not (least > most).any():
        return KEEP
    return op.Min(op.Max(node["input"], low), high)


CLIP_13 = boundary(13, "Clip:82d0ef", directions="up")
CLIP_12 = boundary(12, "Clip:0bea62", directions="up")


@adapter("Clip", 12, 11, handles_types=True)
def clip_12_11(node: Node, op: Builder) -> Result:
    """Below opset 12, Clip of integers is written as Clip of floats, or Less and Where."""
    if _elem_type(node) in FLOATS:
        return KEEP
    x, low, high = node["input"], node.input("min"), node.input("max")
    if low is not None and high is not None and _float_holds_between(low, high):
        bounds = (op.const(bound.const().astype(np.float32), T.FLOAT) for bound in (low, high))
        return op.Cast(op.Clip(op.Cast(x, to=T.FLOAT), *bounds), to=x.elem_type)
    if low is not None:
        x = choose(op, x < low, low, x)
    if high is not None:
        x = choose(op, high < x, high, x)
    return x


def _float_holds_between(low: Value, high: Value) -> bool:
    """Returns whether float represents every integer from one bound to the other exactly."""
    least, most = low.const_or_none(), high.const_or_none()
    if least is None or most is None:
        return False
    return -EXACT_IN_FLOAT <= int(least.item()) <= int(most.item()) <= EXACT_IN_FLOAT


@adapter("Clip", 11, 10)
def clip_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, the bounds of Clip are float attributes; other bounds need Max and Min."""
    kind = _elem_type(node)
    bounds: dict[str, Value] = {}
    for name, limit in zip(("min", "max"), _limits(kind), strict=True):
        bounds[name] = node.input(name) or op.const(limit, kind)
    low, high = (bound.const_or_none() for bound in bounds.values())
    if low is None or high is None or not _are_floats(low, high) or low > high:
        return op.Min(op.Max(node["input"], bounds["min"]), bounds["max"])
    attributes: dict[str, Any] = {"min": low.item(), "max": high.item()}
    if kind == T.FLOAT:  # float attributes have the limits of float as defaults
        attributes = {name: v for name, v in attributes.items() if node.input(name) is not None}
    same: Value = op.same(node, inputs={"min": None, "max": None}, **attributes)
    return same


def _are_floats(*bounds: Array) -> bool:
    """Returns whether each bound is one number that a float attribute represents exactly."""
    with np.errstate(over="ignore"):
        return all(b.size == 1 and b.astype(np.float32) == b for b in bounds)


@adapter("Clip", 6, 5)
def clip_6_5(node: Node, op: Builder) -> Result:
    """Opset 6 changed the default bounds of Clip to the limits of float; they are written out."""
    absent: dict[str, Any] = {n: node.float(n) for n in ("min", "max") if not node.has(n)}
    same: Value = op.same(node, **absent)
    return same


@in_other_words("Clip")
def max_and_min(node: Node, op: Builder) -> Result:
    """Clip is written as Min(Max(x, min), max)."""
    x = bounded = node["input"]
    for name, cut in (("min", op.Max), ("max", op.Min)):
        bound = node.input(name) if op.version >= 11 else op.const(node.float(name), like=x)
        bounded = bounded if bound is None else cut(bounded, bound)
    return op.Identity(x) if bounded is x else bounded

# SPDX-License-Identifier: Apache-2.0
"""Constant folding of small operators, as in `folding`: arithmetic and comparisons."""

from collections.abc import Callable
from typing import Any

from opshift.adapter import Array, Fold, Node, T, Why, example, fold, np, shown

from opshift_adapters.facts.folding import listed, numbers, numpy_type, setting, sized

Compute = Callable[..., Any]
Run = Callable[[Node], Array | None]


@fold("Cast")
@example("cut off", "() => (int64[2] y) <float[2] a = {2.5, -2.5}> { y = Cast<to=7>(a) }")
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
            return None  # out of range, and runtimes differ
    return data.astype(dtype)


def elementwise(compute: Compute, kinds: str = "iuf") -> Run:
    """The folding of an operator that numpy has, with broadcasting."""

    def run(node: Node) -> Array | None:
        operands = [numbers(node, i) for i in range(len(node.inputs))]
        stretched = setting(node, "broadcast", 0) and "axis" in node.attributes
        if stretched or not all(one.dtype.kind in kinds for one in operands):
            return None
        sized(np.broadcast_shapes(*(one.shape for one in operands)))
        with np.errstate(all="ignore"):
            found = compute(*operands)
        return None if found is None else np.asarray(found)

    return run


def of_numpy(name: str) -> Compute:
    """A function of numpy, which is imported when something is folded."""
    return lambda *operands, **options: getattr(np, name)(*operands, **options)


def divide(a: Array, b: Array) -> Array | None:
    """The quotient; of integers truncated towards zero, and None for a division by zero."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not np.all(b):
        return None
    quotient = a // b
    return np.asarray(quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype))


def over_all(step: Compute) -> Compute:
    """A function of any number of operands, from a function of two."""

    def run(*operands: Array) -> Array:
        found = operands[0]
        for one in operands[1:]:
            found = step(found, one)
        return found

    return run


def table(operators: dict[str, Run], *examples: Any) -> tuple[Fold, ...]:
    return tuple(fold(name)(shown(run, *examples)) for name, run in operators.items())


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
ARITHMETIC = table(
    {
        "Add": elementwise(of_numpy("add")),
        "Sub": elementwise(of_numpy("subtract")),
        "Mul": elementwise(of_numpy("multiply")),
    },
    *TWO,
)
DIVISION = table(
    {"Div": elementwise(divide)},
    *TWO,
    example(
        "by zero",
        "() => (int64[1] y) <int64[1] a = {7}, int64[1] b = {0}> { y = Div(a, b) }",
        refuses=Why.NEEDS_CONSTANT,
    ),
)
OF_MANY = table(
    {
        "Min": elementwise(over_all(of_numpy("minimum"))),
        "Max": elementwise(over_all(of_numpy("maximum"))),
        "Sum": elementwise(over_all(of_numpy("add"))),
    },
    example("one", "() => (float[3] y) " + SIGNED + " { y = {op}(a) }"),
    example("three", "() => (float[3] y) " + SIGNED + " { y = {op}(a, b, a) }"),
)
SIGNS = table(
    {"Neg": elementwise(of_numpy("negative")), "Abs": elementwise(of_numpy("abs"))},
    example("whole numbers", "() => (int64[2] y) <int64[2] a = {-7, 8}> { y = {op}(a) }"),
    example(
        "of an input", "(int64[2] a) => (int64[2] y) { y = {op}(a) }", refuses=Why.NEEDS_CONSTANT
    ),
)
ROUNDED = table(
    {
        "Floor": elementwise(of_numpy("floor"), "f"),
        "Ceil": elementwise(of_numpy("ceil"), "f"),
        "Round": elementwise(of_numpy("round"), "f"),
        "Sqrt": elementwise(of_numpy("sqrt"), "f"),
    },
    example("floats", "() => (float[3] y) " + SIGNED + " { y = {op}(a) }"),
)
COMPARED = table(
    {
        "Equal": elementwise(of_numpy("equal"), "iufb"),
        "Less": elementwise(of_numpy("less")),
        "LessOrEqual": elementwise(of_numpy("less_equal")),
        "Greater": elementwise(of_numpy("greater")),
        "GreaterOrEqual": elementwise(of_numpy("greater_equal")),
    },
    example("floats", "() => (bool[3] y) " + SIGNED + " { y = {op}(a, b) }"),
)
CHOICE = "<bool[2,1] c = {1, 0}, bool[2] d = {1, 0}>"
LOGIC = table(
    {
        "And": elementwise(of_numpy("logical_and"), "b"),
        "Or": elementwise(of_numpy("logical_or"), "b"),
        "Xor": elementwise(of_numpy("logical_xor"), "b"),
    },
    example("two", "() => (bool[2,2] y) " + CHOICE + " { y = {op}(c, d) }"),
)
NOT = table(
    {"Not": elementwise(of_numpy("logical_not"), "b")},
    example("one", "() => (bool[2] y) " + CHOICE + " { y = Not(d) }"),
)
WHERE = table(
    {"Where": elementwise(of_numpy("where"), "iufb")},
    example(
        "stretched",
        "() => (float[2,3] y) <bool[2,1] c = {1, 0}, float[3] a = {2.5, -0.5, 6.25}, float b ="
        " {-1.5}> { y = Where(c, a, b) }",
    ),
)


@fold("Mod")
@example(
    "as the divisor",
    "() => (int64[2] y) <int64[2] a = {-7, 7}, int64[1] b = {4}> { y = Mod(a, b) }",
)
def mod(node: Node) -> Array | None:
    a, b = numbers(node, 0), numbers(node, 1)
    if a.dtype.kind == "f" or not np.all(b):
        return None
    return np.asarray(np.fmod(a, b) if setting(node, "fmod", 0) else np.mod(a, b))


def reduction(compute: Compute) -> Run:
    """The folding of a reduction of integers; the order in which floats are added is unknown."""

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
    {
        "ReduceProd": reduction(of_numpy("prod")),
        "ReduceSum": reduction(of_numpy("sum")),
        "ReduceMax": reduction(of_numpy("max")),
        "ReduceMin": reduction(of_numpy("min")),
    },
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

# SPDX-License-Identifier: Apache-2.0
"""Round from the next whole number above."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, example, modern

UP = (
    "(float[2,3] x) => (float[2,3] y) <float h = {0.5}, float e = {5.9604645e-08}> { a ="
    " Ceil(x) b = Mul(a, h) f = Floor(b) o = Sub(b, f) d = Sub(a, x) p = Mul(o, e) l ="
    " Sub(h, p) g = Greater(d, l) c = Cast<to=1>(g) y = Sub(a, c) }"
)
AS_WRITTEN = "Ceil Mul Floor Sub Sub Mul Sub Greater Cast Sub"
HALVES = {"x": [[0.5, 1.5, -0.5], [2.5, 0.49999997, -1.5000001]]}


def smallest_step(found: Found) -> dict[str, Any] | None:
    """An empty dict if the step is the one below 1 in the type of the data, else None."""
    kind, step = found["X"].elem_type_or_none, found.numbers["step"]
    return {} if kind is not None and step == T(kind).fraction.below_one else None


@modern("Round", since=11, when=smallest_step)
@example("halves to the even number", UP, gives="Round", inputs=HALVES)
@example("another step", UP.replace("5.9604645e-08", "0.25"), gives=AS_WRITTEN)
def round_from_above(op: Formula, X: Term) -> Term:  # noqa: N803 (the name of the input)
    """Ceil(x), minus 1 where that is nearer: above an odd number, a half counts as nearer."""
    above = op.Ceil(X)
    halves = above * 0.5
    odd = halves - op.Floor(halves)
    return above - op.cast(op.Greater(above - X, 0.5 - odd * op.number("step")))


IN_DOUBLE = (
    "(float[2,3] x) => (float[2,3] y) <double w = {6755399441055744}> { a = Ceil(x) d ="
    " Cast<to=11>(x) n = Add(d, w) e = Cast<to=11>(a) h = Add(w, e) l = Less(n, h) c ="
    " Cast<to=1>(l) y = Sub(a, c) }"
)
IN_FLOAT = IN_DOUBLE.replace("to=11", "to=1").replace(
    "double w = {6755399441055744}", "float w = {12582912}"
)
ROUNDS_IN_WIDER = "Ceil Cast Add Cast Add Less Cast Sub"
WHOLES: dict[int | None, tuple[int, float]] = {
    T.FLOAT: (T.DOUBLE, 3 * 2.0**51),
    T.FLOAT16: (T.FLOAT, 3 * 2.0**22),
}


def holds_no_fraction(found: Found) -> dict[str, Any] | None:
    """An empty dict if the wider type holds each number, and the sum no fraction, else None."""
    told = found.numbers
    return {} if WHOLES.get(found["X"].elem_type_or_none) == (told["wide"], told["whole"]) else None


@modern("Round", since=11, when=holds_no_fraction)
@example("through double", IN_DOUBLE, gives="Round", inputs=HALVES)
@example("through its own type", IN_FLOAT, gives=ROUNDS_IN_WIDER)
def round_in_wider_type(op: Formula, X: Term) -> Term:  # noqa: N803 (the name of the input)
    """Ceil(x), minus 1 where the sum with a large number rounds to less in a wider type."""
    above = op.Ceil(X)
    nearest, highest = (op.cast(one, "wide") + op.number("whole") for one in (X, above))
    return above - op.cast(op.Less(nearest, highest))

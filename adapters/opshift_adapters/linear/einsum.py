# SPDX-License-Identifier: Apache-2.0
"""Einsum, which becomes diagonals, products, sums and transpositions below opset 12."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from opshift.adapter import (
    Builder,
    InvalidModel,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    illegal,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import arange, count_elements, part
from opshift_adapters._lib.exact_integers import sum_last_axis
from opshift_adapters._lib.kinds import FLOATS, SMALL_INTS

ELLIPSIS = "..."
HIDDEN = "0123456789"  # these digits stand for the axes of an ellipsis


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor, and a letter for each of its axes."""

    value: Value
    letters: str


@adapter("Einsum", 12, 11, in_other_words=True)
def einsum_12_11(node: Node, op: Builder) -> Result:
    """Below opset 12, Einsum becomes a chain of products of two terms, and sums over letters."""
    values = [x for x in node.inputs if x is not None]
    names, wanted = _parsed(node.str("equation"), values)
    kind = values[0].elem_type
    if kind in SMALL_INTS:
        values = [op.Cast(x, to=T.INT64) for x in values]
    terms = [_distinct(op, Operand(x, n)) for x, n in zip(values, names, strict=True)]
    terms = [_without_ones(op, term, terms, wanted) for term in terms]
    result = terms[0]
    for i, term in enumerate(terms[1:], 1):
        needed = set(wanted).union(*(t.letters for t in terms[i + 1 :]))
        left, right = (
            _summed(op, one, needed | set(other.letters))
            for one, other in ((result, term), (term, result))
        )
        result = _product(op, left, right, needed)
    result = _ordered(op, _summed(op, result, set(wanted)), wanted)
    return op.Cast(result.value, to=kind) if kind in SMALL_INTS else result.value


def _parsed(equation: str, values: list[Value]) -> tuple[list[str], str]:
    """Returns the letters of each term and of the result, with digits in place of an ellipsis."""
    terms, arrow, wanted = equation.replace(" ", "").partition("->")
    names = terms.split(",")
    if len(names) != len(values):
        raise InvalidModel(f"equation {equation!r} has {len(names)} terms for {len(values)} inputs")
    hidden = ""
    for i, (name, x) in enumerate(zip(names, values, strict=True)):
        if ELLIPSIS in name:
            more = x.rank - len(name) + len(ELLIPSIS)
            if more > len(HIDDEN):
                raise Refusal(
                    Why.NOT_EXPRESSIBLE,
                    f"Einsum with an ellipsis of {more} axes is impossible below opset 12",
                )
            mine = HIDDEN[len(HIDDEN) - more :]
            hidden = max(hidden, mine, key=len)
            names[i] = name.replace(ELLIPSIS, mine)
    if not arrow:
        every = "".join(names)
        letters = sorted(x for x in set(every) if x not in HIDDEN and every.count(x) == 1)
        return names, hidden + "".join(letters)
    wanted = wanted.replace(ELLIPSIS, hidden)
    unknown = [letter for letter in wanted if letter not in "".join(names)]
    if unknown or len(set(wanted)) < len(wanted):
        fault = f"letter {unknown[0]!r} that no input has" if unknown else "letter twice"
        raise InvalidModel(f"equation {equation!r} has a result with a {fault}")
    return names, wanted


def _without_ones(op: Builder, term: Operand, terms: list[Operand], wanted: str) -> Operand:
    """Removes axes of size 1 that broadcast to a longer axis of another term and are summed."""
    sizes = [dict(zip(term.letters, term.value.dims_or_none or (), strict=False)) for term in terms]
    own = dict(zip(term.letters, term.value.dims_or_none or (), strict=False))
    longer = {x for one in sizes for x, size in one.items() if isinstance(size, int) and size != 1}
    axes = [i for i, x in enumerate(term.letters) if own.get(x) == 1 and x in longer - {*wanted}]
    if not axes:
        return term
    letters = "".join(x for i, x in enumerate(term.letters) if i not in axes)
    return Operand(op.Squeeze(term.value, axes=axes), letters)


def _distinct(op: Builder, term: Operand) -> Operand:
    """Replaces axes with the same letter in one term by their diagonal."""
    repeated = next((x for x in term.letters if term.letters.count(x) > 1), None)
    if repeated is None:
        return term
    first, second = [i for i, x in enumerate(term.letters) if x == repeated][:2]
    others = [i for i in range(len(term.letters)) if i not in (first, second)]
    last = op.Transpose(term.value, perm=[*others, first, second])
    places = _diagonal_places(op, term.value, first)
    diagonal = op.Gather(_merged(op, last, len(others)), places, axis=len(others))
    letters = "".join(term.letters[i] for i in others) + repeated
    return _distinct(op, Operand(diagonal, letters))


def _diagonal_places(op: Builder, x: Value, axis: int) -> Value:
    size = x.dims_or_none[axis] if x.dims_or_none else None
    if isinstance(size, int):
        return op.const([i * (size + 1) for i in range(size)])
    computed = op.Gather(op.Shape(x), op.const(axis), axis=0)
    return arange(op, computed) * (computed + op.const(1))


def _merged(op: Builder, x: Value, first: int) -> Value:
    """Merges all axes of `x` from `first` on into one axis."""
    known = x.shape_or_none
    if known is not None:
        return op.Reshape(x, op.const([*known[:first], prod(known[first:])]), allowzero=1)
    shape = op.Shape(x)
    merged = count_elements(op, part(op, shape, first))
    flat = op.Reshape(x, op.Concat(part(op, shape, 0, first), merged, axis=0), allowzero=1)
    return op.Reshape(flat, op.const([0] * (first + 1)))  # declares the rank


def _summed(op: Builder, term: Operand, needed: set[str]) -> Operand:
    """Sums the term over all letters that are not in `needed`."""
    axes = [i for i, x in enumerate(term.letters) if x not in needed]
    if not axes:
        return term
    letters = "".join(x for x in term.letters if x in needed)
    if term.value.elem_type not in FLOATS:
        gone = "".join(x for x in term.letters if x not in needed)
        return Operand(
            sum_last_axis(op, _merged_end(op, _ordered(op, term, letters + gone), gone)), letters
        )
    return Operand(op.ReduceSum(term.value, axes=axes, keepdims=0), letters)


def _ordered(op: Builder, term: Operand, letters: str) -> Operand:
    if letters == term.letters:
        return term
    perm = [term.letters.index(x) for x in letters]
    return Operand(op.Transpose(term.value, perm=perm), letters)


def _spread(op: Builder, term: Operand, letters: str, core: int = 0) -> Operand:
    """Orders the axes of the term by `letters`, with size 1 for each letter that the term lacks."""
    own = "".join(x for x in letters if x in term.letters)
    value = _ordered(op, term, own).value
    start = min([letters.index(x) for x in own] + [len(letters) - core])  # omits leading ones
    ones = [i for i, x in enumerate(letters[start:]) if x not in term.letters]
    return Operand(op.Unsqueeze(value, axes=ones) if ones else value, letters[start:])


def _product(op: Builder, a: Operand, b: Operand, needed: set[str]) -> Operand:
    """Multiplies two terms, and sums over each common letter that is not in `needed`."""
    both = "".join(x for x in a.letters if x in b.letters and x in needed)
    gone = "".join(x for x in a.letters if x in b.letters and x not in needed)
    left = "".join(x for x in a.letters if x not in b.letters)
    right = "".join(x for x in b.letters if x not in a.letters)
    if not gone:
        letters = both + left + right
        return Operand(_spread(op, a, letters).value * _spread(op, b, letters).value, letters)
    outer, row, column = both + left[:-1] + right[:-1], left[-1:], right[-1:]
    first = _merged_end(op, _spread(op, a, outer + (row or " ") + gone, len(gone) + 1), gone)
    if len(gone) == 1:
        second = _spread(op, b, outer + gone + (column or " "), 2).value
    else:
        turned = _spread(op, b, outer + (column or " ") + gone, len(gone) + 1)
        rank = len(turned.letters) - len(gone) + 1
        perm = [*range(rank - 2), rank - 1, rank - 2]
        second = op.Transpose(_merged_end(op, turned, gone), perm=perm)
    result = op.MatMul(first, second)
    missing = [len(outer) + i for i, x in enumerate((row, column)) if not x]
    return Operand(op.Squeeze(result, axes=missing) if missing else result, outer + row + column)


def _merged_end(op: Builder, term: Operand, letters: str) -> Value:
    if len(letters) == 1:
        return term.value
    return _merged(op, term.value, len(term.letters) - len(letters))


EINSUM_28 = boundary(28, "Einsum:bf3219", cast=cast_around("float"))


@illegal("Einsum")
def stray_signs(given: Mapping[str, Any], inputs: int, outputs: int) -> str | None:
    """A term of Einsum may have only letters and one ellipsis, or onnx's inference hangs."""
    equation = given.get("equation", b"")
    text = equation.decode(errors="replace") if isinstance(equation, bytes) else ""
    terms = text.replace(" ", "").replace("->", ",").split(",")
    stray = "".join(term.replace(ELLIPSIS, "", 1) for term in terms)
    if "." in stray:
        return f"equation {text!r} has dots that are not an ellipsis"
    if other := [sign for sign in stray if not (sign.isascii() and sign.isalpha())]:
        return f"equation {text!r} has the sign {other[0]!r}, but terms may have only letters"
    return None

# SPDX-License-Identifier: Apache-2.0
"""Declares rules that onnx does not check; each function declares a rule for several operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from string import ascii_letters, digits
from typing import Any

from opshift.author.example import listed
from opshift.author.node import Node, Value
from opshift.author.traits import Flaw, Illegal, flaw
from opshift.lazy import numpy as np
from opshift.opsets.types import LARGEST_RANK as LARGEST_RANK


def ranks(ops: str, *, domain: str = "", **allowed: str) -> Flaw:
    """Declares the allowed ranks of inputs, as in `X="3 4"`, or `X="2+"` for rank 2 and above."""

    @flaw(ops, domain=domain)
    def find_objection(node: Node) -> str | None:
        for name, value in _given(node, allowed):
            rank, declared = value.rank_or_none, allowed[name]
            if rank is not None and not _allows(declared, rank):
                shown = declared.replace(" ", " or ").replace("+", " or more")
                return f"{name} {value.name!r} has {rank} dimensions, but must have {shown}"
        return None

    return find_objection


def _allows(ranks: str, rank: int) -> bool:
    """Returns whether a declaration of ranks, such as "3 4" or "2+", allows this rank."""
    least = int(ranks[:-1]) if ranks.endswith("+") else None
    return str(rank) in ranks.split() if least is None else rank >= least


def _given(node: Node, names: Iterable[str]) -> Iterator[tuple[str, Value]]:
    """Yields each of the named inputs that the node has, with its name."""
    positions = node.schema.input_positions if node.schema else {}
    for name in names:
        if name in positions and (value := node.input(name)):
            yield name, value


def singles(ops: str, inputs: str, *, domain: str = "") -> Flaw:
    """Declares inputs that must hold exactly one number."""

    @flaw(ops, domain=domain)
    def find_objection(node: Node) -> str | None:
        for name, value in _given(node, inputs.split()):
            dims = value.dims_or_none
            if dims is not None and any(d != 1 and isinstance(d, int) for d in dims):
                return f"{name} {value.name!r} has the shape {list(dims)}, but must hold one number"
        return None

    return find_objection


def sizes(
    ops: str, *, domain: str = "", unless: Callable[[Node], bool] | None = None, **shapes: str
) -> Flaw:
    """Declares the shapes of inputs as text, such as `X="S B I", W="D 4H I"`.

    Equal letters stand for equal sizes, and `4H` for four times the size `H`. The text `...` stands
    for any other axes, before or after the written axes. The rank of an input is not checked.
    """

    @flaw(ops, domain=domain)
    def find_objection(node: Node) -> str | None:
        size_of_letter = {"": (1, "")}
        for name, value in () if unless is not None and unless(node) else _given(node, shapes):
            terms, dims = shapes[name].split(), value.dims_or_none
            if dims is None or ("..." not in terms and len(dims) != len(terms)):
                continue
            first = len(dims) - len(terms) + 1 if terms[0] == "..." else 0
            written = enumerate((term for term in terms if term != "..."), max(first, 0))
            for axis, term in written if first >= 0 else ():
                size = dims[axis] if axis < len(dims) else None
                if not isinstance(size, int):
                    continue
                factor, letter = int(term.rstrip(ascii_letters) or 1), term.lstrip(digits)
                because = f" because of axis {axis} of {name}"
                each, why = size_of_letter.setdefault(letter, (size // factor, because))
                if size != each * factor:
                    place = f"axis {axis} of {name} {value.name!r}"
                    return f"{place} has the size {size}, but must have {each * factor}{why}"
        return None

    return find_objection


def alike(ops: str, inputs: str, *, ranks_only: bool = False) -> Flaw:
    """Declares inputs that must have equal shapes, or only equal ranks."""

    @flaw(ops)
    def find_objection(node: Node) -> str | None:
        shapes = [
            (name, dims)
            for name, value in _given(node, inputs.split())
            if (dims := value.dims_or_none) is not None
        ]
        for (name, first), (other, second) in pairwise(shapes):
            if len(first) != len(second):
                return f"{name} has {len(first)} dimensions, but {other} has {len(second)}"
            pairs = () if ranks_only else zip(first, second, strict=True)
            if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
                return f"{name} has the shape {list(first)}, but {other} has {list(second)}"
        return None

    return find_objection


def per_axis(ops: str, inputs: str, *, each: int = 1) -> Flaw:
    """Declares inputs that must hold `each` numbers per axis in `axes`; None means all axes."""

    @flaw(ops)
    def find_objection(node: Node) -> str | None:
        count = _axis_count(node)
        for name, value in _given(node, inputs.split()):
            dims = value.dims_or_none
            length = dims[0] if dims is not None and len(dims) == 1 else None
            if isinstance(length, int) and isinstance(count, int) and length != each * count:
                return (
                    f"{name} holds {length} numbers for {count} axes, but must hold {each * count}"
                )
        return None

    return find_objection


def _axis_count(node: Node) -> int | str | None:
    """Returns the number of axes that `axes` names, or else the rank of the first input."""
    for _, value in _given(node, ("axes",)):
        dims = value.dims_or_none
        return dims[0] if dims else None
    data, named = node.input_at(0), _attribute(node, "axes")
    return len(named) if named is not None else data and data.rank_or_none


def positive(ops: str, inputs: str, *, domain: str = "") -> Flaw:
    """Declares inputs whose constant values must be above 0 and finite."""

    @flaw(ops, domain=domain)
    def find_objection(node: Node) -> str | None:
        for name, value in _given(node, inputs.split()):
            constant = value.const_or_none()
            if constant is not None and not np.all((constant > 0) & (constant < np.inf)):
                numbers = constant.reshape(-1).tolist()
                return f"{name} holds {numbers}, but must hold only numbers above 0"
        return None

    return find_objection


def choices(ops: str, *, domain: str = "", **allowed: str) -> Illegal:
    """Declares the allowed values of attributes as text, such as `mode="add mul"`.

    A model with another value is not converted, because runtimes disagree on its meaning.
    """
    legal = {name: listed(text) for name, text in allowed.items()}

    def object_to(attributes: Mapping[str, Any], inputs: int, outputs: int) -> str | None:
        for name, value in attributes.items():
            shown = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
            if shown not in legal[name]:
                return f"{name} is {shown!r}, but must be one of {', '.join(legal[name])}"
        return None

    return Illegal(
        ops=listed(ops), domain=domain, objection=object_to, reads=frozenset(legal), choices=legal
    )


def switches(ops: str, names: str, *, domain: str = "") -> Illegal:
    """Declares attributes that must be 0 or 1."""
    return choices(ops, domain=domain, **dict.fromkeys(names.split(), "0 1"))


def within(ops: str, low: int, high: int, names: str, *, domain: str = "") -> Illegal:
    """Declares limits of attributes; onnx's inference crashes on values outside the limits."""
    attribute_names = frozenset(names.split())

    def object_to(attributes: Mapping[str, Any], inputs: int, outputs: int) -> str | None:
        for name, value in attributes.items():
            if isinstance(value, int) and not low <= value <= high:
                return f"{name} is {value}, but must lie between {low} and {high}"
        return None

    return Illegal(ops=listed(ops), domain=domain, objection=object_to, reads=attribute_names)


def at_least(ops: str, *, domain: str = "", **least: int) -> Flaw:
    """Declares the smallest allowed value of integer attributes."""

    @flaw(ops, domain=domain)
    def find_objection(node: Node) -> str | None:
        for name, bound in least.items():
            value = node.attr(name) if name in node.attributes else None
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, int) and number < bound:
                    return f"{name} holds {number}, but must be at least {bound}"
        return None

    return find_objection


def axes(ops: str, names: str = "axis", *, extra: int = 0, data: int = 0, domain: str = "") -> Flaw:
    """Declares attributes or constant inputs that must name dimensions of the input at `data`."""

    @flaw(ops, domain=domain)
    def find_objection(node: Node) -> str | None:
        tensor = node.input_at(data)
        rank = tensor and tensor.rank_or_none
        most = (LARGEST_RANK if rank is None else rank) + extra
        computed = dict(_given(node, names.split()))
        for name in names.split():
            constant = computed[name].const_or_none() if name in computed else None
            value = _attribute(node, name) if constant is None else constant.reshape(-1).tolist()
            for axis in value if isinstance(value, list) else [value]:
                if isinstance(axis, int | float) and not -most <= axis < most:
                    has = "cannot have so many" if rank is None else f"has {rank}"
                    return f"{name} is {axis}, but the input {has} dimensions"
            if isinstance(value, list) and rank is not None:
                counts = Counter(axis % rank for axis in value)
                if twice := [axis for axis, count in counts.items() if count > 1]:
                    return f"{name} names dimension {twice[0]} twice"
        return None

    return find_objection


def _attribute(node: Node, name: str) -> Any:
    """Returns an attribute's value; None if the operator has no such attribute at this version."""
    has = node.schema is not None and name in node.schema.attributes
    return node.attr(name) if has else None

# SPDX-License-Identifier: Apache-2.0
"""Searches a model for nodes that compute a formula, and binds the formula's inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from opshift.author.attributes import is_default
from opshift.author.env import ModelEnv
from opshift.author.formula import (
    Applied,
    Axes,
    Converted,
    Either,
    Free,
    Group,
    Handed,
    Number,
    Product,
    Term,
)
from opshift.author.modern_rules import Binding
from opshift.author.node import Node, Value
from opshift.author.traits import Arithmetic, Commutes, DeclaredRules
from opshift.errors import Refusal
from opshift.lazy import numpy as np
from opshift.model.arrays import Array

NUMERIC = "fiuV"  # the kinds of numpy arrays that hold numbers; V is for narrow floats


def arithmetic_of(adapters: DeclaredRules) -> dict[str, Arithmetic]:
    """Returns the operators of sums and of products."""
    return {arithmetic.kind: arithmetic for arithmetic in adapters.each(Arithmetic)}


class FormulaSearch:
    """The search from one node, which tries every way to match nodes with the formula."""

    def __init__(self, env: ModelEnv, adapters: DeclaredRules) -> None:
        self.env = env
        self.scope = env.scope
        self.arithmetic = arithmetic_of(adapters)
        self.commutes = adapters.traits(Commutes)

    def find(
        self, pattern: Term, name: str, values: Mapping[str, str] | None = None
    ) -> Iterator[Binding]:
        """Yields every match of a formula with a value's nodes; `values` has the known inputs."""
        try:
            yield from self._match(pattern, name, Binding(dict(values or {}), {}, frozenset()))
        except Refusal:  # an attribute has its value only at the call of a function
            return

    def _match(self, pattern: Term, name: str, binding: Binding) -> Iterator[Binding]:
        match pattern:
            case Free():
                yield from binding.with_value(pattern.name, self._source(name))
            case Number():
                yield from self._group(Product, (pattern,), (), name, binding)
            case Group():
                yield from self._group(type(pattern), pattern.plus, pattern.minus, name, binding)
            case Applied():
                yield from self._made(pattern, name, binding)
            case Converted():
                yield from self._converted(pattern, name, binding)
            case Either():
                for way in pattern.ways:
                    yield from self._match(way, name, binding)

    def _source(self, name: str) -> str:
        """Returns the value before a chain of Identity nodes."""
        while (producer := self._producer(name)) is not None and producer[1].op == "Identity":
            name = producer[1].proto.input[0]
        return name

    def _producer(self, name: str) -> tuple[int, Node] | None:
        """Returns the node of this graph that computes a value as its only output."""
        position = self.scope.producers.get(name)
        node = self.env.producer(name) if position is not None else None
        if position is None or node is None or node.proto.domain not in ("", "ai.onnx"):
            return None
        return (position, node) if node.n_outputs == 1 and node.schema is not None else None

    def _node(self, name: str, binding: Binding) -> Iterator[tuple[Node, Binding]]:
        """Yields the node that computes a value, skipping Identity nodes, and marks it matched."""
        producer = self._producer(name)
        nodes = binding.nodes
        while producer is not None and producer[1].op == "Identity":
            nodes |= {producer[0]}
            producer = self._producer(producer[1].proto.input[0])
        if producer is not None:
            yield producer[1], replace(binding, nodes=nodes | {producer[0]})

    # -- sums and products -------------------------------------------------------------------

    def _group(
        self,
        kind: type[Group],
        plus: tuple[Term, ...],
        minus: tuple[Term, ...],
        name: str,
        binding: Binding,
    ) -> Iterator[Binding]:
        """Matches a sum or a product, in any order and grouping of the operands."""
        if all(isinstance(operand, Number) for operand in (*plus, *minus)):
            yield from self._constant(kind, plus, minus, name, binding)
        if len(plus) == 1 and not minus and not isinstance(plus[0], (Number, kind)):
            yield from self._match(plus[0], name, binding)
        for node, more in self._node(name, binding) if plus or minus else ():
            known_as = self.arithmetic[kind.kind]
            if node.op == known_as.turn:
                yield from self._group(kind, minus, plus, node.proto.input[0], more)
            elif node.op in (known_as.join, known_as.part) and len(node.proto.input) == 2:
                yield from self._split(kind, plus, minus, node, more)
            elif node.op == known_as.power and not minus:
                yield from self._power(plus, node, more)

    def _split(
        self,
        kind: type[Group],
        plus: tuple[Term, ...],
        minus: tuple[Term, ...],
        node: Node,
        binding: Binding,
    ) -> Iterator[Binding]:
        """Tries every way to divide the operands between the two inputs of a node."""
        part = self.arithmetic[kind.kind].part
        left, right = node.proto.input
        for mine, other in _shares(plus):
            for less, off in _shares(minus):
                taken = (off, other) if node.op == part else (other, off)
                if not any(taken) or (not mine and not less and node.op != part):
                    continue
                for more in self._group(kind, mine, less, left, binding):
                    yield from self._group(kind, *taken, right, more)

    def _power(self, plus: tuple[Term, ...], node: Node, binding: Binding) -> Iterator[Binding]:
        """Matches a product of equal factors with a Pow node."""
        exponent = self._scalar(node.proto.input[1])
        times = len(plus)
        if exponent is None or times < 2 or exponent.item() != times:
            return
        if all(factor is plus[0] for factor in plus):
            yield from self._match(plus[0], node.proto.input[0], binding)

    # -- constants ---------------------------------------------------------------------------

    def _scalar(self, name: str) -> Array | None:
        """Returns a constant with one element."""
        shape = Value(name, self.env).shape_or_none
        if shape is not None and math.prod(shape) != 1:
            return None
        constant = self.env.constant(name)
        if constant is None or constant.size != 1 or constant.dtype.kind not in NUMERIC:
            return None
        return constant

    def _constant(
        self,
        kind: type[Group],
        plus: Sequence[Term],
        minus: Sequence[Term],
        name: str,
        binding: Binding,
    ) -> Iterator[Binding]:
        """Compares a constant with a sum or product of numbers and at most one attribute."""
        found = self._scalar(name)
        if found is None:
            return
        binding = replace(binding, shaped=binding.shaped or found.ndim > 0)
        neutral = float(self.arithmetic[kind.kind].neutral)
        total, inverse = neutral, False
        unknown: list[Number] = []
        for number, sign in [*((p, 1) for p in plus), *((m, -1) for m in minus)]:
            assert isinstance(number, Number)
            value: Any = number.value
            if isinstance(value, str):
                value = binding.numbers.get(value)
            if value is None:
                unknown.append(number)
                inverse = sign < 0
            else:
                total = _combined(kind, total, float(value), sign)
        if not unknown:
            if is_same_number(found, total):
                yield binding
        elif len(unknown) == 1:
            constant = float(found.item())
            if kind is Product and (total == 0 or (inverse and constant == 0)):
                return
            remainder = _combined(kind, constant, total, -1)
            value = _combined(kind, neutral, remainder, -1 if inverse else 1)
            yield from binding.with_number(str(unknown[0].value), value)

    # -- nodes -------------------------------------------------------------------------------

    def _made(self, pattern: Applied, name: str, binding: Binding) -> Iterator[Binding]:
        """Matches a node of one operator with equal attributes, and then its inputs."""
        for node, more in self._node(name, binding):
            if node.op != pattern.op:
                continue
            inputs = list(node.proto.input)
            count = len(pattern.operands)
            if len(inputs) < count or not self._is_plain(node, pattern, inputs[count:]):
                continue
            for bound in self._attributes(node, pattern, more):
                orders = [inputs[:count]]
                if ("", node.op) in self.commutes and count == 2:
                    orders.append(orders[0][::-1])
                for order in orders:
                    yield from self._operands(pattern.operands, order, bound)

    def _operands(
        self, patterns: Sequence[Term], names: Sequence[str], binding: Binding
    ) -> Iterator[Binding]:
        if not patterns:
            yield binding
            return
        for more in self._match(patterns[0], names[0], binding) if names[0] else ():
            yield from self._operands(patterns[1:], names[1:], more)

    def _is_plain(self, node: Node, pattern: Applied, named_attributes: Iterable[str]) -> bool:
        """Returns whether each attribute that the formula does not name has its default value."""
        named = pattern.attributes
        for proto in node.proto.attribute:
            if proto.name not in named and not is_default(node.schema, proto):
                return False
        assert node.schema is not None
        allowed = {node.schema.input_positions[attribute] for attribute in named
                   if attribute in node.schema.input_positions}  # fmt: skip
        count = len(pattern.operands)
        return all(not name or count + i in allowed for i, name in enumerate(named_attributes))

    def _attributes(self, node: Node, pattern: Applied, binding: Binding) -> Iterator[Binding]:
        """Matches the attributes that a formula names; some opsets have them as inputs."""
        bindings = [binding]
        for name, expected in pattern.attributes.items():
            value = self._given(node, name)
            rank = self._rank(node, name)
            if isinstance(expected, Axes):
                bindings = [
                    more for bound in bindings for more in _along(expected, value, rank, bound)
                ]
            elif isinstance(expected, Handed):
                bindings = [
                    more for bound in bindings for more in bound.with_number(expected.name, value)
                ]
            elif not _is_equal(name, value, expected, rank):
                return
        yield from bindings

    def _rank(self, node: Node, name: str) -> int | None:
        """Returns the rank from which negative axes are counted; `axes` may refer to the output."""
        sides = [node.proto.input[0], *(node.proto.output[:1] if name == "axes" else ())]
        ranks = [Value(side, self.env).rank_or_none for side in sides]
        return max((rank for rank in ranks if rank is not None), default=None)

    def _given(self, node: Node, name: str) -> Any:
        """Returns the value of an attribute, or of the constant input of that name."""
        assert node.schema is not None
        if name in node.schema.attributes:
            return node.attr(name)
        value = node.input(name)
        constant = None if value is None else self.env.constant(value.name)
        return None if constant is None else constant.tolist()

    def _converted(self, pattern: Converted, name: str, binding: Binding) -> Iterator[Binding]:
        """Matches the value before a Cast, or the value itself."""
        for node, more in self._node(name, binding):
            if node.op == "Cast":
                for bound in self._of_kind(pattern.kind, node.int("to"), more):
                    yield from self._match(pattern.operand, node.proto.input[0], bound)
        kind = Value(name, self.env).elem_type_or_none
        if pattern.kind is None or kind is not None:
            for bound in self._of_kind(pattern.kind, kind or 0, binding):
                yield from self._match(pattern.operand, name, bound)

    def _of_kind(
        self, expected: str | int | None, kind: int, binding: Binding
    ) -> Iterator[Binding]:
        if isinstance(expected, str):
            return binding.with_number(expected, kind)
        return iter((binding,) if expected in (None, kind) else ())


def is_same_number(constant: Array, expected: float) -> bool:
    """Returns whether a constant equals a number, rounded to its type or first to float."""
    if constant.dtype.kind in "iu":
        return bool(constant.item() == expected)
    number = float(constant.item())
    return any(
        number == float(np.asarray(form, constant.dtype).item())
        for form in (expected, np.float32(expected))
    )


def _combined(kind: type[Group], a: float, b: float, sign: Literal[1, -1] | int) -> float:
    if kind is Product:
        return a * b if sign > 0 else a / b
    return a + b if sign > 0 else a - b


def _shares(operands: tuple[Term, ...]) -> Iterator[tuple[tuple[Term, ...], tuple[Term, ...]]]:
    """Yields every way to divide operands into two groups."""
    for picks in itertools.product((True, False), repeat=len(operands)):
        yield (
            tuple(operand for operand, mine in zip(operands, picks, strict=True) if mine),
            tuple(operand for operand, mine in zip(operands, picks, strict=True) if not mine),
        )


def _along(pattern: Axes, value: Any, rank: int | None, binding: Binding) -> Iterator[Binding]:
    """Matches the axes of a reduction, counted from the end."""
    axes = value if isinstance(value, list) else None if value is None else [value]
    if not axes or (rank is None and max(axes) >= 0):
        return
    back = sorted(_from_end(axes, rank))
    if (pattern.last and back == list(range(-len(back), 0))) or (
        not pattern.last and len(back) == 1
    ):
        yield from binding.with_number(pattern.name, back[0])


def _from_end(axes: Iterable[int], rank: int | None) -> list[int]:
    """Returns axes counted from the end, unless the rank is unknown."""
    return [axis if axis < 0 else axis - (rank or 0) for axis in axes]


def _is_equal(name: str, value: Any, expected: Any, rank: int | None) -> bool:
    """Returns whether an attribute has the value in the formula."""
    if isinstance(expected, float) and value is not None:
        return bool(np.float32(value) == np.float32(expected))
    if name in ("axis", "axes") and value is not None and expected is not None and rank:
        axes, expected_list = (x if isinstance(x, list) else [x] for x in (value, expected))
        return _from_end(axes, rank) == _from_end(expected_list, rank)
    return bool((value.decode() if isinstance(value, bytes) else value) == expected)

# SPDX-License-Identifier: Apache-2.0
"""Derives the formula of an operator from the nodes that replace it at the opset below."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from opshift.assumptions import Assumption
from opshift.author.attributes import is_default
from opshift.author.builder import Builder
from opshift.author.env import ModelEnv
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.formula import (
    Applied,
    Axes,
    Converted,
    Free,
    Group,
    Handed,
    Number,
    Product,
    Sum,
    Term,
    parts,
)
from opshift.author.node import Node, Result, Value
from opshift.author.registry import Registry
from opshift.author.traits import Illegal
from opshift.author.unify import NUMERIC, arithmetic_of, is_same_number
from opshift.author.verdicts import Adapter, Mirror
from opshift.convert.replay.comparable import Untraceable
from opshift.convert.step import cross
from opshift.errors import Refusal
from opshift.lazy import numpy as np
from opshift.model.arrays import Array, dtype_of
from opshift.model.document import Document
from opshift.model.scope import Root
from opshift.model.weights.payloads import Weights
from opshift.opsets import schemas
from opshift.opsets.elements import T
from opshift.protos import AttributeProto, ModelProto, NodeProto, TensorProto, helper
from opshift.records import dataclass

# the pattern for float also covers most other types
KINDS = (T.FLOAT, T.FLOAT16, T.DOUBLE, T.BFLOAT16)
SHAPE = (2, 3, 4)
AXIS = -2  # two last axes, so that the list differs from one last axis
# no adapter writes these numbers, and every float type represents them exactly
FLOATS = (0.40625, 0.71875, 1.1875)


class Below:
    """The step of a Builder that writes nodes one opset below the opset of their operator."""

    enters = ""
    allow_approximate = False
    assume: Collection[Assumption] = ()
    lowest = 1

    def __init__(self, adapters: Registry, to: int) -> None:
        self.adapters = adapters
        self.to = to
        self._names = itertools.count()

    def fresh(self, hint: str) -> str:
        return f"⟦{next(self._names)}⟧"

    def version(self, root: Root, domain: str) -> int:
        if domain:
            raise Untraceable
        return self.to

    def constant(
        self, root: Root, content: Hashable, tensor: Callable[[], TensorProto]
    ) -> TensorProto:
        placed = TensorProto()
        placed.CopyFrom(tensor())
        placed.name = self.fresh("const")
        return placed

    def cross(self, node: Node, start: int, to: int, op: Builder) -> Result:
        return cross(self.adapters, node, start, to, op)


def traced(
    mirror: Mirror,
    adapters: Registry,
    model: ModelEnv,
    inputs: Mapping[str, str | None],
    attributes: Mapping[str, Any],
    holes: Mapping[str, Any] | None = None,
) -> tuple[Term, int] | None:
    """Returns the formula that the adapter writes for a node, and its number of nodes, or None.

    `inputs` maps parameters to value names. `holes` are the attributes that may have any value in
    the formula; without `holes`, all attributes have fixed values. The result is None if the
    adapter refuses the node, or if the pattern cannot describe its nodes.
    """
    op = Builder(Below(adapters, mirror.to), model)
    arguments = [None if name is None else Value(name, op.env) for name in inputs.values()]
    try:
        value = op.emit(mirror.op, *arguments, since=mirror.since, **attributes)
        if not mirror.down.at_boundary:
            value = _in_other_words(mirror, op.made.nodes.pop(), op)
        names = {name: param for param, name in inputs.items() if name is not None}
        return _Reader(op, adapters, names, holes).term(value.name), len(op.made.nodes)
    except (Refusal, Untraceable):
        return None


def _in_other_words(mirror: Mirror, proto: NodeProto, op: Builder) -> Value:
    """Returns the value that an adapter writes for a node at the opset of the node."""
    schema = schemas.schema(mirror.domain, mirror.op, mirror.since)
    written = mirror.down(Node(proto, schema, op.env), op)
    if not isinstance(written, Value):
        raise Untraceable
    return written


@dataclass(slots=True)
class _Reader:
    """Reads the nodes that an adapter wrote as a formula."""

    op: Builder
    adapters: Registry
    params: Mapping[str, str]  # value name -> parameter
    holes: Mapping[str, Any] | None
    terms: dict[str, Term] = field(default_factory=dict)  # a value that is read twice is one term

    def term(self, name: str) -> Term:
        if name not in self.terms:
            self.terms[name] = self._term(name)
        return self.terms[name]

    def _term(self, name: str) -> Term:
        if name in self.params:
            return Free(self.params[name])
        if (constant := self.op.env.constant(name)) is not None:
            return self._number(constant)
        node = self.op.made.makers[name]
        if node.domain or len(node.output) != 1:
            raise Untraceable
        if (term := self._arithmetic(node)) is not None:
            return term
        if node.op_type == "Identity":
            return self.term(node.input[0])
        return self._cast(node) if node.op_type == "Cast" else self._applied(node)

    def _number(self, constant: Array) -> Number:
        """Returns the term for a constant with one element."""
        if constant.size != 1 or constant.dtype.kind not in NUMERIC:
            raise Untraceable
        number = float(constant.item())
        for name, value in (self.holes or {}).items():
            if number == value and value in FLOATS:
                return Number(name)
        return Number(number)

    def _arithmetic(self, node: NodeProto) -> Term | None:
        """Returns the term for a sum, a product, or a power with a whole exponent, or None."""
        arithmetics = arithmetic_of(self.adapters)
        for kind in (Sum, Product):
            arithmetic = arithmetics[kind.kind]
            if node.op_type == arithmetic.turn:
                return kind((), (self.term(node.input[0]),))
            if node.op_type in (arithmetic.join, arithmetic.part):
                first, second = map(self.term, node.input)
                if kind is Sum:
                    return first + second if node.op_type == arithmetic.join else first - second
                return first * second if node.op_type == arithmetic.join else first / second
            if node.op_type == arithmetic.power:
                exponent = self.op.env.constant(node.input[1])
                if exponent is not None and exponent.size == 1 and exponent.item() in (2, 3, 4):
                    return kind((self.term(node.input[0]),) * int(exponent.item()))
        return None

    def _cast(self, node: NodeProto) -> Term:
        """Returns the term for a Cast.

        In a pattern, the target type may be the value of an attribute.
        """
        to: int = node.attribute[0].i
        if self.holes is None:
            return Converted(self.term(node.input[0]), to)
        names = [name for name, value in self.holes.items() if value == to]
        return Converted(self.term(node.input[0]), names[0] if names else None)

    def _applied(self, node: NodeProto) -> Term:
        schema = schemas.schema("", node.op_type, self.op.opset())
        assert schema is not None
        operands: list[Term] = []
        attributes: dict[str, Any] = {}
        for at, name in enumerate(node.input):
            param = schema.input_at(at)
            constant = None if name in self.params or not name else self.op.env.constant(name)
            if constant is not None and param and (constant.ndim or constant.dtype.kind in "iu"):
                attributes[param.name] = self._handed(constant.tolist())
            elif name and not attributes:
                operands.append(self.term(name))
            elif name:
                raise Untraceable
        for proto in node.attribute:
            if proto.type in (AttributeProto.GRAPH, AttributeProto.TENSOR):
                raise Untraceable
            if not is_default(schema, proto):
                attributes[proto.name] = self._handed(helper.get_attribute_value(proto))
        return Applied(node.op_type, tuple(operands), attributes)

    def _handed(self, value: Any) -> Any:
        """Returns a value, or a reference to the attribute of the operator that has this value."""
        for name, own_value in (self.holes or {}).items():
            if own_value not in (AXIS, *FLOATS):
                continue
            if value == [own_value] or (value == list(range(AXIS, 0)) and own_value == AXIS):
                return Axes(name, last=len(value) > 1)
            if value == own_value:
                return Handed(name)
        return value


# -- patterns -------------------------------------------------------------------------------------

_Derived: TypeAlias = dict[tuple[int, str], tuple[Adapter, tuple[Term, ...]]]
_DERIVED: weakref.WeakKeyDictionary[Registry, _Derived]
_DERIVED = weakref.WeakKeyDictionary()


def formulas(mirror: Mirror, adapters: Registry) -> tuple[Term, ...]:
    """Returns the formulas that the adapter writes for float types, without duplicates."""
    derived, key = _DERIVED.setdefault(adapters, {}), (id(mirror.down), mirror.op)
    if key not in derived:
        patterns = sorted(_patterns(mirror, adapters), key=lambda pattern: -_casts(pattern[0]))
        distinct: list[Term] = []
        for term, kind in patterns:
            if not any(_covers(pattern, term, kind) for pattern in distinct):
                distinct.append(term)
        # the entry keeps the adapter alive, so that its id stays unique
        derived[key] = mirror.down, tuple(distinct)
    return derived[key][1]


def _patterns(mirror: Mirror, adapters: Registry) -> Iterator[tuple[Term, int]]:
    schema = schemas.schema("", mirror.op, mirror.since)
    assert schema is not None
    least = sum(not param.optional for param in schema.inputs)
    numbers, legal = _numbers(schema), choices(mirror, adapters)
    for kind in KINDS:
        if f"tensor({T(kind).element.name})" not in schema.inputs[0].types:
            continue
        for count in range(least, len(schema.inputs) + 1):
            env, inputs = _specimen(schema.inputs[:count], kind, mirror.since, adapters)
            for chosen in legal:
                for open_numbers in (numbers, {}) if numbers else ({},):
                    holes = {**chosen, **open_numbers}
                    pattern = traced(mirror, adapters, env, inputs, holes, holes)
                    if pattern is not None and pattern[1] > 1:
                        yield pattern[0], kind


def _numbers(schema: schemas.Schema) -> dict[str, Any]:
    """Returns a distinct number for each attribute that has any value in the formula."""
    floats = iter(FLOATS)
    return {
        name: AXIS if attribute.kind == AttributeProto.INT else next(floats)
        for name, attribute in schema.attributes.items()
        if attribute.kind == AttributeProto.FLOAT
        or (attribute.kind == AttributeProto.INT and attribute.default == -1)
    }


def choices(mirror: Mirror, adapters: Registry) -> list[dict[str, Any]]:
    """Returns every combination of values of the attributes that have few legal values."""
    schema = schemas.schema("", mirror.op, mirror.since)
    assert schema is not None
    allowed: dict[str, Sequence[str]] = {}
    for rule in adapters.traits(Illegal).get(("", mirror.op), ()):
        allowed |= rule.choices
    legal_texts = {name: texts for name, texts in allowed.items() if name in schema.attributes}
    kinds = {name: schema.attributes[name].kind for name in legal_texts}
    values = [
        [int(text) if kinds[name] == AttributeProto.INT else text for text in texts]
        for name, texts in legal_texts.items()
    ]
    return [dict(zip(legal_texts, row, strict=True)) for row in itertools.product(*values)]


def _specimen(
    inputs: Sequence[schemas.Param], kind: int, since: int, adapters: Registry
) -> tuple[ScopeEnv, dict[str, str | None]]:
    """Returns a model with one input of a given type for each parameter."""
    model = ModelProto()
    model.opset_import.add(version=since)
    for info in inputs:
        value = model.graph.input.add(name=info.name)
        value.type.CopyFrom(helper.make_tensor_type_proto(kind, SHAPE))
    document = Document(model)
    facts = Facts(document, Weights(), adapters, lambda: model)
    return ScopeEnv(facts, document.main), {info.name: info.name for info in inputs}


def _covers(pattern: Term, term: Term, kind: int) -> bool:
    """Returns whether `pattern` matches all nodes that `term` matches, for element type `kind`."""
    while isinstance(pattern, Converted) and not isinstance(term, Converted):
        pattern = pattern.operand
    match pattern, term:
        case Number(value=one), Number(value=two) if isinstance(one, str) or isinstance(two, str):
            return isinstance(one, str)
        case Number(value=float() as one), Number(value=two):
            return is_same_number(np.asarray(two, dtype_of(kind)), one)
        case Free(name=one), Free(name=two):
            return one == two
        case Applied(op=one), Applied(op=two):
            own_attributes, covered_attributes = pattern.attributes, term.attributes
            fixed = {n: v for n, v in own_attributes.items() if not isinstance(v, Axes | Handed)}
            free = {
                n: v for n, v in covered_attributes.items() if n in fixed or n not in own_attributes
            }
            if one != two or fixed != free:
                return False
        case Group(plus=one), Group(plus=two) if len(one) != len(two):
            return False
    inner, term_parts = parts(pattern), parts(term)
    return (
        type(pattern) is type(term)
        and len(inner) == len(term_parts)
        and all(_covers(a, b, kind) for a, b in zip(inner, term_parts, strict=True))
    )


def _casts(term: Term) -> int:
    return isinstance(term, Converted) + sum(map(_casts, parts(term)))

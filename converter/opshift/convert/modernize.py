# SPDX-License-Identifier: Apache-2.0
"""Replaces nodes by newer operators that compute exactly the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from opshift.author import formula
from opshift.author.builder import Builder
from opshift.author.formula import Term
from opshift.author.modern_rules import Binding, Found, Modern
from opshift.author.node import KEEP, Env, Node, Result, Value
from opshift.author.registry import Registry
from opshift.author.unify import FormulaSearch, arithmetic_of
from opshift.author.verdicts import MODERN, Adapter, Mirror, Rewrite
from opshift.author.written import MadeEnv
from opshift.convert.change import NodeChange, Task
from opshift.convert.mirror import choices, formulas, traced
from opshift.convert.plan_table import Edge
from opshift.convert.step import Stepper
from opshift.lazy import numpy as np
from opshift.model.arrays import is_array
from opshift.model.document import Document
from opshift.model.scope import Key, Place, Root, Scope
from opshift.opsets import schemas
from opshift.protos import GraphProto
from opshift.records import dataclass
from opshift.report import REWRITE, Site


@dataclass(frozen=True, slots=True, eq=False)
class FormulaRule:
    """A formula that computes an operator, declared or derived from the operator's adapter."""

    declared: Modern | Mirror
    formula: Term
    inputs: tuple[str, ...]

    @property
    def op(self) -> str:
        return self.declared.op


def rules(adapters: Registry, version: int) -> list[FormulaRule]:
    """Returns the formulas of all operators that exist at an opset."""
    formula_rules = [
        FormulaRule(declared, declared.formula, declared.inputs)
        for declared in adapters.each(Modern)
        if declared.since <= version
    ]
    for mirror in adapters.each(Mirror):
        if mirror.since <= version and (schema := schemas.schema("", mirror.op, mirror.since)):
            inputs = tuple(param.name for param in schema.inputs)
            formula_rules += [
                FormulaRule(mirror, term, inputs) for term in formulas(mirror, adapters)
            ]
    return formula_rules


def in_order(adapters: Registry, version: int) -> list[FormulaRule]:
    """Returns the rules for an opset, sorted by dependency and then by decreasing size.

    If the formula of a rule contains an operator, the rules that write this operator come first.
    """
    waiting = rules(adapters, version)
    waiting.sort(key=lambda rule: (-formula.size(rule.formula), rule.declared.source))
    ordered: list[FormulaRule] = []
    while waiting:
        open_ops = {rule.op for rule in waiting}
        ready = [
            rule for rule in waiting if not (formula.operators(rule.formula) - {rule.op}) & open_ops
        ]
        ordered += ready or waiting  # rules that depend on each other have no order
        waiting = [rule for rule in waiting if rule not in ordered]
    return ordered


def edges(adapters: Registry, newest: int) -> dict[Key, Edge]:
    """Returns the operators that rules write; the key is the last operator of their formulas."""
    arithmetics, rules_by_key = arithmetic_of(adapters), dict[Key, list[FormulaRule]]()
    for rule in rules(adapters, newest):
        for op in formula.heads(rule.formula, arithmetics):
            rules_by_key.setdefault(("", op), []).append(rule)
    return {key: _edge(key[1], rules) for key, rules in rules_by_key.items()}


def _edge(op: str, rules: list[FormulaRule]) -> Edge:
    writes = tuple(sorted({op, *(rule.op for rule in rules)}))
    return Edge(*MODERN, REWRITE, any(rule.declared.differs for rule in rules), writes)


class Modernizer(Stepper):
    """Replaces every occurrence of one rule's formula by the operator of the rule."""

    rule: FormulaRule
    sites: list[Site]
    _nodes: frozenset[int]  # the nodes of the last formula found

    def of(self, rule: FormulaRule) -> Modernizer:
        """Returns this object, prepared for the search for one rule."""
        self.rule, self.sites, self.boundary = rule, [], MODERN
        self.records = None  # the search reads nodes without recorded questions
        self._taken: set[tuple[int, int]] = set()  # the nodes of all formulas found so far
        return self

    def _work(self, root: Root) -> Iterator[Task]:
        declared = self.rule.declared
        heads = sorted(formula.heads(self.rule.formula, arithmetic_of(self.adapters)))
        for op in heads:
            if ("", op) in root.index and self._places(root, ("", op)):
                adapter = Adapter(
                    (op,), *MODERN,
                    Rewrite(self._write, approximate=bool(declared.differs)),
                    named=frozenset({declared.op}), source=declared.source,
                )  # fmt: skip
                self.plan.edge(("", op), MODERN)  # the plan then contains the operator of the rule
                yield self._own_task(("", op), adapter)

    def _change(self, place: Place, task: Task) -> NodeChange | None:
        change = super()._change(place, task)
        if change is not None:
            scope, position = place
            self._taken |= {(id(scope), position) for position in self._nodes}
            value, count = scope.node(position).output[0], len(self._nodes)
            self.sites.append(Site(self.rule.op, value, count, self.rule.declared.source))
        return change

    def _write(self, position: Node, op: Builder) -> Result:
        """Returns the new operator's output for the formula's result; KEEP if nothing matches."""
        name, root = position.proto.output[0], op.scope
        for binding in FormulaSearch(op.env, self.adapters).find(self.rule.formula, name):
            matched = {(id(root), position) for position in binding.nodes}
            if matched & self._taken or not _stands_alone(self.document, root, name, binding):
                continue
            numbers = self._numbers(binding, op.env)
            # the adapter of a `Mirror` must confirm that the nodes match
            if numbers is not None and isinstance(self.rule.declared, Mirror):
                numbers = self._confirmed(self.rule.declared, binding, numbers, name, op.env)
            result = None if numbers is None else self._written(binding, numbers, position, op)
            if result is not None:
                self._nodes = binding.nodes
                return result
        return KEEP

    def _confirmed(
        self, mirror: Mirror, found: Binding, numbers: Mapping[str, Any], name: str, env: MadeEnv
    ) -> dict[str, Any] | None:
        """Returns the attributes for which the adapter writes exactly the nodes found, or None."""
        search = FormulaSearch(env, self.adapters)
        inputs = {key: found.values.get(key) for key in self.rule.inputs if key in found.values}
        for chosen in choices(mirror, self.adapters):
            attributes = {**chosen, **numbers}
            written = traced(mirror, self.adapters, env, inputs, attributes)
            again = search.find(written[0], name, found.values) if written else ()
            if any(key.nodes == found.nodes for key in again):
                return attributes
        return None

    def _numbers(self, found: Binding, env: Env) -> dict[str, Any] | None:
        """Returns the attributes and constants of the new node; None if results would differ."""
        numbers: Mapping[str, Any] | None = found.numbers
        if self.rule.declared.when is not None:
            numbers = self.rule.declared.when(Found(found, env))
        if numbers is None:
            return None
        numbers = {**numbers, **self.rule.declared.attributes}
        floats = (value for value in numbers.values() if isinstance(value, float))
        if any(float(np.float32(value)) != value for value in floats):
            return None  # float32 attributes cannot hold the number exactly
        return numbers

    def _written(
        self, found: Binding, numbers: Mapping[str, Any], node: Node, op: Builder
    ) -> Value | None:
        """Returns the new value, or None if the types of the operator do not fit."""
        if self.rule.declared.differs:
            op.approximate(self.rule.declared.differs)
        inputs = [
            op.const(array)
            if is_array(array := numbers.get(name))
            else Value(found.values[name], op.env)
            for name in self.rule.inputs
            if name in found.values or name in numbers
        ]
        schema = schemas.schema(self.domain, self.rule.op, self.start)
        assert schema is not None
        if not _takes(schema, inputs):
            return None
        defaults = {attribute.name: attribute.default for attribute in schema.attributes.values()}
        attributes = {
            name: value
            for name, value in numbers.items()
            if name not in self.rule.inputs and defaults[name] != value
        }
        new_value: Value = op.emit(self.rule.op, *inputs, **attributes)
        if not _replaces(Value(node.proto.output[0], node.env), new_value, shaped=found.shaped):
            op.made.clear()
            return None
        node.carried()
        return new_value


def _takes(schema: schemas.Schema, inputs: Iterable[Value]) -> bool:
    """Returns whether an operator accepts the combination of the inputs' types."""
    variables: dict[str, str] = {}
    for i, value in enumerate(inputs):
        param, text = schema.input_at(i), value.type_text
        if param is None or text is None or text not in param.types:
            return False
        if variables.setdefault(param.variable, text) != text:
            return False
    return True


def _replaces(old: Value, new: Value, *, shaped: bool) -> bool:
    """Returns whether a new value has the element type and the rank of the old value.

    With `shaped`, both ranks must be known, because a constant in the formula may raise the rank.
    """
    if old.elem_type_or_none is None or old.elem_type_or_none != new.elem_type_or_none:
        return False
    ranks = old.rank_or_none, new.rank_or_none
    return ranks[0] == ranks[1] or (None in ranks and not shaped)


def _stands_alone(document: Document, scope: Scope, result: str, found: Binding) -> bool:
    """Returns whether only the matched nodes use the values between them, without annotations."""
    nodes = [scope.node(position) for position in found.nodes]
    inside = {name for node in nodes for name in node.output if name} - {result}
    reads = Counter(name for node in nodes for name in node.input if name in inside)
    if any(document.names.count((scope, name), scope.root) != reads[name] for name in inside):
        return False
    if any(getattr(node, "device_configurations", ()) for node in nodes):
        return False
    return not (inside & _annotated(scope))


def _annotated(scope: Scope) -> set[str]:
    notes = scope.proto.quantization_annotation if isinstance(scope.proto, GraphProto) else ()
    return {note.tensor_name for note in notes}

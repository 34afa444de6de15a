"""Rewrites for shapes of change that recur; each returns the function an adapter would be."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift import schemas
from opshift.builder import Builder
from opshift.declare import KEEP, Flaw, Result, Rewrite, flaw
from opshift.errors import Refusal, Why
from opshift.node import Node, Value

LARGEST_RANK = 64  # of what numpy and runtimes can hold


def cast_around(via: str) -> Rewrite:
    """Element types that the older version lacks take a detour through a type it has."""
    wide = schemas.element_number(via)

    def cast(node: Node, op: Builder) -> Result:
        assert node.schema is not None
        lost = _lost_variables(node, op)
        inputs: list[Value | None] = []
        native: dict[str, int] = {}
        for i, value in enumerate(node.inputs):
            param = node.schema.input_at(i)
            if value is None or param is None or param.variable not in lost:
                inputs.append(value)
                continue
            native.setdefault(param.variable, value.elem_type)
            inputs.append(op.Cast(value, to=wide))
        results = op.same_but(node, inputs)
        values = []
        for i, value in enumerate(results):
            param = node.schema.output_at(i)
            name = node.outputs[i] if i < len(node.outputs) else None
            if param is not None and param.variable in lost and name is not None:
                value = op.Cast(value, to=native.get(param.variable) or name.elem_type)
            values.append(value)
        return tuple(values)

    cast.__doc__ = f"An element type that the older version lacks goes through {via} and back."
    return cast


def _lost_variables(node: Node, op: Builder) -> set[str]:
    """The type variables of a node that are bound to a type which the older version lacks."""
    old = node.schema
    new = schemas.schema(old.domain, old.name, op.version) if old else None
    assert old is not None
    assert new is not None
    found = set()
    for values, before, after in (
        (node.inputs, old.input_at, new.input_at),
        (node.outputs, old.output_at, new.output_at),
    ):
        for i, value in enumerate(values):
            was, will = before(i), after(i)
            if value is None or was is None or will is None:
                continue
            kind = value.elem_type_or_none  # also where only one type is possible at all
            text = f"tensor({schemas.element_name(kind)})" if kind else None
            if text is None and value.type is not None:
                text = schemas.type_name(value.type)
            if text is not None and text not in will.types:
                found.add(was.variable)
    return found


def attribute_becomes_input(name: str, *, scalar: bool = False) -> tuple[Rewrite, Rewrite]:
    """(up, down) for an attribute of whole numbers that became an int64 input of that name."""

    def up(node: Node, op: Builder) -> Result:
        value = node.attr(name)
        if value is None:
            return KEEP
        removed: dict[str, Any] = {name: None}
        moved: Value = op.same(node, inputs={name: op.const(value)}, **removed)
        return moved

    def down(node: Node, op: Builder) -> Result:
        value = node.input(name)
        if value is None:
            return op.same(node)
        known = value.const()
        plain = known.reshape(-1)[0] if scalar else known.reshape(-1).tolist()
        return op.same(node, inputs={name: None}, **{name: plain})

    up.__doc__ = f"The attribute `{name}` became an input."
    down.__doc__ = f"`{name}` was an attribute, so its value must be known."
    return up, down


def enum_grew(name: str, known: str) -> Rewrite:
    """The values of an attribute that the older version knows, of a list that only grew."""

    def down(node: Node, op: Builder) -> Result:
        if node.str(name) in known.split():
            return op.same(node)
        raise Refusal(Why.NOT_EXPRESSIBLE, f"{name}={node.str(name)!r} does not exist there")

    down.__doc__ = f"`{name}` knew only {known.replace(' ', ', ')}."
    return down


def ranks(ops: str, *, domain: str = "", **allowed: str) -> tuple[Flaw, ...]:
    """How many dimensions inputs can have, as text (`X="3 4"`), where onnx does not check it."""

    @flaw(ops, domain=domain)
    def look(node: Node) -> str | None:
        for name, known in allowed.items():
            value = _input(node, name)
            rank = value.rank_or_none if value else None
            if value and rank is not None and str(rank) not in known.split():
                wanted = known.replace(" ", " or ")
                return f"{name} {value.name!r} has {rank} dimensions, and takes {wanted}"
        return None

    return look


def _input(node: Node, name: str) -> Value | None:
    """An input that not every version has."""
    return node.input(name) if node.schema and name in node.schema.input_positions else None


def singles(ops: str, inputs: str, *, domain: str = "") -> tuple[Flaw, ...]:
    """Inputs that hold one number, where onnx does not check it."""

    @flaw(ops, domain=domain)
    def look(node: Node) -> str | None:
        for name in inputs.split():
            value = _input(node, name)
            dims = value.dims_or_none if value else None
            if value and dims is not None and any(d != 1 and isinstance(d, int) for d in dims):
                return f"{name} {value.name!r} has the shape {list(dims)}, and takes one number"
        return None

    return look


def positive(ops: str, inputs: str, *, domain: str = "") -> tuple[Flaw, ...]:
    """Constants that hold nothing but numbers above 0, where onnx does not check it."""

    @flaw(ops, domain=domain)
    def look(node: Node) -> str | None:
        for name in inputs.split():
            value = _input(node, name)
            known = value.const_or_none() if value else None
            if known is not None and not np.all((known > 0) & (known < np.inf)):
                return f"{name} holds {known.reshape(-1).tolist()}, and takes numbers above 0"
        return None

    return look


def choices(ops: str, *, domain: str = "", **allowed: str) -> tuple[Flaw, ...]:
    """What attributes can be, as text (`mode="add mul"`), where onnx does not check it."""

    @flaw(ops, domain=domain)
    def look(node: Node) -> str | None:
        for name, known in allowed.items():
            if name in node.attributes and node.str(name) not in known.split():
                return f"{name} is {node.str(name)!r}, and can be {known.replace(' ', ', ')}"
        return None

    return look


def at_least(ops: str, *, domain: str = "", **least: int) -> tuple[Flaw, ...]:
    """The least that numbers in attributes can be, where onnx does not check it."""

    @flaw(ops, domain=domain)
    def look(node: Node) -> str | None:
        for name, bound in least.items():
            given = node.attr(name) if name in node.attributes else None
            for number in given if isinstance(given, list) else [given]:
                if isinstance(number, int) and number < bound:
                    return f"{name} holds {number}, and takes no less than {bound}"
        return None

    return look


def axes(ops: str, names: str = "axis", *, extra: int = 0, domain: str = "") -> tuple[Flaw, ...]:
    """Attributes or constants that name dimensions of the first input, unchecked by onnx."""

    @flaw(ops, domain=domain)
    def look(node: Node) -> str | None:
        data = node.inputs[0] if node.inputs else None
        rank = data.rank_or_none if data else None
        most = (LARGEST_RANK if rank is None else rank) + extra
        for name in names.split():
            value = None if name in node.attributes else _input(node, name)
            known = value.const_or_none() if value else None
            given = node.attr(name) if known is None else known.reshape(-1).tolist()
            for axis in given if isinstance(given, list) else [given]:
                if isinstance(axis, int | float) and not -most <= axis < most:
                    has = "cannot have so many" if rank is None else f"has {rank}"
                    return f"{name} is {axis}, and the input {has} dimensions"
        return None

    return look


def drop_attribute(name: str) -> Rewrite:
    """An attribute that never had a meaning for the result."""

    def rewrite(node: Node, op: Builder) -> Result:
        return op.same(node, **{name: None}) if node.has(name) else KEEP

    rewrite.__doc__ = f"`{name}` never had a meaning for the result."
    return rewrite


def positive_axis(name: str = "axis", *, of: int = 0, extra: int = 0) -> Rewrite:
    """A negative axis, or list of axes, counted from the front: it needs the rank of an input."""

    def down(node: Node, op: Builder) -> Result:
        value = node.attr(name)
        axes = [value] if isinstance(value, int) else list(value or [])
        if all(axis >= 0 for axis in axes):
            return KEEP
        data = node.inputs[of]
        assert data is not None
        rank = data.rank + extra
        positive = [axis + rank if axis < 0 else axis for axis in axes]
        changed: dict[str, Any] = {name: positive[0] if isinstance(value, int) else positive}
        counted: Value = op.same(node, **changed)
        return counted

    down.__doc__ = f"`{name}` could not count from the end."
    return down

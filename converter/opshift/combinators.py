# SPDX-License-Identifier: Apache-2.0
"""Provides rewrites for kinds of operator change that recur; each returns an adapter function."""

from __future__ import annotations

from typing import Any

from opshift.author.builder import Builder
from opshift.author.node import KEEP, Node, Result, Value
from opshift.author.verdicts import Run
from opshift.author.widening import in_wider_types
from opshift.codes.refusals import Why
from opshift.errors import Refusal
from opshift.opsets import schemas


def cast_around(via: str) -> Run:
    """Returns a rewrite that casts types unknown to the older version to `via`, and back."""
    wide = schemas.element_number(via)

    def cast(node: Node, op: Builder) -> Result:
        return in_wider_types(node, op, dict.fromkeys(_lost_variables(node, op), wide))

    cast.__doc__ = (
        f"Casts an element type that the older version lacks to {via}, and casts the results back."
    )
    return cast


def _lost_variables(node: Node, op: Builder) -> set[str]:
    """Finds the type variables whose types in this node do not exist in the older version."""
    old = node.schema
    new = schemas.schema(old.domain, old.name, op.version) if old else None
    assert old is not None
    assert new is not None
    lost = set()
    for values, before, after in (
        (node.inputs, old.input_at, new.input_at),
        (node.outputs, old.output_at, new.output_at),
    ):
        for i, value in enumerate(values):
            was, will = before(i), after(i)
            if value is None or was is None or will is None:
                continue
            kind = value.elem_type_or_none  # also known if only one type is possible
            text = f"tensor({schemas.element_name(kind)})" if kind else None
            if text is None and value.type is not None:
                text = schemas.type_name(value.type)
            if text is not None and text not in will.types:
                lost.add(was.variable)
    return lost


def attribute_becomes_input(name: str, *, scalar: bool = False) -> tuple[Run, Run]:
    """Returns the rewrites (up, down) for an integer attribute that became an int64 input."""

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
        constant = value.const()
        plain = constant.reshape(-1)[0] if scalar else constant.reshape(-1).tolist()
        return op.same(node, inputs={name: None}, **{name: plain})

    up.__doc__ = f"The newer version has an input in place of the attribute `{name}`."
    down.__doc__ = (
        f"The older version has an attribute `{name}`, so the value of the input must be constant."
    )
    return up, down


def enum_grew(name: str, allowed: str) -> Run:
    """Returns a rewrite that refuses attribute values which the older version does not allow."""

    def down(node: Node, op: Builder) -> Result:
        if node.str(name) in allowed.split():
            return op.same(node)
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"the older version does not allow {name}={node.str(name)!r}"
        )

    down.__doc__ = (
        f"The older version allows only {allowed.replace(' ', ', ')} for the attribute `{name}`."
    )
    return down


def drop_attribute(name: str) -> Run:
    """Returns a rewrite that removes an attribute which never affected the result."""

    def rewrite(node: Node, op: Builder) -> Result:
        return op.same(node, **{name: None}) if node.has(name) else KEEP

    rewrite.__doc__ = f"The attribute `{name}` never affected the result, so it is removed."
    return rewrite


def positive_axis(name: str = "axis", *, of: int = 0, extra: int = 0) -> Run:
    """Returns a rewrite that writes negative axes as positive ones; needs the rank of an input."""

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

    down.__doc__ = f"The older version does not allow a negative `{name}`."
    return down

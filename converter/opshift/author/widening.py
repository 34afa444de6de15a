# SPDX-License-Identifier: Apache-2.0
"""Computes a node in wider element types, between Casts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opshift.author.builder import Builder
from opshift.author.node import Node, Value

# The attributes that determine the element type of the output.
OUTPUT_TYPES = ("dtype", "output_datatype", "output_dtype")


def in_wider_types(node: Node, op: Builder, wide: Mapping[str, int]) -> tuple[Value, ...]:
    """Writes a node with other element types, and casts its outputs back."""
    schema = node.schema
    assert schema is not None
    native: dict[str, int] = {}
    inputs: list[Value | None] = []
    for i, value in enumerate(node.inputs):
        param = schema.input_at(i)
        if value is not None and param is not None and param.variable in wide:
            native.setdefault(param.variable, value.elem_type)
            value = op.Cast(value, to=wide[param.variable])
        inputs.append(value)
    results = op.same_but(node, inputs, **_chosen_types(node, wide))
    values = []
    for i, value in enumerate(results):
        param = schema.output_at(i)
        name = node.outputs[i] if i < len(node.outputs) else None
        if param is not None and param.variable in wide and name is not None:
            value = op.Cast(value, to=native.get(param.variable) or name.elem_type)
        values.append(value)
    return tuple(values)


def _chosen_types(node: Node, wide: Mapping[str, int]) -> dict[str, Any]:
    """Returns the wider element type of the output as an attribute, if the operator has one."""
    assert node.schema is not None
    name = next((name for name in OUTPUT_TYPES if name in node.schema.attributes), "")
    output, param = node.outputs[0], node.schema.output_at(0)
    if not name or output is None or param is None:
        return {}
    asked = node.attr(name)
    return {name: wide.get(param.variable) or asked or output.elem_type}

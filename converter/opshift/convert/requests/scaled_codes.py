# SPDX-License-Identifier: Apache-2.0
"""Replaces DequantizeLinear and QuantizeLinear of float8 by Mul and Div, if float8 is widened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opshift.author.builder import Builder
from opshift.author.node import KEEP, Node, Result, Value
from opshift.author.traits import Saturates, Scales
from opshift.author.verdicts import WIDER, Adapter, Rewrite
from opshift.convert.planner import CrossingPlan
from opshift.convert.state import State
from opshift.lazy import numpy as np
from opshift.model.scope import Key
from opshift.model.sweep import sweep
from opshift.opsets.elements import ELEMENTS, T

FLOATS = (T.FLOAT, T.FLOAT16, T.BFLOAT16)


def write_scaled(state: State, types: Mapping[int, int]) -> None:
    """Rewrites operators that scale float8 numbers, if these numbers get a wider type."""
    wider = frozenset(kind for kind in types if ELEMENTS[kind].is_float8)
    state.plan = CrossingPlan(state.adapters)  # the conversion plans its steps later
    written = False
    for key, rule in state.adapters.rules(Scales).items() if wider else ():
        adapter = _adapter(key, rule, state.adapters.rules(Saturates).get(key), wider)
        for root in state.document.roots:
            if places := list(root.index.get(key, ())):
                version = root.imports.get(key[0]) or 1
                stepper = state.stepper(key[0], version, version).of_adapter(adapter)
                step = stepper.run_at(root, places)
                if step.rewritten:
                    written = True
                    state.done(step)
    if written:
        sweep(state.document)
        state.document.sort()
        state.reopen()


def _adapter(key: Key, rule: Scales, bound: Saturates | None, wider: frozenset[int]) -> Adapter:
    """Returns the adapter that rewrites an operator that scales numbers of the given types."""

    def write(node: Node, op: Builder) -> Result:
        return _written(node, op, rule, bound, wider)

    return Adapter(
        (key[1],), *WIDER,
        Rewrite(write, handles_types=True, ignores={"output_dtype": "the output has this type"}),
        key[0], frozenset({"Cast"}),
        summary="Scaling becomes a product or quotient, because the codes get a wider type.",
        source=f"{__name__}.write",
    )  # fmt: skip


def _written(
    node: Node, op: Builder, rule: Scales, bound: Saturates | None, wider: frozenset[int]
) -> Result:
    """Returns the product or quotient that replaces a node, with Casts around it."""
    data, scale, zero = (*node.inputs, None)[:3]
    result = node.outputs[0]
    assert data is not None
    assert scale is not None
    assert result is not None
    codes = (data if rule.reads_codes else result).elem_type
    kind = _computed_in(node, scale, result if rule.reads_codes else data)
    if codes not in wider or kind not in FLOATS or not _is_zero(zero):
        return KEEP
    factor = rule.along(op, scale, data, _int(node, "axis", 1), _int(node, "block_size", 0))
    ratio = _emit(op, rule.by, _as_type(op, data, kind), _as_type(op, factor, kind))
    if bound is not None and _int(node, "saturate", 1):
        ratio = _emit(op, bound.limit, ratio, *(op.const(x, kind) for x in ELEMENTS[codes].finite))
    return _as_type(op, ratio, result.elem_type)


def _computed_in(node: Node, scale: Value, codes: Value) -> int:
    """Returns the element type in which the product or quotient is computed."""
    kind = scale.elem_type if scale.elem_type in FLOATS else codes.elem_type
    return _int(node, "precision", 0) or kind


def _int(node: Node, name: str, default: int) -> int:
    """Returns an integer attribute; older versions of the operator lack it, so it has a default."""
    return node.int(name) if node.schema and name in node.schema.attributes else default


def _as_type(op: Builder, value: Value, kind: int) -> Value:
    if value.elem_type == kind:
        return value
    return _emit(op, "Cast", value, to=kind)


def _emit(op: Builder, name: str, *inputs: Value, **attributes: Any) -> Value:
    """Writes a node even if its inputs are constants, because their types change later."""
    results: tuple[Value, ...] = op.emit(name, *inputs, outputs=1, **attributes)
    return results[0]


def _is_zero(zero: Value | None) -> bool:
    """Returns whether a zero point is absent or a constant of zeros."""
    value = np.zeros(1) if zero is None else zero.const_or_none()
    return value is not None and not np.asarray(value, np.float32).any()

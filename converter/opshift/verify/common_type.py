# SPDX-License-Identifier: Apache-2.0
"""Converts values of models with different element types to a common type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opshift.opsets import schemas
from opshift.opsets.elements import T
from opshift.protos import ModelProto
from opshift.verify.oracle.values import dtype_of, is_float
from opshift.verify.tolerance import BY_TYPE, EXACT


def retyped_ends(a: ModelProto, b: ModelProto) -> str:
    """Lists the inputs and outputs whose types differ between two models; empty if none do."""
    first, second = _element_types(a), _element_types(b)
    differences = [
        f"{name!r} is {_text(kind)} in A and {_text(second[name])} in B"
        for name, kind in first.items()
        if second.get(name, kind) != kind
    ]
    return f"inputs and outputs differ in type: {', '.join(differences)}" if differences else ""


def _element_types(model: ModelProto) -> dict[str, int]:
    ends = (*model.graph.input, *model.graph.output)
    return {info.name: info.type.tensor_type.elem_type for info in ends}


def _text(kind: int) -> str:
    return schemas.element_name(kind) or "of no type"


def fitted(values: Mapping[str, Any], model: ModelProto) -> dict[str, Any]:
    """Converts inputs to the element types that a model declares."""
    kinds = {info.name: info.type.tensor_type.elem_type for info in model.graph.input}
    return {
        name: value.astype(dtype_of(kind))
        if (kind := kinds.get(name, 0)) not in (T.UNDEFINED, T.STRING)
        and isinstance(value, np.ndarray)
        and value.dtype != dtype_of(kind)
        else value
        for name, value in values.items()
    }


def coarser(expected: Any, actual: Any) -> tuple[Any, Any, str]:
    """Converts two values to one type that holds both; also names the coarser of their types."""
    if not (isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray)):
        return expected, actual, ""
    if expected.dtype == actual.dtype:
        return expected, actual, ""
    names = [str(array.dtype.name) for array in (expected, actual)]
    if is_float(expected.dtype) and is_float(actual.dtype):
        kind = max(names, key=lambda name: BY_TYPE.get(name, EXACT).rtol)
        return expected.astype(np.float64), actual.astype(np.float64), kind
    if expected.dtype.kind in "iu" and actual.dtype.kind in "iu":
        return expected.astype(np.int64), actual.astype(np.int64), ""
    return expected, actual, ""

# SPDX-License-Identifier: Apache-2.0
"""Random models: legal at their versions by construction, in every form those have."""

from __future__ import annotations

from typing import Any

import random_kinds
import random_nested
import random_plain
from hypothesis import strategies as st
from onnx import GraphProto, ModelProto, helper
from opshift import versions
from opshift.opsets import schemas
from random_scope import BOOL, DOUBLE, FLOAT, HALF, INT32, INT64, STRING, Scope, Value

NEWEST = schemas.latest("") or 1
NEWEST_ML = schemas.latest("ai.onnx.ml") or 1
VERSIONS = range(1, NEWEST)
OPERATORS = random_plain.ALL + random_nested.ALL + random_kinds.ALL


@st.composite
def models(draw: Any) -> ModelProto:
    """A model at one of VERSIONS with inputs of several types and a dynamic axis."""
    opset = draw(st.sampled_from(VERSIONS))
    ml = draw(st.sampled_from((0, 0, 0, *range(1, NEWEST_ML + 1))))
    graph = GraphProto(name="random")
    scope = Scope(draw, opset, OPERATORS, graph, ml=ml)
    for _ in range(draw(st.integers(1, 2))):
        shape = draw(st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=3))
        first = ["n"] if scope.chance() else []
        kinds = (FLOAT, FLOAT, FLOAT, FLOAT, HALF, DOUBLE, INT64, INT32, BOOL, STRING)
        scope.values.append(Value(scope.fresh(), scope.one_of(*kinds), (*first, *shape)))
    if opset >= 11 and draw(st.integers(0, 5)) == 0:
        scope.sequences.append(Value(scope.fresh(), FLOAT, (2, 3)))
    given, sequences = list(scope.values), list(scope.sequences)
    graph.input.extend(v.info for v in given)
    graph.input.extend(_sequence(v, v.shape) for v in sequences)
    scope.grow(draw(st.integers(1, 7)))
    results = [v for v in scope.values if v not in given][-3:]
    kept = [v for v in scope.sequences if v not in sequences][-1:]
    if not results and not kept:
        scope.add("Identity", [given[0].name], scope.like(given[0]))
        results = scope.values[-1:]
    graph.output.extend(v.info for v in results)
    graph.output.extend(_sequence(v) for v in kept)
    return _whole(graph, opset, ml, scope)


def _sequence(v: Value, shape: Any = None) -> Any:
    return helper.make_tensor_sequence_value_info(v.name, v.elem_type, shape)


def _whole(graph: GraphProto, opset: int, ml: int, scope: Scope) -> ModelProto:
    ir = max(versions.ir_for({"": opset}), 8 if scope.functions else 4)
    model = ModelProto(ir_version=ir, graph=graph)
    model.opset_import.append(helper.make_opsetid("", opset))
    if ml:
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", ml))
    if scope.functions:
        model.opset_import.append(helper.make_opsetid("own", 1))
        model.functions.extend(scope.functions)
    return model

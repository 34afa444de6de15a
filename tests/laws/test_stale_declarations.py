# SPDX-License-Identifier: Apache-2.0
"""Law: the declared types of computed values never change what a result computes.

The declarations come from an export at fixed sizes, one of which was made free afterwards. A
conversion may also be refused, or its report may name the declarations that it believed.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from opshift import testing
from opshift.convert.cheapest_strategy import convert
from opshift.convert.request import Request
from opshift.errors import InvalidModel, Refused
from opshift.model import weights
from opshift.model.arrays import dtype_of
from opshift.verify.tolerance import BY_TYPE, EXACT
from stale import feeds, is_plain, made_stale

import examples

ort = pytest.importorskip("onnxruntime")

SEED = 20261122
LOWEST = 7  # of onnxruntime
SAMPLE = int(os.environ.get("OPSHIFT_STALE", "150"))
BELIEVED = "comes from a declaration"  # in the note of a report


def sample() -> list[examples.Case]:
    """Examples that convert at versions which onnxruntime runs."""
    fit = [
        case
        for case in examples.cases()
        if not case.example.refuses and not case.example.invalid and not examples.too_new(case)
        if case.adapter.domain == "" and min(case.adapter.start, case.adapter.to) >= LOWEST
    ]
    return random.Random(SEED).sample(fit, min(SAMPLE, len(fit)))


def outputs(model: ModelProto, fed: dict[str, Any]) -> list[Any]:
    """Returns the outputs of onnxruntime without its optimizations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    ort.set_default_logger_severity(4)
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, fed))


def differs(before: list[Any], after: list[Any]) -> str | None:
    """Returns the output in which two runs differ, and the difference."""
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        if not isinstance(old, np.ndarray) or old.dtype == object:
            continue
        if old.shape != new.shape:
            return f"output {i} has shape {new.shape}, not {old.shape}"
        allowed = BY_TYPE.get(old.dtype.name, EXACT)
        if not np.allclose(old, new, max(allowed.rtol, 1e-4), max(allowed.atol, 1e-4), True):
            return f"output {i} has other values"
    return None


def verdict(case: examples.Case, seed: int) -> str:
    """`equal`, `refused`, `reported`, `unfit` where the model does not run, or what is wrong."""
    model, shapes = made_stale(examples.model_of(case), random.Random(seed))
    target = testing.example_target(case.adapter, case.example)
    fed = {**feeds(model, shapes, seed), **_given(model, case)}
    if not shapes or _kills_onnxruntime(model, fed):
        return "unfit"
    try:
        before = outputs(model, fed)
    except Exception:  # the operator wants the sizes of the export
        return "unfit"
    honest = ModelProto()
    honest.CopyFrom(model)
    del honest.graph.value_info[:]
    try:
        if _outcome(honest, case, target, fed, before) != "equal":
            return "unfit"
    except InvalidModel:  # onnx 1.17 misjudges a Squeeze below 13 at a size that is a symbol
        return "unfit"
    return _outcome(model, case, target, fed, before)


def _outcome(
    model: ModelProto, case: examples.Case, target: Any, fed: dict[str, Any], before: list[Any]
) -> str:
    options = Request(target, **case.example.options)
    try:
        skeleton, large_tensors, report = convert(lambda: weights.carve_model(model), options)
    except Refused:
        return "refused"
    weights.fill(skeleton, large_tensors)
    if any(BELIEVED in note for note in report.notes):
        return "reported"
    try:
        after = outputs(skeleton, fed)
    except Exception as error:
        return f"onnxruntime fails: {error}"
    return differs(before, after) or "equal"


def _kills_onnxruntime(model: ModelProto, fed: dict[str, Any]) -> bool:
    """Whether some versions of onnxruntime end the process on such a model."""
    return any(value.size == 0 for value in fed.values()) or any(
        "" in node.output for node in model.graph.node
    )


def _given(model: ModelProto, case: examples.Case) -> dict[str, Any]:
    """Returns the inputs that an example states, for tensors with a shape."""
    found = {}
    for value in model.graph.input:
        if value.name in case.example.inputs and is_plain(value):
            dtype = dtype_of(value.type.tensor_type.elem_type)
            found[value.name] = np.asarray(case.example.inputs[value.name], dtype)
    return found


@pytest.mark.parametrize("case", sample(), ids=lambda case: case.id)
def test_stale_declarations_change_no_result(case: examples.Case) -> None:
    found = verdict(case, SEED)
    if found == "unfit":
        pytest.skip("the example is not equal at another size, whatever is declared")
    assert found in ("equal", "refused", "reported")

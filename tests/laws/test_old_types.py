# SPDX-License-Identifier: Apache-2.0
"""Law: below opset 6, where many operators have no inference, a result still has all its types."""

from __future__ import annotations

import os
import random

import onnx
import pytest
from opshift import Refused, convert_version

import examples

ort = pytest.importorskip("onnxruntime")

SEED = 20261122
SAMPLE = int(os.environ.get("OPSHIFT_OLD", "12"))
# onnxruntime has kernels from 7 on, inserts Casts of float16 in the form of Cast-6, and knows no
# complex numbers.
ITS_OWN = ("NOT_IMPLEMENTED", "InsertedPrecisionFreeCast", "MLDataType for: tensor(complex")
# What it rejects in some examples as they are; then it may reject their results for it.
OF_THE_EXAMPLE = "Pad should be smaller than kernel"


def sample() -> list[tuple[examples.Case, int]]:
    """Examples that convert, each with an old version."""
    fit = [
        case
        for case in examples.cases()
        if not case.example.refuses and not case.example.invalid and not examples.too_new(case)
        if case.adapter.domain == "" and not case.example.approximate
    ]
    rng = random.Random(SEED)
    return [(case, rng.randint(1, 5)) for case in rng.sample(fit, min(SAMPLE, len(fit)))]


@pytest.mark.parametrize(("case", "target"), sample(), ids=lambda one: getattr(one, "id", one))
def test_strict_inference_and_onnxruntime_know_all_types(case: examples.Case, target: int) -> None:
    source = examples.model_of(case)
    try:
        result = convert_version(source, target)
    except Refused:
        pytest.skip("the example does not go so far down")
    onnx.shape_inference.infer_shapes(result, strict_mode=True, check_type=True)
    ort.set_default_logger_severity(4)
    error = objection(result)
    if OF_THE_EXAMPLE in error:
        assert OF_THE_EXAMPLE in objection(source)
    else:
        assert not error or any(words in error for words in ITS_OWN), error


def objection(model: onnx.ModelProto) -> str:
    """Returns the message with which onnxruntime rejects a model; empty if it loads the model."""
    try:
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""

# SPDX-License-Identifier: Apache-2.0
"""Law: an example inside of a function computes the same after a conversion, or is refused.

A function declares no types. If onnxruntime loads the source, it must load the result. The
inference of onnxruntime also passes constants into a function.
"""

from __future__ import annotations

import os
import random

import pytest
from laws import highest_of_runtime
from onnx import ModelProto
from opshift import Refused, convert_version
from opshift.opsets import schemas

import examples
from tools.conformance.node_tests import function

ort = pytest.importorskip("onnxruntime")

OLDEST = 7  # opset that onnxruntime runs
UNCLEAR = (
    ("Attention", 23),
    ("Attention", 24),
)  # whose text wants three axes where it names heads; inference does not
CASES = [
    case
    for case in examples.cases()
    if case.example.refuses is None
    and case.example.invalid is None
    and not case.example.approximate
    and not case.example.assume  # an assumption may be wrong
    and case.adapter.at_boundary
    and (case.adapter.ops[0], case.adapter.start) not in UNCLEAR
    and (case.adapter.domain or min(case.adapter.start, case.adapter.to) >= OLDEST)
]
EVERY = "OPSHIFT_PROPERTIES" in os.environ
TRIED = CASES if EVERY else random.Random(2).sample(CASES, min(80, len(CASES)))


def loads(model: ModelProto) -> bool:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises many kinds
        return "NOT_IMPLEMENTED" in str(error)  # it lacks a kernel, which says nothing of the form
    return True


def targets(case: examples.Case) -> list[int]:
    """The version of the example, and others that are far away: one of them, or all."""
    near, domain = case.adapter.to, case.adapter.domain
    far = [min(highest_of_runtime(), schemas.latest("") or 0), 13, OLDEST] if not domain else []
    if far and not EVERY:
        far = [random.Random(case.id).choice(far)]
    return [near, *(one for one in far if one not in (near, case.adapter.start))]


@pytest.mark.parametrize("case", TRIED, ids=[case.id for case in TRIED])
def test_example_in_a_function(case):
    if examples.too_new(case):
        pytest.skip("the installed onnx is older than the example")
    flat = examples.model_of(case)
    if {tensor.name for tensor in flat.graph.initializer} & {
        value.name for value in flat.graph.input
    }:
        pytest.skip("a function has no inputs with a default")
    before = function(flat)
    if not loads(before):
        pytest.skip("onnxruntime does not take the example in a function")
    for target in targets(case):
        try:
            after = convert_version(before, {case.adapter.domain: target})
        except Refused:
            continue  # what a function does not tell may be needed
        assert examples.difference(case, before, after, rtol=1e-5, atol=1e-6) is None, target
        if case.adapter.domain or target <= highest_of_runtime():
            assert loads(after), target

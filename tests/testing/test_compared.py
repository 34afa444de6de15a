# SPDX-License-Identifier: Apache-2.0
"""If onnxruntime runs a model before a conversion, it must run the result."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper
from opshift.testing.compared import compared
from opshift.verify import oracle
from text_models import model

pytest.importorskip("onnxruntime")

BEFORE = "(float[2,3] x) => (float[6] y) <int64[1] s = {-1}> { y = Reshape(x, s) }"
NUMBERS = {"x": np.ones((2, 3), np.float32)}


def told(after):
    return dict(compared(model(BEFORE, 13), after, NUMBERS, ["given"]))["given"]


def test_a_result_that_onnxruntime_runs_is_compared():
    assert told(model(BEFORE, 13)) == ""


def test_a_result_that_onnxruntime_loads_and_does_not_run_differs():
    """The oracle would accept any negative size as the size that Reshape infers."""
    assert "does not run" in told(model(BEFORE.replace("-1", "-2"), 13))


def test_a_result_that_onnxruntime_does_not_load_differs():
    after = model(BEFORE, 13)
    after.graph.node[0].input[1] = "nowhere"
    assert "does not load the result" in told(after)


def test_the_oracle_judges_what_onnxruntime_has_no_kernel_for():
    after = model(BEFORE, 13)
    after.graph.node.insert(0, helper.make_node("Cast", ["x"], ["wide"], to=T.DOUBLE))
    after.graph.node.insert(1, helper.make_node("ThresholdedRelu", ["wide"], ["z"]))
    after.graph.node.insert(2, helper.make_node("Cast", ["z"], ["narrow"], to=T.FLOAT))
    after.graph.node[3].input[0] = "narrow"
    if oracle.doubtful(after):
        pytest.skip("the oracle is not trusted with the installed onnx")
    assert "differ" in told(after)

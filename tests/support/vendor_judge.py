# SPDX-License-Identifier: Apache-2.0
"""onnxruntime as the judge of tests, where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from onnx import ModelProto

Run = Callable[[ModelProto, Mapping[str, Any]], list[Any]]


def on_onnxruntime() -> Run:
    """Runs a model as it is written, with no optimisation; a skip where onnxruntime is missing."""
    runtime = pytest.importorskip("onnxruntime", reason="contrib operators need onnxruntime")

    def run(model: ModelProto, values: Mapping[str, Any]) -> list[Any]:
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = {one.name for one in session.get_inputs()}
        given = {name: value for name, value in values.items() if name in names}
        return list(session.run(None, given))

    return run

# SPDX-License-Identifier: Apache-2.0
"""Runs models of tests in onnxruntime, if it is installed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from text_models import model

Run = Callable[[ModelProto, Mapping[str, Any]], list[Any]]
NCHWC = "com.microsoft.nchwc"
EXAMPLES = 16  # the width of the blocks of channels in the examples


@functools.cache
def block_width() -> int:
    """The width of the blocks of channels that onnxruntime has on this processor."""
    text = f"(float[1,4,1,1] x) => (float[1,c,1,1] y) {{ y = {NCHWC}.ReorderInput(x) }}"
    proto = model(text, 13, 8, f', "{NCHWC}" : 1')
    return int(run_as_written(proto, {"x": np.zeros((1, 4, 1, 1), np.float32)})[0].shape[1])


def on_onnxruntime() -> Run:
    """Runs a model as it is written, with no optimisation; a skip where onnxruntime is missing.

    Blocks of channels that another processor has are a skip, too.
    """
    pytest.importorskip("onnxruntime", reason="contrib operators need onnxruntime")

    def run(model: ModelProto, values: Mapping[str, Any]) -> list[Any]:
        if any(node.domain == NCHWC for node in model.graph.node) and block_width() != EXAMPLES:
            pytest.skip(f"this processor has blocks of {block_width()} channels")
        return run_as_written(model, values)

    return run


def run_as_written(model: ModelProto, values: Mapping[str, Any]) -> list[Any]:
    """Returns the outputs of onnxruntime without optimization."""
    session = session_of(model.SerializeToString())
    names = {input_.name for input_ in session.get_inputs()}
    feeds = {name: value for name, value in values.items() if name in names}
    return list(session.run(None, feeds))


@functools.lru_cache(maxsize=2)
def session_of(model: bytes) -> Any:
    """A session without optimisation; a source and its result run on many inputs in turn."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

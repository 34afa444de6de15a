# SPDX-License-Identifier: Apache-2.0
"""STFT of a signal with two axes, which onnx does not evaluate, in onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from opshift import convert
from opshift.testing.model_text import parse_model

runtime = pytest.importorskip("onnxruntime", "1.17")


@pytest.mark.parametrize("opset", [9, 13, 16])
def test_a_signal_of_two_axes_is_real(opset: int) -> None:
    source = parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,20] x, float[8] w) => (float[2,a,b,2] y)'
        " <int64 step = {3}> { y = STFT(x, step, w) }"
    )
    random = np.random.default_rng(1)
    feeds = {name: random.random(size, np.float32) for name, size in (("x", (2, 20)), ("w", 8))}
    before, after = (
        runtime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
        for model in (source, convert(source, opset).model)
    )
    np.testing.assert_allclose(after, before, atol=1e-5)

# SPDX-License-Identifier: Apache-2.0
"""A small sample: models that onnxruntime's own tools rewrite come back to plain ONNX."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from tools.corpus.contrib import rewritten
from tools.corpus.contrib.rewritten import ALLOWED, SAME, judge

pytest.importorskip("onnxruntime", reason="onnxruntime makes the models and runs them")

BLOCK = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,6,16] x) => (float[2,6,16] y)
    <float e = {0.00001}, float half = {0.5}, float one = {1.0}, float r = {1.4142135}, float two = {2.0}> {
        m = ReduceMean<axes=[-1]>(x)
        d = Sub(x, m)
        p = Pow(d, two)
        s = ReduceMean<axes=[-1]>(p)
        t = Add(s, e)
        u = Sqrt(t)
        n = Div(d, u)
        k = Mul(n, g)
        l = Add(k, c)
        h = MatMul(l, w)
        a = Add(h, b)
        q = Div(a, r)
        f = Erf(q)
        o = Add(f, one)
        i = Mul(a, o)
        z = Mul(i, half)
        j = MatMul(z, v)
        y = Add(j, x) }"""
IMAGE = """<ir_version: 8, opset_import: ["" : 13]> g (float[1,4,8,8] x) => (float[1,4,a,b] y) {
        c = Conv<pads=[1,1,1,1]>(x, w, b)
        r = Relu(c)
        s = Sigmoid(r)
        m = Mul(r, s)
        d = Conv(m, v)
        e = Add(d, x)
        l = LeakyRelu<alpha=0.2>(e)
        y = AveragePool<kernel_shape=[2,2], strides=[2,2]>(l) }"""
MODELS = {"block": BLOCK, "image": IMAGE}
SIZES = {
    "block": {"g": 16, "c": 16, "w": (16, 16), "b": 16, "v": (16, 16)},
    "image": {"w": (4, 4, 3, 3), "b": 4, "v": (4, 4, 1, 1)},
}


@pytest.fixture(params=MODELS)
def folder(request, tmp_path):
    """A folder of a corpus, with random weights and inputs."""
    rng = np.random.default_rng(1)
    model = parser.parse_model(MODELS[request.param])
    for name, size in SIZES[request.param].items():
        made = rng.normal(0, 0.3, size).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(made, name))
    path = tmp_path / request.param
    path.mkdir()
    onnx.save(model, path / "model.onnx")
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    np.savez(path / "inputs.npz", x=rng.normal(0, 1, shape).astype(np.float32))
    return path


@pytest.mark.parametrize("maker", ["extended", "dynamic", "static QDQ", "static QOperator"])
def test_a_rewritten_model_comes_back(folder, maker):
    verdict = judge(str(folder), maker, ["own", "13", "11"])
    assert not verdict.unfit
    for end in verdict.endings:
        assert end.status in (SAME, ALLOWED), f"{end} of {verdict.operators}"
    if maker == "extended":
        assert verdict.operators  # otherwise nothing was tried


def verdict_of(text, tmp_path, **inputs):
    """The verdict on a model as it is."""
    onnx.save(parser.parse_model(text), tmp_path / "model.onnx")
    np.savez(tmp_path / "inputs.npz", **inputs)
    return judge(str(tmp_path), "as it is", ["own"])


QUANTIZED = """<ir_version: IR, opset_import: ["" : 13, "com.microsoft" : 1]>
    g (float[4] x) => (float[4] y) <float a_scale = {SCALE}, uint8 z = {3}> {
        q = QuantizeLinear(x, a_scale, z)
        r = com.microsoft.QLinearSigmoid(q, a_scale, z, a_scale, z)
        y = DequantizeLinear(r, a_scale, z) }"""


@pytest.mark.parametrize(
    ("ir", "scale", "unfit"), [("7", "0.1", ""), ("3", "0.1", ""), ("7", "inf", "finite")]
)
def test_codes_that_stand_for_no_numbers_are_not_compared(tmp_path, ir, scale, unfit):
    text = QUANTIZED.replace("IR,", f"{ir},").replace("SCALE", scale)
    verdict = verdict_of(text, tmp_path, x=np.linspace(-1, 1, 4, dtype=np.float32))
    assert unfit in verdict.unfit
    assert bool(verdict.unfit) == bool(unfit)
    assert bool(verdict.endings) != bool(unfit)


def test_a_cast_to_float16_counts_as_computing_in_it(tmp_path):
    text = """<ir_version: 7, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (float[4] x) => (float[4] y) { h = Cast<to=10>(x) q = Cast<to=1>(h) y = com.microsoft.Gelu(q) }"""
    model = parser.parse_model(text)
    assert rewritten._has_halves(model)
    model.graph.node[0].attribute[0].i = 1
    assert not rewritten._has_halves(model)


INTEGERS, BOOLS = np.array([7, 250], np.uint8), np.array([True, False])


@pytest.mark.parametrize(
    ("one", "other", "noise", "slack", "alike"),
    [
        (INTEGERS, INTEGERS + 1, 0.0, 0.0, False),
        (INTEGERS, INTEGERS + 1, 0.0, 0.01, True),
        (INTEGERS, INTEGERS + 2, 0.0, 0.01, False),
        (INTEGERS, INTEGERS + 2, 1.0, 0.0, True),
        (INTEGERS, INTEGERS + 3, 1.0, 0.01, False),
        (BOOLS, ~BOOLS, 5.0, 0.01, False),
        (np.float32([1, 2]), np.float32([1, 2.03]), 0.0, 0.01, True),
        (np.float32([1, 2]), np.float32([1, 2.06]), 0.0, 0.01, False),
        (np.float32([1, 2]), np.float32([1, np.nan]), 0.0, 0.01, False),
    ],
)
def test_a_difference_is_bounded_for_each_kind_of_result(one, other, noise, slack, alike):
    assert (rewritten._unlike(one, other, noise, slack) == "") is alike


@pytest.mark.parametrize(
    ("noise", "told"), [(0.0, False), (0.15, False), (0.25, True), (float("inf"), True)]
)
def test_results_that_rounding_moves_far_are_not_compared(noise, told):
    assert bool(rewritten._too_noisy([np.float32([-2, 1])], [noise])) is told

# SPDX-License-Identifier: Apache-2.0
"""Law: CumSum of a known number of elements computes the same without a Scan."""

from itertools import product

import numpy as np
import opshift
import pytest
from onnx import parser

runtime = pytest.importorskip("onnxruntime")

KINDS = ("float", "double", "int64", "int32")
SHAPES = ((5,), (100,), (2, 70, 3), (1, 3), (0, 66))
CASES = list(product(KINDS, SHAPES, (0, -1), (0, 1), (0, 1), (True, False)))
SAMPLE = 24


def text(kind, shape, axis, exclusive, reverse, known):
    places = range(len(shape))
    sizes = [shape[at] if known or at == axis % len(shape) else f"D{at}" for at in places]
    listed = ",".join(map(str, sizes))
    settings = f"<exclusive={exclusive}, reverse={reverse}>"
    return (
        f'<ir_version: 7, opset_import: ["" : 14]> g ({kind}[{listed}] x) => ({kind}[{listed}] y)'
        f" <int64 a = {{{axis}}}> {{ y = CumSum{settings}(x, a) }}"
    )


def output(model, x):
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


def test_equal_without_a_scan():
    rng = np.random.default_rng(7)
    for at in rng.permutation(len(CASES))[:SAMPLE]:
        kind, shape, *_ = CASES[at]
        source = parser.parse_model(text(*CASES[at]))
        result = opshift.convert_version(source, 10)
        if 0 not in shape:
            assert all(node.op_type not in ("Scan", "If") for node in result.graph.node)
        x = rng.integers(-(2**31), 2**31, shape) if "int" in kind else rng.standard_normal(shape)
        x = x.astype({"float": np.float32, "double": np.float64}.get(kind, kind))
        if "int" in kind:
            np.testing.assert_array_equal(output(source, x), output(result, x))
            continue
        if x.size > 3:
            x.flat[rng.integers(x.size)] = np.inf
        bound = 1e-6 * output(source, np.abs(x))
        one, other = output(source, x), output(result, x)
        finite = np.isfinite(one)
        assert (np.abs(one[finite] - other[finite]) <= bound[finite]).all()
        np.testing.assert_array_equal(finite, np.isfinite(other))

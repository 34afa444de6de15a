# SPDX-License-Identifier: Apache-2.0
"""Law: a scatter reduction computes the same without the attribute `reduction`."""

from itertools import product

import numpy as np
import onnx
import opshift
import pytest
from onnx import parser

runtime = pytest.importorskip("onnxruntime")

NASTY = {"add": [0.0, -0.0, 1e30, -1e30, np.inf, -np.inf, np.nan], "mul": [0.0, np.inf, np.nan]}
NASTY["max"] = NASTY["min"] = [0.0, -3e38, 3e38, np.inf, -np.inf]  # the place of NaN is open
SAMPLE = 3  # of the cases for each graph and reduction
# places, rows, numbers of a row: the four forms, and from the sixth on also integers
SIZES = (
    (3, 2, 2), (40, 60, 40), (100, 120, 3), (300, 130, 3), (120, 9, 200),
    (5, 40, 3), (4, 1, 3), (2, 0, 3), (7, 70, 1),
)  # fmt: skip


def with_sizes(size, *, known):
    return [str(one) if known else name for one, name in zip(size, "NEF", strict=True)]


def elements(kind, size, name, *, known):
    """ScatterElements with the same indices in each column, as exporters write scatter_add."""
    n, e, f = with_sizes(size, known=known)
    return (
        f"({kind}[{n},{f}] x, int64[{e},1] i, {kind}[{e},{f}] u) => ({kind}[{n},{f}] y) {{"
        f' s = Shape(u) j = Expand(i, s) y = ScatterElements<axis=0, reduction="{name}">(x, j, u) }}'
    )


def columns(kind, size, name, *, known):
    """ScatterElements with different indices in each column."""
    n, e, f = with_sizes(size, known=known)
    return (
        f"({kind}[{n},{f}] x, int64[{e},{f}] i, {kind}[{e},{f}] u) => ({kind}[{n},{f}] y) {{"
        f' y = ScatterElements<axis=0, reduction="{name}">(x, i, u) }}'
    )


def rows(kind, size, name, *, known):
    n, e, f = with_sizes(size, known=known)
    return (
        f"({kind}[{n},{f}] x, int64[{e},1] i, {kind}[{e},{f}] u) => ({kind}[{n},{f}] y) {{"
        f' y = ScatterND<reduction="{name}">(x, i, u) }}'
    )


def output(model, feeds):
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]


def numbers(rng, kind, shape, nasty):
    """Random numbers, one in twenty of which is an infinity, NaN or another special number."""
    if kind != "float":
        limits = np.iinfo(kind)
        return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    some = rng.standard_normal(shape)
    return np.where(rng.random(shape) < 0.05, rng.choice(nasty, shape), some).astype(np.float32)


def with_constant_places(model, places):
    """The same model with indices that are an initializer instead of an input."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    del fixed.graph.input[1]
    fixed.graph.initializer.append(onnx.numpy_helper.from_array(places, "i"))
    return fixed


@pytest.mark.parametrize("graph", [elements, columns, rows])
@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_equal_without_the_reduction(graph, name):
    rng = np.random.default_rng(len(name) + ord(graph.__name__[0]))
    cases = list(product(enumerate(SIZES), ("sizes", "places", "nothing")))
    for at in rng.permutation(len(cases))[:SAMPLE]:
        (number, size), known = cases[at]
        kind = ("float", "int64", "int32")[number % 3] if number > 4 else "float"
        text = graph(kind, size, name, known=known != "nothing")
        source = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}')
        n, e, f = size
        feeds = {
            "x": numbers(rng, kind, (n, f), NASTY[name]),
            "i": rng.integers(-n, n, (e, f) if graph is columns else (e, 1)),
            "u": numbers(rng, kind, (e, f), NASTY[name]),
        }
        if known == "places":
            source = with_constant_places(source, feeds.pop("i"))
        result = opshift.convert_version(source, 15)
        if known != "nothing":
            assert all(node.op_type != "Loop" for node in result.graph.node)
        one, other = output(source, feeds), output(result, feeds)
        if kind != "float" or name in ("max", "min"):
            np.testing.assert_array_equal(one, other)
            continue
        finite = np.isfinite(one)  # these stay finite and equal, whatever is in other places
        largest = {key: v if key == "i" else np.abs(v) for key, v in feeds.items()}
        bound = 1e-6 * output(source, largest)[finite]
        assert (np.abs(one[finite] - other[finite]) <= bound).all()

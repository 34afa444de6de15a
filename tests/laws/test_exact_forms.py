# SPDX-License-Identifier: Apache-2.0
"""Nodes whose axes, counts and sizes are known only at run time compute the same numbers at older opsets.

Each seed draws a model of one kind and several inputs, empty ones too, and onnxruntime computes both models.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.random import Generator
from onnx import ModelProto, parser
from opshift import convert_version

runtime = pytest.importorskip("onnxruntime", "1.27")

SIZES = (0, 1, 2, 3, 5, 8)
SEEDS = 12 if "OPSHIFT_PROPERTIES" in os.environ else 6
Inputs = Mapping[str, Any]


class Drawn(NamedTuple):
    """A graph, its opset, the opset to which it goes, and inputs for it."""

    graph: str
    opset: int
    to: int
    inputs: list[Inputs]
    atol: float = 0.0


def floats(rng: Generator, shape: tuple[int, ...], *, special: bool = True) -> np.ndarray:
    """Small numbers with ties, some of them zeros of either sign, infinities and NaN."""
    values = rng.integers(-3, 4, shape).astype(np.float32)
    if special:
        for number in (-0.0, np.inf, -np.inf):
            values[rng.random(shape) < 0.1] = number
    return values


def listed(values: Any) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def slice_of_unknown_rank(rng: Generator) -> Drawn:
    axes = [[-1], [-2], [-1, -2], [0, -1], [-3, 1, -1]][rng.integers(5)]
    n, kind = len(axes), ("int64", "int32")[rng.integers(2)]
    starts, ends = (rng.integers(-6, 6, n) for _ in range(2))
    steps = rng.choice([-2, -1, 1, 2, 3], n)
    graph = f"""(float[M] v, int64[K] t, {kind}[{n}] e) => (float[A,B,C] y)
        <{kind}[{n}] s = {listed(starts)}, {kind}[{n}] a = {listed(axes)}, {kind}[{n}] p = {listed(steps)}>
        {{ x = Reshape(v, t) y = Slice(x, s, e, a, p) }}"""
    shapes = [(2, 3, 4), (1, 1, 1), (0, 3, 2), (5, 2, 3)]
    given = [
        {"v": floats(rng, (int(np.prod(shape)),)), "t": np.array(shape), "e": ends.astype(kind)}
        for shape in shapes
    ]
    return Drawn(graph, 13, int(rng.choice([8, 9])), given)


def expand_to_unknown_length(rng: Generator) -> Drawn:
    x = floats(rng, [(), (3, 1), (1, 4), (0, 4), (2, 3, 1)][rng.integers(5)])
    dims = ",".join("?" * x.ndim).replace("?", "{}").format(*"NMK"[: x.ndim])
    shapes = [[], [1], [1, 1], [3, 4], [2, 1, 1], [2, 0], [4, 1, 3, 4], [2, 2, 3, 5]]
    graph = f"(float{f'[{dims}]' if dims else ''} x, int64[K2] s) => (y) {{ y = Expand(x, s) }}"
    return Drawn(graph, 13, 7, [{"x": x, "s": np.array(shape, np.int64)} for shape in shapes])


def top_of_computed_count(rng: Generator) -> Drawn:
    axis, largest = int(rng.integers(-2, 2)), int(rng.integers(2))
    least = "i0 = Identity(k)" if rng.random() < 0.5 else "i0 = Min(k, m)"
    graph = f"""(float[N,M] x, int64[1] k) => (float[A,B] v, int64[A,B] i) <int64[1] m = {{3}}>
        {{ {least} v, i = TopK<axis={axis}, largest={largest}>(x, i0) }}"""
    given: list[Inputs] = []
    for _ in range(6):
        x = floats(rng, tuple(rng.choice(SIZES, 2)))
        given.append({"x": x, "k": rng.integers(0, x.shape[axis] + 1, 1)})
    return Drawn(graph, 13, int(rng.choice([7, 9])), given)


def resized(rng: Generator, opset: int, to: int, attributes: str, source: str) -> Drawn:
    """No scaled axis keeps its size: with a filter, onnxruntime would only copy the axis."""
    kind = {"scales": "float", "sizes": "int64"}[source]
    inputs = {"scales": "x, r, w", "sizes": "x, r, e, w"}[source]
    graph = f"""(float[N,C,H,W] x, {kind}[4] w) => (float[a,b,c,d] y) <float[0] r = {{}}, float[0] e = {{}}>
        {{ y = Resize<{attributes}>({inputs}) }}"""
    given: list[Inputs] = []
    for _ in range(5):
        x = floats(rng, (1, 2, *rng.integers(5, 12, 2)), special=False)
        scales = np.array([1, 1, *rng.choice([0.3, 0.5, 0.7, 1, 1.5, 2.2], 2)], np.float32)
        sizes = np.array([1, 2, *rng.integers(1, 12, 2)])
        given.append({"x": x, "w": scales if source == "scales" else sizes})
    return Drawn(graph, opset, to, given, atol=1e-4)


def aligned_corners(rng: Generator) -> Drawn:
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    places = f'coordinate_transformation_mode="align_corners",mode="{mode}"'
    return resized(rng, 13, int(rng.choice([9, 10])), places, "scales")


def antialiased(rng: Generator) -> Drawn:
    places = str(rng.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]))
    mode, outside = rng.choice(["linear", "cubic"]), rng.integers(2)
    attributes = (
        f'coordinate_transformation_mode="{places}",mode="{mode}",antialias=1,'
        f"exclude_outside={outside}"
    )
    return resized(rng, 18, 17, attributes, str(rng.choice(["scales", "sizes"])))


def quantized_product(rng: Generator) -> Drawn:
    kind = str(rng.choice(["int8", "uint8"]))
    low, high = np.iinfo(kind).min, np.iinfo(kind).max + 1
    columns, inner = int(rng.integers(1, 5)), int(rng.choice([1, 3, 64, 300]))
    each = bool(rng.integers(2))
    more = f"[{columns}]" if each else ""
    graph = f"""({kind}[N,K] a, float p, {kind} i, {kind}[K,M] b, float{more} q, {kind}{more} j,
        float s, {kind} k) => ({kind}[N,M] y) {{ y = QLinearMatMul(a, p, i, b, q, j, s, k) }}"""
    given: list[Inputs] = []
    for rows in (1, 4, 0):
        scale = np.float32(10.0) ** rng.uniform(-3, 1, 3).astype(np.float32)
        point = rng.integers(low, high, 3).astype(kind)
        given.append({
            "a": rng.integers(low, high, (rows, inner)).astype(kind),
            "b": rng.integers(low, high, (inner, columns)).astype(kind),
            "p": scale[0], "q": np.full(columns, scale[1]) if each else scale[1],
            "s": scale[2] * np.float32(inner), "i": point[0],
            "j": np.full(columns, point[1]) if each else point[1], "k": point[2],
        })  # fmt: skip
    return Drawn(graph, 13, int(rng.choice([7, 9])), given)


def counted_grams(rng: Generator) -> Drawn:
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, 4, (4, 2))}
    pool = [0, 1, 3, *(number for pair in pairs for number in pair)]
    count = 3 + len(pairs)
    mode = str(rng.choice(["TF", "IDF", "TFIDF"]))
    weights = f",weights=[{','.join(['0.5', '1.5', '2.25'] + ['3.0'] * len(pairs))}]"
    graph = f"""(int64[N,C] x) => (float[N,G] y) {{ y = TfIdfVectorizer<mode="{mode}",
        min_gram_length={rng.integers(1, 3)},max_gram_length=2,max_skip_count={rng.integers(4)},
        ngram_counts=[0,3],pool_int64s={pool},ngram_indexes={rng.permutation(count).tolist()}
        {weights if rng.random() < 0.7 else ""}>(x) }}"""
    shapes = [(2, 7), (1, 1), (3, 2), (0, 4)]
    return Drawn(
        graph, 13, int(rng.choice([7, 8])), [{"x": rng.integers(0, 4, shape)} for shape in shapes]
    )


KINDS: tuple[Callable[[Generator], Drawn], ...] = (
    slice_of_unknown_rank, expand_to_unknown_length, top_of_computed_count, aligned_corners,
    antialiased, quantized_product, counted_grams,
)  # fmt: skip


def computed(model: ModelProto, inputs: list[Inputs]) -> list[list[np.ndarray] | None]:
    """The outputs for each set of inputs; None for inputs that the model does not accept."""
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found: list[list[np.ndarray] | None] = []
    for value in inputs:
        try:
            found.append(session.run(None, {name: np.asarray(v) for name, v in value.items()}))
        except runtime.capi.onnxruntime_pybind11_state.InvalidArgument:
            found.append(None)
        except runtime.capi.onnxruntime_pybind11_state.Fail:
            found.append(None)
        except runtime.capi.onnxruntime_pybind11_state.RuntimeException:
            found.append(None)
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_numbers_are_equal(kind: Callable[[Generator], Drawn], seed: int) -> None:
    runtime.set_default_logger_severity(4)
    drawn = kind(np.random.default_rng(seed))
    text = f'<ir_version: 8, opset_import: ["" : {drawn.opset}]> g {drawn.graph}'
    before = parser.parse_model(text)
    wanted = computed(before, drawn.inputs)
    found = computed(convert_version(before, drawn.to), drawn.inputs)
    assert sum(one is not None for one in wanted) >= min(2, len(drawn.inputs))
    for given, one, other in zip(drawn.inputs, wanted, found, strict=True):
        if one is None:
            continue
        assert other is not None, given
        for was, now in zip(one, other, strict=True):
            assert was.shape == now.shape
            assert np.allclose(was, now, rtol=1e-6, atol=drawn.atol, equal_nan=True), given

# SPDX-License-Identifier: Apache-2.0
"""Converted models keep every bit of integers in onnxruntime."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from onnx import ModelProto, ValueInfoProto, helper, parser
from opshift import convert_version
from opshift.opsets import schemas
from opshift.verify import oracle

runtime = pytest.importorskip("onnxruntime")

# Opset, the opsets it is converted to one after the other, and the graph. Below opset 7
# onnxruntime has no kernels, therefore such a result is converted up again before it runs.
FORMS = {
    "TopK": (11, (10,), "({t}[2,5] x) => ({t}[2,3] y, int64[2,3] i) <int64[1] k = {{3}}> {{ y, i = TopK(x, k) }}"),
    "smallest": (13, (10,), "({t}[5,2] x) => ({t}[2,2] y, int64[2,2] i) <int64[1] k = {{2}}> {{ y, i = TopK<axis=0, largest=0>(x, k) }}"),
    "MatMul": (13, (8,), "({t}[2,3,4] x, {t}[4,2] z) => ({t}[2,3,2] y) {{ y = MatMul(x, z) }}"),
    "MatMul of unknown length": (13, (8,), "({t}[N,M] x, {t}[M,N] z) => ({t}[N,N] y) {{ y = MatMul(x, z) }}"),
    "MatMul and up again": (13, (5, 13), "({t}[2,2] x, {t}[2] z) => ({t}[2] y) {{ y = MatMul(x, z) }}"),
    "sum of Einsum": (12, (11,), '({t}[2,3,4] x) => ({t}[3] y) {{ y = Einsum<equation="ijk->j">(x) }}'),
    "Col2Im": (18, (17,), "({t}[1,4,4] x) => ({t}[1,1,3,3] y) <int64[2] s = {{3, 3}}, int64[2] b = {{2, 2}}> {{ y = Col2Im(x, s, b) }}"),
    "Unique": (11, (10,), "({t}[6] x) => ({t}[n] y, int64[n] f, int64[6] v, int64[n] c) {{ y, f, v, c = Unique(x) }}"),
    "Where": (9, (5, 9), "({t}[3] x, {t}[3] z, bool[3] c) => ({t}[3] y) {{ y = Where(c, x, z) }}"),
    "Max": (12, (5, 12), "({t}[3] x, {t}[3] z) => ({t}[3] y) {{ y = Max(x, z) }}"),
    "Min": (12, (3, 12), "({t}[3] x, {t}[3] z) => ({t}[3] y) {{ y = Min(x, z) }}"),
    "Abs": (13, (5, 13), "({t}[3] x) => ({t}[3] y) {{ y = Abs(x) }}"),
    "Neg": (13, (3, 13), "({t}[3] x) => ({t}[3] y) {{ y = Neg(x) }}"),
    "Add": (10, (5, 10), "({t}[2,3] x, {t}[3] z) => ({t}[2,3] y) {{ y = Add(x, z) }}"),
    "Sub": (10, (3, 10), "({t}[3] x, {t}[3] z) => ({t}[3] y) {{ y = Sub(x, z) }}"),
    "Mul": (10, (4, 10), "({t}[3] x, {t}[3] z) => ({t}[3] y) {{ y = Mul(x, z) }}"),
    "Tile": (6, (5, 9), "({t}[3] x) => ({t}[6] y) <int64[1] r = {{2}}> {{ y = Tile(x, r) }}"),
    "Concat": (4, (3, 9), "({t}[3] x, {t}[3] z) => ({t}[6] y) {{ y = Concat<axis=0>(x, z) }}"),
}  # fmt: skip
EDGES = (
    0,
    1,
    -1,
    7,
    2**31 - 1,
    -(2**31),
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**62,
    2**63 - 1,
    -(2**63),
    1700000000123456789,
)


def ran(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    runtime.set_default_logger_severity(4)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


@pytest.mark.parametrize("kind", ["int64", "int32"])
@pytest.mark.parametrize("form", FORMS)
def test_every_bit_is_kept(form: str, kind: str) -> None:
    opset, targets, graph = FORMS[form]
    if "TopK" in graph and (schemas.latest("") or 0) < 28:
        pytest.skip("the reference of this onnx negates the smallest integer in TopK")
    model = parser.parse_model(
        f'<ir_version: 7, opset_import: ["": {opset}]> g {graph.format(t=kind)}'
    )
    after = model
    for target in targets:
        after = convert_version(after, target)
    draw = random.Random(form)
    for _ in range(4):
        feeds = {info.name: edges(info, draw) for info in model.graph.input}
        expected = oracle.evaluate(model, feeds)
        for one, other in zip(expected, ran(after, feeds), strict=True):
            np.testing.assert_array_equal(other, one)


UNSIGNED = (1, 2, 3, 7, 2**31, 2**32 + 1, 2**53 + 1, *(2**63 + d for d in (-1, 0, 1)), *(2**64 - d for d in (1, 2, 2**11)))  # fmt: skip


EXACT = {  # the reference of an old onnx divides by way of a double
    "Div": np.floor_divide, "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}  # fmt: skip
# The results of bitwise operators have 3,000 nodes. They differ in one of these nodes, which the
# examples of the adapter test.
TRIED = [(op, target) for op in EXACT for target in (5, 1)]
if "OPSHIFT_PROPERTIES" not in os.environ:
    TRIED = [("Div", 5), ("Div", 1), ("BitwiseXor", 5)]


@pytest.mark.parametrize(("op", "target"), TRIED)
def test_unsigned_integers_beyond_the_signed_ones_are_exact(op: str, target: int) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (uint64[N] a, uint64[N] b) => (uint64[N] y)'
        f" {{ y = {op}(a, b) }}"
    )
    pairs = [(a, b) for a in (0, *UNSIGNED) for b in UNSIGNED][::4]  # each number is on both sides
    a, b = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
    feeds, expected = {"a": a, "b": b}, EXACT[op](a, b)
    after = convert_version(model, target)
    for found in (oracle.evaluate(after, feeds), ran(convert_version(after, 13), feeds)):
        np.testing.assert_array_equal(found[0], expected)


def edges(info: ValueInfoProto, draw: random.Random) -> np.ndarray:
    """Integers, some of which double cannot represent, and whose sums and products wrap around."""
    tensor = info.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = [dim.dim_value or 3 for dim in tensor.shape.dim]
    drawn = [draw.choice((*EDGES, draw.randrange(-(2**63), 2**63))) for _ in range(np.prod(shape))]
    return np.array(drawn, np.int64).astype(dtype).reshape(shape)

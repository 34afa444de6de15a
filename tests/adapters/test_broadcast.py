# SPDX-License-Identifier: Apache-2.0
"""Pairs of small shapes that broadcast convert to the broadcasting rules of opset 6 and back."""

import itertools
import os

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto
from opshift import convert_version
from opshift.verify import oracle

SIZES = (0, 1, 3)
SHAPES = [s for rank in range(4) for s in itertools.product(SIZES, repeat=rank)]


def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


STEP = 1 if "OPSHIFT_PROPERTIES" in os.environ else 19
PAIRS = [(a, b) for a in SHAPES for b in SHAPES if fits(a, b)][::STEP]


def model_of(op: str, a: tuple[int, ...], b: tuple[int, ...], *, symbolic: bool) -> ModelProto:
    def declared(name: str, shape: tuple[int, ...]) -> str:
        dims = [f"{name}{i}" if symbolic else str(d) for i, d in enumerate(shape)]
        return f"float[{','.join(dims)}] {name}" if dims else f"float {name}"

    inputs = f"{declared('a', a)}, {declared('b', b)}"
    output = declared("y", np.broadcast_shapes(a, b))
    text = f"({inputs}) => ({output}) {{ y = {op}(a, b) }}"
    return onnx.parser.parse_model(f'<ir_version: 4, opset_import: ["": 7]> g {text}')


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("op", ["Sub", "Div"])
def test_small_shapes_broadcast_below_7(op: str, symbolic: bool) -> None:
    for a, b in PAIRS:
        model = model_of(op, a, b, symbolic=symbolic)
        x = np.arange(1, 1 + np.prod(a), dtype=np.float32).reshape(a)
        y = np.arange(2, 2 + np.prod(b), dtype=np.float32).reshape(b)
        below = convert_version(model, 6)
        (result,) = oracle.evaluate(below, {"a": x, "b": y})
        assert np.array_equal(result, x - y if op == "Sub" else x / y), (a, b)
        (again,) = oracle.evaluate(convert_version(below, 7), {"a": x, "b": y})
        assert np.array_equal(again, result), (a, b)

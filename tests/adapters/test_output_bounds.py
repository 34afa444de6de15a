# SPDX-License-Identifier: Apache-2.0
"""Computed sizes and indices lie between the bounds that opshift infers before a model runs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from onnx import ModelProto, parser
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.verify import oracle

STEPS = (
    "{y} = Add({a}, {b})", "{y} = Sub({a}, {b})", "{y} = Mul({a}, {b})", "{y} = Div({a}, c2)",
    "{y} = Mod({a}, c2)", "{y} = Max({a}, {b})", "{y} = Min({a}, {b})", "{y} = Neg({a})",
    "{y} = Abs({a})", "{y} = Gather({a}, i)", "{y} = Where(t, {a}, {b})", "{y} = Mod({a}, c1)",
    "{y}s = Slice({a}, z, u) {y} = Concat<axis=0>({y}s, {y}s)", "{y} = Div({a}, c1)",
)  # fmt: skip
CONSTANTS = (
    "<int64[2] c1 = {7, -3}, int64[2] c2 = {2, 5}, int64[2] i = {1, 0}, bool[2] t = {1, 0},"
    " int64[1] z = {0}, int64[1] u = {1}>"
)


def random_model(seed: int) -> tuple[str, list[str]]:
    """Returns a random graph that computes with a shape, and the names of its values."""
    dice = random.Random(seed)
    names, lines = ["s", "c1", "c2"], ["s = Shape(x)"]
    for number in range(dice.randint(3, 9)):
        a, b = dice.choice(names), dice.choice(names)
        lines.append(dice.choice(STEPS).format(y=f"v{number}", a=a, b=b))
        names.append(f"v{number}")
    outputs = ", ".join(f"int64[2] {name}" for name in names[3:])
    header = '<ir_version: 8, opset_import: ["": 17]> g (float[N,3] x) => '
    return f"{header}({outputs}) {CONSTANTS} {{ {' '.join(lines)} }}", names[3:]


def opened(text: str) -> tuple[ModelProto, Facts]:
    """Returns a model with the graph, and the facts about its values."""
    model = parser.parse_model(text)
    return model, Facts(Document(model, "opshift_"), Weights(), registry.default(), lambda: model)


@pytest.mark.parametrize("seed", range(60))
def test_every_value_lies_between_its_bounds(seed: int) -> None:
    text, results = random_model(seed)
    model, facts = opened(text)
    for rows in (0, 1, 5):
        values = oracle.evaluate(model, {"x": np.zeros((rows, 3), np.float32)})
        for name, value in zip(results, values, strict=True):
            bounds = facts.bounds(facts.document.main, name)
            if bounds is not None:
                assert np.all(bounds.low <= value), (seed, rows, name, bounds)
                assert np.all(value <= bounds.high), (seed, rows, name, bounds)
                assert not bounds.each or bounds.low.shape == value.shape


def test_long_chains_are_followed_without_recursion() -> None:
    chain = " ".join(f"v{i + 1} = Add(v{i}, c)" for i in range(3000))
    header = '<ir_version: 8, opset_import: ["": 17]> g (float[N,3] x) => (int64[2] v3000)'
    _, facts = opened(f"{header} <int64 c = {{1}}> {{ v0 = Shape(x) {chain} }}")
    last = facts.bounds(facts.document.main, "v3000")
    assert last is not None
    assert (last.lowest, int(last.low[1]), int(last.high[1])) == (3000, 3003, 3003)


def test_most_values_of_these_graphs_have_bounds() -> None:
    known = total = 0
    for seed in range(60):
        text, results = random_model(seed)
        _, facts = opened(text)
        found = [facts.bounds(facts.document.main, name) for name in results]
        known, total = known + sum(one is not None for one in found), total + len(found)
    assert known > total / 3

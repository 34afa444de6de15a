# SPDX-License-Identifier: Apache-2.0
"""Made-up inputs: what a graph can work with, at two sizes, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from opshift.author import registry
from opshift.testing.model_text import parse_model
from opshift.verify import generate, verify


def model(text, opset=13):
    return parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')


def made(text, **how):
    return [
        case.values
        for case in generate.cases(model(text), 7, generate.FIRST, registry.default(), **how)
    ]


def test_an_index_reaches_as_far_as_what_it_picks_from():
    for given in made("(int64[n,9] i, float[v,3] t) => (float[n,9,3] y) { y = Gather(t, i) }"):
        assert given["i"].max() == len(given["t"]) - 1
        assert given["i"].min() >= 0


def test_also_into_what_is_computed():
    text = "(int64[50] i, float[4,3] t) => (float[50,3] y) { u = Add(t, t) c = Concat<axis=0>(u, u) y = Gather(c, i) }"
    for given in made(text):
        assert given["i"].max() == 7


def test_masks_mean_yes_and_no():
    text = "(int64[n,50] attention_mask, bool[50] m) => (float[n,50] y) { y = Cast<to=1>(attention_mask) }"
    for given in made(text):
        assert set(np.unique(given["attention_mask"])) == {0, 1}
        assert given["m"].dtype == bool


def test_a_single_boolean_is_on_and_off():
    one = model("(float[n] x, bool c, bool[1] d) => (float[n] y) { y = Neg(x) }")
    for seed in range(9):
        first, second = (
            case.values for case in generate.cases(one, seed, generate.FIRST, registry.default())
        )
        assert {bool(first["c"]), bool(second["c"])} == {False, True}
        assert {bool(first["d"][0]), bool(second["d"][0])} == {False, True}


def test_two_sizes_of_every_axis_and_others_of_other_axes():
    sizes = [x["x"].shape for x in made("(float[n,m] x) => (float[n,m] y) { y = Neg(x) }")]
    assert sizes == [(2, 3), (3, 4)]


def test_the_seed_decides():
    one = model("(float[n] x) => (float[n] y) { y = Neg(x) }")
    drawn = [
        [
            case.values["x"].tolist()
            for case in generate.cases(one, seed, generate.FIRST, registry.default())
        ]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert "seed 2.0" in str(verify(one, one, seed=2, engine="opshift"))


def test_a_picture_is_large_where_small_ones_do_not_fit():
    text = "(float[n,3,h,w] x) => (float[n,3,a,b] y) { y = MaxPool<kernel_shape=[32,32]>(x) }"
    found = verify(model(text), model(text), engine="onnxruntime")
    assert found.equal
    assert [row.inputs.partition(", ")[2].partition(", ")[2] for row in found.rows] == [
        "n=2, h=64, w=96",
        "n=1, h=224, w=224",
    ]


def test_calm_values_where_others_do_not_fit():
    text = "(int64[n] i) => (float[n] y) <float[6] t = {1,2,3,4,5,6}, int64 two = {2}> { j = Add(i, two) y = Gather(t, j) }"
    found = verify(model(text), model(text), engine="opshift")
    assert found.equal
    assert len(found.rows) == 2
    text = "(int64[4] i) => (float[4] y) <float[3] t = {1,2,3}, int64 two = {1}> { j = Add(i, two) y = Gather(t, j) }"
    found = verify(model(text), model(text), engine="opshift", seed=3)
    assert found.equal
    assert all("calm" in row.inputs for row in found.rows)


@pytest.mark.parametrize("kind", ["seq(float[3])", "optional(float[3])", "optional(seq(float[3]))"])
def test_sequences_and_optionals(kind):
    text = f"({kind} s) => ({kind} y) {{ y = Identity(s) }}"
    found = verify(model(text, 16), model(text, 17))
    assert found.equal, str(found)

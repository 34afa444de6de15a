# SPDX-License-Identifier: Apache-2.0
"""Generated inputs: legal for the graph, of two sizes, and equal for equal seeds."""

from __future__ import annotations

import random

import numpy as np
import pytest
from opshift.author import registry
from opshift.testing.model_text import parse_model
from opshift.verify import cases, generate, hints, verify

pytestmark = pytest.mark.usefixtures("models_run_here")


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
    proto = model("(float[n] x, bool c, bool[1] d) => (float[n] y) { y = Neg(x) }")
    for seed in range(9):
        first, second = (
            case.values for case in generate.cases(proto, seed, generate.FIRST, registry.default())
        )
        assert {bool(first["c"]), bool(second["c"])} == {False, True}
        assert {bool(first["d"][0]), bool(second["d"][0])} == {False, True}


def test_two_sizes_of_every_axis_and_others_of_other_axes():
    sizes = [x["x"].shape for x in made("(float[n,m] x) => (float[n,m] y) { y = Neg(x) }")]
    assert sizes == [(2, 3), (3, 4)]


def test_the_seed_decides():
    proto = model("(float[n] x) => (float[n] y) { y = Neg(x) }")
    drawn = [
        [
            case.values["x"].tolist()
            for case in generate.cases(proto, seed, generate.FIRST, registry.default())
        ]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert "seed 2.0" in str(verify(proto, proto, seed=2, engine="opshift"))


def test_a_picture_is_large_where_small_ones_do_not_fit():
    text = "(float[n,3,h,w] x) => (float[n,3,a,b] y) { y = MaxPool<kernel_shape=[32,32]>(x) }"
    verification = verify(model(text), model(text), engine="onnxruntime")
    assert verification.equal
    assert [row.inputs.partition(", ")[2].partition(", ")[2] for row in verification.rows] == [
        "n=2, h=64, w=96",
        "n=1, h=224, w=224",
    ]


def test_calm_values_where_others_do_not_fit():
    text = "(int64[n] i) => (float[n] y) <float[6] t = {1,2,3,4,5,6}, int64 two = {2}> { j = Add(i, two) y = Gather(t, j) }"
    verification = verify(model(text), model(text), engine="opshift")
    assert verification.equal
    assert len(verification.rows) == 2
    text = "(int64[4] i) => (float[4] y) <float[3] t = {1,2,3}, int64 two = {1}> { j = Add(i, two) y = Gather(t, j) }"
    verification = verify(model(text), model(text), engine="opshift", seed=3)
    assert verification.equal
    assert all("calm" in row.inputs for row in verification.rows)


@pytest.mark.parametrize("kind", ["seq(float[3])", "optional(float[3])", "optional(seq(float[3]))"])
def test_sequences_and_optionals(kind):
    text = f"({kind} s) => ({kind} y) {{ y = Identity(s) }}"
    verification = verify(model(text, 16), model(text, 17))
    assert verification.equal, str(verification)


def test_every_generated_value_is_an_array_of_the_declared_type():
    """This includes single numbers, for which numpy functions often return a scalar."""
    wanted = {kind for uses in hints.USES.values() for kind in uses.values()} - {"index"}
    for (domain, op), uses in hints.USES.items():
        for shape in ("", "[]", "[1]", "[n,3]"):
            for element in ("float", "int64", "int32", "bool", "float16"):
                count = max(uses) + 1
                names = [f"i{number}" for number in range(count)]
                inputs = ", ".join(f"{element}{shape} {name}" for name in names)
                call = f"{domain}.{op}" if domain else op
                text = f"({inputs}) => ({element}[a] y) {{ y = {call}({', '.join(names)}) }}"
                for given in made(text):
                    for name in names:
                        assert isinstance(given[name], np.ndarray), (op, shape, element, name)
                        assert given[name].dtype == {"float": "float32"}.get(element, element)
                wanted -= {*uses.values()}
    assert not wanted


@pytest.mark.parametrize("value", [True, 3, 2.5, np.bool_(True), np.float32(1), [np.int64(1)]])
def test_what_a_caller_gives_is_handed_on_as_arrays(value):
    kind = {bool: "bool[]", float: "float[]"}.get(type(value), "int64[]")
    if isinstance(value, np.generic):
        kind = {"bool": "bool[]", "float32": "float[]"}[value.dtype.name]
    proto = model(f"({kind} x) => ({kind} y) {{ y = Identity(x) }}")
    (case,) = cases.given(proto, {"x": value})
    inner = case.values["x"][0] if isinstance(value, list) else case.values["x"]
    assert isinstance(inner, np.ndarray)
    if not isinstance(value, list):
        verification = verify(proto, proto, {"x": value})
        assert verification.equal
        assert {side.engine for side in verification.sides} == {"onnxruntime"}


def test_a_condition_among_the_inputs_is_judged_by_onnxruntime():
    proto = model("""(int64 n, bool c, float[2] x) => (float[2] y) {
        y = Loop(n, c, x) <body = b (int64 i, bool ci, float[2] xi) => (bool co, float[2] xo) {
            co = Identity(ci) xo = Add(xi, xi) }> }""", 11)  # fmt: skip
    verification = verify(proto, proto)
    assert verification.equal
    assert {side.engine for side in verification.sides} == {"onnxruntime"}


def test_inputs_of_attention_with_a_cache_fit_each_other():
    """The sizes of batch, past and new tokens are random, but lengths and shapes agree."""
    rng = random.Random(39)
    for _ in range(40):
        batch, new, heads = rng.randint(1, 3), rng.randint(1, 4), rng.choice([1, 2])
        past = rng.choice([None, 0, 1, 5])
        if past is not None:
            batch = 1 if new > 1 else batch  # several tokens behind a cache are of one row
        cache = (
            ""
            if past is None
            else "".join(f", float[{batch},{heads},{past},8] {name}" for name in "cd")
        )
        given = '"", ""' if past is None else "c, d"
        total = new + (past or 0)
        text = f"""(float[{batch},{new},32] q, float[{batch},{new},{8 * heads}] k,
            float[{batch},{new},{8 * heads}] v{cache}, int32[{batch}] l, int32 t) => (
            float[{batch},{new},32] y, float[{batch},{heads},{total},8] e,
            float[{batch},{heads},{total},8] f) {{
            y, e, f = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads={heads}>(
            q, k, v, {given}, l, t) }}"""  # fmt: skip
        proto = parse_model(
            f'<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g {text}'
        )
        verification = verify(proto, proto)
        assert verification.equal, (text, str(verification))
        assert verification.sides[0].engine == "onnxruntime"


@pytest.mark.parametrize("call", ["com.acme.Run", "com.microsoft.NoSuch"])
def test_an_operator_that_is_not_registered_is_named(call):
    text = f"(float[2] x) => (float[2] y) {{ y = {call}(x) }}"
    proto = parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1, "com.microsoft" : 1]> g ' + text
    )
    told = str(verify(proto, proto))
    assert f"operator {call} is not registered in this onnxruntime" in told
    assert "or raise the time limit" not in told


def test_an_input_that_is_too_large_is_not_generated():
    with pytest.raises(MemoryError, match=r"an input of the shape \[.*\] has \d+ elements"):
        made(f"(float[{1 << 62},{1 << 62}] x) => (float[n,m] y) {{ y = Neg(x) }}")

# SPDX-License-Identifier: Apache-2.0
"""The sets of inputs of an example, and the process that compares two models on them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from onnx import parser
from opshift.testing import compared
from opshift.testing.input_sets import SETS, input_sets
from opshift.testing.judge_process import JudgeProcess

HEADER = '<ir_version: 8, opset_import: ["" : 17]> g '
MODEL = parser.parse_model(
    HEADER + "(float[N] x, int64[N] i, uint8[2] u, float[3] given, bool[2] b) => (float[N] y)"
    " { y = Neg(x) }"
)


def test_every_set_has_what_its_name_says() -> None:
    sets = dict(input_sets(MODEL, {"given": [1.0, np.nan, 2.0]}))
    assert tuple(sets) == SETS
    sizes = {name: feeds["x"].shape for name, feeds in sets.items()}
    assert (sizes["empty"], sizes["one"], sizes["other"]) == ((0,), (1,), (5,))
    assert (sets["negative"]["x"] < 0).all()
    assert (sets["negative"]["i"] < 0).all()
    assert set(sets["repeated"]["i"].tolist()) <= {-1, 0}
    assert abs(sets["beyond"]["i"]).min() > 2**52
    assert np.isinf(sets["infinite"]["x"]).any()
    assert np.isnan(sets["nan"]["x"]).any()
    assert (sets["zeros"]["x"] == 0).all()
    assert np.signbit(sets["zeros"]["given"]).any()
    assert not np.signbit(sets["negative"]["given"][1])  # NaN stays as it is
    for feeds in sets.values():
        assert feeds["x"].dtype == np.float32
        assert feeds["u"].dtype == np.uint8


def test_a_given_integer_stays_except_where_places_are_drawn() -> None:
    sets = dict(input_sets(MODEL, {"i": [5, 6]}))
    names = {name for name, feeds in sets.items() if feeds["i"].tolist() == [5, 6]}
    assert names == set(sets) - {"repeated"}
    assert {"empty", "one"}.isdisjoint(sets)  # N is fixed by what is given


def test_no_integer_is_divided_by_zero() -> None:
    model = parser.parse_model(
        HEADER + "(int32[40] a, int32[40] b) => (int32[40] y) { y = Div(a, b) }"
    )
    assert all(feeds["b"].all() for name, feeds in input_sets(model, {}) if name != "given")


def test_a_difference_is_told_by_the_set_that_shows_it() -> None:
    pytest.importorskip("onnxruntime")
    text = HEADER + "(float[N] x) => (float[N] y) {{ {} }}"
    before, after = (
        parser.parse_model(text.format(formula))
        for formula in ("y = Abs(x)", "z = Relu(x) y = Identity(z)")
    )
    judge = JudgeProcess()
    try:
        found = dict(judge.compare(before, after, {"x": [1.0, 2.0]}, SETS))
        assert not found["given"]
        assert "2 of 2 elements differ" in found["negative"]
        assert found == dict(judge.compare(before, after, {"x": [1.0, 2.0]}, SETS))
    finally:
        judge.close()


def test_a_process_that_ends_is_a_difference_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = JudgeProcess()
    asked = []

    def ask(order: object, found: dict[str, str]) -> tuple[str, bool, str]:
        _, _, _, sets, _, runtime = order  # type: ignore[misc]
        asked.append((list(sets), runtime))
        if sets[0] == "given" and runtime:  # the original ends it
            return "given", False, "ended with exit code -11"
        if sets[0] == "given":
            found["given"] = ""
            return "nan", True, "ended with exit code -8"  # the result ends it
        found.update(dict.fromkeys(sets, ""))
        return sets[-1], False, ""

    monkeypatch.setattr(judge, "_ask", ask)
    found = dict(judge.compare(MODEL, MODEL, {}, ["given", "nan", "one"]))
    assert found == {"given": "", "nan": "the process ended with exit code -8", "one": ""}
    assert asked == [
        (["given", "nan", "one"], True),
        (["given", "nan", "one"], False),
        (["one"], False),
    ]


def test_an_infinite_or_open_result_may_be_another() -> None:
    policy = compared._Policy(0.0, 0.0, frozenset(), ["y"])
    inf, nan = np.float32([np.inf, 1]), np.float32([np.nan, 1])
    assert policy.difference([inf], [nan], "given")
    assert not policy.difference([inf], [nan], "nan")
    assert policy.difference([nan], [np.float32([1, 2])], "nan")
    assert policy.difference([np.float32([1, 1])], [nan], "nan")
    assert not policy.difference([np.int32([1])], [np.int32([2])], "nan")
    assert policy.difference([np.bool_([True])], [np.bool_([False])], "nan")


def test_a_process_that_gives_no_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [sys.executable, "-c", "import time; time.sleep(3600)"]
    pipe = subprocess.PIPE

    def silent() -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, stdin=pipe, stdout=pipe)

    judge = JudgeProcess(seconds=0.1)
    monkeypatch.setattr(judge, "_started", silent)
    end = "was ended after 0.1 s without an answer"
    assert judge._ask((), {}) == ("", False, end)
    with pytest.raises(RuntimeError, match=f"the child process {end} before it ran any inputs"):
        judge.compare(MODEL, MODEL, {}, ("given",))


def test_an_original_that_never_answers_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = JudgeProcess()
    monkeypatch.setattr(judge, "_ask", lambda order, found: (order[3][0], False, "was ended"))
    assert judge.compare(MODEL, MODEL, {}, SETS) == []

# SPDX-License-Identifier: Apache-2.0
"""Tests how the results of two models are compared, and what a report says about them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from fake_runtimes import fake_python
from opshift import verify
from opshift.verify import extra, generate, pair_results
from opshift.verify.verification import DIFFERENT, EQUAL, LIKE, UNKNOWN
from text_models import model

pytestmark = pytest.mark.usefixtures("models_run_here")

NEG = "(float[2] x) => (float[2] y) { y = Neg(x) }"
FOREIGN = "(float[2] x) => (float[2] y) { y = own.Run(x) }"
X = {"x": np.array([1, 2], "f4")}


def outcomes(found):
    return [(row.output, row.outcome) for row in found.rows]


def test_another_number_of_outputs_is_a_difference():
    more = model("(float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Abs(x) }")
    for a, b, says in ((model(NEG), more, "A has 1 output, B has 2"),
                       (more, model(NEG), "A has 2 outputs, B has 1")):  # fmt: skip
        verification = verify(a, b, X)
        assert verification.different
        assert verification.rows[-1].detail == says
        assert str(verification).startswith("Different")


def test_outputs_are_paired_by_name_and_otherwise_by_position():
    a = model("(float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Abs(x) }")
    turned = model("(float[2] x) => (float[2] z, float[2] y) { y = Neg(x) z = Abs(x) }")
    proto = model("(float[2] x) => (float[2] p, float[2] q) { p = Neg(x) q = Abs(x) }")
    crossed = model("(float[2] x) => (float[2] p, float[2] y) { p = Neg(x) y = Abs(x) }")
    for b in (turned, proto, crossed):
        assert outcomes(verify(a, b, X)) == [("y", EQUAL), ("z", EQUAL)]


@pytest.mark.parametrize(("place", "letter"), [(0, "A"), (1, "B")])
def test_a_model_without_a_result_is_neither_equal_nor_different(place, letter):
    both = [model(NEG), model(NEG)]
    both[place] = model(FOREIGN, more=', "own" : 1')
    verification = verify(*both, X)
    assert not verification.equal
    assert not verification.different
    assert verification.rows[0].outcome == UNKNOWN
    assert verification.rows[0].detail.startswith(f"{letter} gave no answer: ")
    assert str(verification).startswith("Not shown to be equal")


def test_inputs_of_the_caller_are_used_and_named_by_their_number():
    verification = verify(model(NEG), model(NEG), [X, {"x": np.array([3, 4], "f4")}])
    assert len(verification.rows) == 2
    assert verification.equal
    assert len({row.inputs for row in verification.rows}) == 2
    only_positive = model("(float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }")
    second = verify(model(NEG), only_positive, [X, {"x": np.array([-3, 4], "f4")}])
    assert outcomes(second) == [("y", EQUAL), ("y", DIFFERENT)]
    assert second.cause is not None
    assert second.cause.inputs == second.rows[1].inputs  # the inputs that show the difference


SELECTED = (
    "(float[1,4,4] b, float[1,1,4] s) => (int64[n,3] y)"
    " <int64 k = {3}, float i = {0.5}, float t = {LOWEST}>"
    " { y = NonMaxSuppression(b, s, k, i, t) }"
)


def test_an_output_without_elements_proves_nothing_about_numbers():
    """Both models select no box, so it is not known whether they would select the same ones."""
    a, b = (model(SELECTED.replace("LOWEST", low), 18) for low in ("100", "200"))
    verification = verify(a, b)
    assert {row.outcome for row in verification.rows} == {LIKE}
    assert {row.distance for row in verification.rows} == {None}
    assert (
        verification.notes[-1]
        == "'y' has no finite number, so only its type and shape were compared"
    )
    assert str(verification).startswith("Equal in type and shape: no number was compared.")


def test_an_output_that_is_nan_everywhere_proves_nothing_about_numbers():
    text = "(float[4] x) => (float[4] y) <float k = {-1}> { a = Abs(x) b = Sub(k, a) y = OP(b) }"
    verification = verify(model(text.replace("OP", "Sqrt")), model(text.replace("OP", "Log")))
    assert {row.outcome for row in verification.rows} == {LIKE}
    assert str(verification).startswith("Equal in type and shape: no number was compared.")
    number_against_nan = verify(model(text.replace("OP", "Sqrt")), model(text.replace("OP", "Neg")))
    assert number_against_nan.different


def test_inputs_with_numbers_are_preferred_to_inputs_that_give_nan():
    """A random number may be negative; the logarithm of calm numbers is always a number."""
    text = "(float[64] x) => (float y) { t = Tanh(x) a = Log(t) y = ReduceSum<keepdims = 0>(a) }"
    verification = verify(model(text), model(text))
    assert [row.outcome for row in verification.rows] == [EQUAL, EQUAL]
    assert all("calm" in row.inputs for row in verification.rows)


def test_empty_results_beside_others_need_no_note():
    text = "(float[n] x) => (float[n] y) { y = Neg(x) }"
    sizes = [{"x": np.zeros(size, "f4")} for size in (0, 2)]
    verification = verify(model(text), model(text), sizes)
    assert outcomes(verification) == [("y", LIKE), ("y", EQUAL)]
    assert not verification.notes
    assert str(verification).startswith("Equal: both models compute the same results.")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.zeros(0), False),
        (np.zeros(1), True),
        ([], False),
        ([np.zeros(0)], False),
        ([np.zeros(0), np.zeros(1)], True),
        ({}, False),
        ({"a": 1.0}, True),
        ([{1: 2.0}], True),
        ({"a": np.zeros(0)}, False),
        (None, True),
        (np.array([np.nan, np.inf], "f4"), False),
        (np.array([np.nan, 1], "f4"), True),
        (np.array([np.nan], ml_dtypes.bfloat16), False),
        (np.array([np.nan + 1j], "c8"), False),
        (np.array([0]), True),
        (np.array([False]), True),
        (np.array(["a"], object), True),
    ],
)
def test_a_value_has_a_number(value, expected):
    assert pair_results._has_number(value) is expected


def test_random_outputs_beside_others_do_not_hide_a_difference():
    a = model("(float[2] x) => (float[2] r, float[2] y) { r = RandomNormalLike(x) y = Neg(x) }")
    b = model("(float[2] x) => (float[2] r, float[2] y) { r = RandomNormalLike(x) y = Abs(x) }")
    assert outcomes(verify(a, a, X)) == [("r", LIKE), ("y", EQUAL)]
    assert verify(a, a, X).notes == (
        "'r' depends on random numbers, so only its type and shape were compared",
    )
    assert outcomes(verify(a, b, X)) == [("r", LIKE), ("y", DIFFERENT)]
    shorter = model(
        "(float[2] x) => (float[1] r, float[2] y) { r = RandomNormal<shape = [1]>() y = Neg(x) }"
    )
    assert outcomes(verify(a, shorter, X)) == [("r", DIFFERENT), ("y", EQUAL)]


def test_generated_inputs_go_on_until_two_have_results(monkeypatch):
    """A model that needs rare inputs is tried with other sizes and calmer numbers."""
    asked = []
    cases = generate.cases
    monkeypatch.setattr(generate, "cases", lambda *a, **k: asked.append(k) or cases(*a, **k))
    assert len({row.inputs for row in verify(model(NEG), model(NEG)).rows}) == 2
    assert len(asked) == 1
    asked.clear()
    reshaped = "(float[n] x) => (float[7] y) <int64[1] s = {7}> { y = Reshape(x, s) }"
    verification = verify(model(reshaped), model(reshaped), engine="opshift")
    assert len(asked) > 1
    assert verification.equal or verification.notes[0].startswith(
        "A has no result for generated inputs; "
    )


@pytest.mark.parametrize(("size", "attempts"), [("n", 4), ("3", 2)])
def test_other_sizes_are_tried_only_if_the_model_leaves_them_open(monkeypatch, size, attempts):
    asked = []
    cases = generate.cases
    monkeypatch.setattr(generate, "cases", lambda *a, **k: asked.append(k) or cases(*a, **k))
    failing = model(f"(float[{size}] x) => (y) <int64[1] s = {{7}}> {{ y = Reshape(x, s) }}")
    verification = verify(failing, failing, engine="opshift")
    assert len(asked) == attempts
    assert [row.outcome for row in verification.rows] == [UNKNOWN]  # one failure says enough


def test_time_ends_the_search_for_inputs(monkeypatch):
    begun, asked = iter(range(0, 10**6, 1000)), []
    cases = generate.cases
    monkeypatch.setattr(pair_results.time, "monotonic", lambda: next(begun))
    monkeypatch.setattr(generate, "cases", lambda *a, **k: asked.append(k) or cases(*a, **k))
    failing = model("(float[n] x) => (float[7] y) <int64[1] s = {7}> { y = Reshape(x, s) }")
    verify(failing, failing, engine="opshift")
    assert len(asked) == 1


def test_the_reason_for_no_result_says_what_helps(monkeypatch):
    foreign = model(FOREIGN, more=', "own" : 1')
    (advice,) = verify(foreign, foreign, engine="onnxruntime").notes
    assert advice.endswith("convert A for the runtime")
    (note,) = verify(foreign, foreign, engine="opshift").notes
    assert note == (
        "A has no result for generated inputs; check A with `opshift check`, give your own inputs,"
        " or raise the time limit"
    )
    monkeypatch.setattr(extra, "is_missing", lambda: True)
    assert verify(foreign, foreign).notes[0].endswith(extra.MISSING)
    assert not verify(foreign, foreign, X, engine="opshift").notes


OLD = model(NEG, 6)  # onnxruntime runs opset 7 and later
VENDOR = model(
    "(float[2] x) => (float[2] y) <float[2] v = {0, 0}> { y = com.microsoft.BiasGelu(x, v) }",
    more=', "com.microsoft" : 1',
)  # opshift has no description of the operator


def engines(found):
    return [side.engine for side in found.sides]


def test_both_models_run_in_one_engine_if_one_runs_both():
    assert engines(verify(model(NEG), model(NEG), X)) == ["onnxruntime", "onnxruntime"]
    for a, b in ((OLD, model(NEG)), (model(NEG), OLD)):
        verification = verify(a, b, X)
        assert engines(verification) == ["opshift", "opshift"]
        assert verification.equal


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(OLD, VENDOR, ["opshift", "onnxruntime"]), (VENDOR, OLD, ["onnxruntime", "opshift"])],
)
def test_otherwise_each_model_runs_in_its_own_engine(monkeypatch, a, b, expected):
    """The search for the first difference also uses these engines."""
    searched = []
    monkeypatch.setattr(pair_results.locate, "first", lambda _, pair, *__: searched.append(pair))
    verification = verify(a, b, X)
    assert engines(verification) == expected
    assert verification.different
    assert searched == [tuple(expected)]


@pytest.mark.parametrize("inputs", [None, {"x": np.array([1, 2], "f8")}])
def test_the_report_names_the_engine_that_has_the_results(inputs):
    """No kernel of onnxruntime computes Cosh in double."""
    cosh = model("(double[2] x) => (double[2] y) { y = Cosh(x) }")
    verification = verify(cosh, cosh, inputs)
    assert engines(verification) == ["opshift", "opshift"]
    assert verification.equal
    assert all(side.why.startswith("onnxruntime gave no answer: ") for side in verification.sides)


def test_the_second_model_runs_in_the_runtime_of_the_caller(tmp_path):
    """The runtime of one model does not decide about the other model."""
    verification = verify(model(NEG), OLD, X, runtime=fake_python(tmp_path, {}))
    first, second = verification.sides
    assert first.engine == "onnxruntime"
    assert second.engine.endswith(f" of {tmp_path / 'python'}")
    assert verification.equal


def test_values_inside_are_compared_only_if_the_first_model_has_results():
    text = "(float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) }"
    for values, rows in ((["a"], [("y", EQUAL), ("a", EQUAL)]), ([], [("y", EQUAL)])):
        verification = verify(model(text), model(text), X, values=values)
        assert outcomes(verification) == rows
    foreign = model(text.replace("Abs", "own.Run"), more=', "own" : 1')
    assert outcomes(verify(foreign, foreign, X, values=["a"])) == [("", UNKNOWN)]


def test_models_run_in_this_process_if_the_caller_wants_it():
    verification = verify(model(NEG), model(NEG), isolated=False)
    assert [row.outcome for row in verification.rows] == [EQUAL, EQUAL]


def test_models_of_two_types_are_compared_in_double():
    wide = model(NEG.replace("float", "double"))
    verification = verify(model(NEG), wide, X)
    assert verification.equal
    types, measured = verification.notes
    assert all(f"'{name}' is float in A and double in B" in types for name in "xy")
    assert "in double" in measured
    (measured,) = verify(model(NEG), model(NEG), X, in_double=True).notes
    assert "in double" in measured
    assert not verify(model(NEG), model(NEG), X).notes


def test_models_of_two_types_have_no_measure_without_results():
    foreign = model(FOREIGN, more=', "own" : 1')
    wide = model(FOREIGN.replace("float", "double"), more=', "own" : 1')
    verification = verify(foreign, wide, X)
    assert outcomes(verification) == [("", UNKNOWN)]
    assert not verification.notes

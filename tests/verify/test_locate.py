# SPDX-License-Identifier: Apache-2.0
"""Finds the first value in which two models differ, its node, and a model that repeats it."""

from __future__ import annotations

import shlex

import numpy as np
import onnx
import pytest
from opshift import convert_version
from opshift.adapter import KEEP, Builder, Node, Result, adapter
from opshift.author import registry
from opshift.testing.model_text import parse_model
from opshift.verify import verify
from opshift.verify.pair import Pair

pytestmark = pytest.mark.usefixtures("models_run_here")

HIDDEN = """(float[2,3] x) => (float[2,3] y) <float zero = {0}> {
    s = Softmax<axis=0>(x)  m = Mul(s, zero)  p = Add(x, m)
    t = Softmax<axis=0>(p)  y = Neg(t)
}"""


@adapter("Softmax", 12, 13)
def wrong_softmax(node: Node, op: Builder) -> Result:
    """The axis is forgotten."""
    node.int("axis")
    return op.same(node, axis=-1)


@adapter("Softmax", 12, 13)
def kept_softmax(node: Node, op: Builder) -> Result:
    """A wrong claim that Softmax is unchanged."""
    return KEEP


@pytest.fixture
def wrong(monkeypatch):
    def use(one):
        branch = registry.default().branch()
        branch._verdicts["", "Softmax", 12, 13] = one
        monkeypatch.setattr(registry, "default", lambda: branch)

    return use


def model(text, opset=12, more=""):
    return parse_model(f'<ir_version: 8, opset_import: ["" : {opset}{more}]> g {text}')


@pytest.mark.parametrize("engine", ["opshift", "onnxruntime"])
def test_a_difference_that_vanishes_and_comes_again_is_found_where_it_begins(wrong, engine):
    wrong(wrong_softmax)
    before = model(HIDDEN)
    verification = verify(before, convert_version(before, 13), engine=engine)
    assert verification.different
    assert (verification.cause.value, verification.cause.after) == ("s", "Softmax")
    assert verification.cause.adapters == (f"{__name__}.wrong_softmax (Softmax 12->13)",)


def test_what_one_run_cannot_hold_is_looked_at_in_halves(wrong, monkeypatch):
    """A model whose values exceed the memory is compared in parts; small models never are."""
    wrong(wrong_softmax)
    before = model(HIDDEN.replace("s = Softmax<axis=0>(x)", "s = Softplus(x)"))
    before.graph.node[3].name = "late"
    run, asked = Pair.run, []

    def poor(self, subject, engine, cases):
        asked.append(len(subject.model.graph.output))
        return run(self, subject, engine, cases) if asked[-1] < 3 else [({}, "no memory")]

    monkeypatch.setattr(Pair, "run", poor)
    verification = verify(before, convert_version(before, 13), engine="opshift")
    assert (verification.cause.value, verification.cause.before) == ("t", "Softmax 'late'")
    assert max(asked) == 5


def test_the_piece_holds_what_it_needs_and_repeats_the_difference(wrong, tmp_path):
    wrong(wrong_softmax)
    text = """(float[n,3] x, bool c) => (float[n,3] y) <float[3] w = {1, 2, 3}> {
        unused = own.Other(x)  a = Add(x, w)
        s = If (c) <then_branch = t () => (float[n,3] p) { p = own.Soft(a) }, else_branch = e () => (float[n,3] q) { q = Neg(x) }>
        y = Add(s, w)
    } <opset_import: ["" : 12], domain: "own"> Soft (u) => (v) { v = Softmax<axis=0>(u) }
    <opset_import: ["" : 12], domain: "own"> Other (u) => (v) { v = Abs(u) }"""
    before = model(text, more=', "own" : 1')
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) ** 2, "c": np.array(True)}
    verification = verify(
        before, convert_version(before, 13), inputs, engine="opshift", reduce=tmp_path / "piece"
    )
    assert (verification.cause.value, verification.cause.before) == ("s", "If")
    assert "wrong_softmax" in verification.cause.adapters[0]
    piece = onnx.load(tmp_path / "piece" / "a.onnx")
    assert [node.op_type for node in piece.graph.node] == ["If"]
    assert {info.name for info in piece.graph.input} == {"x", "a", "c"}
    assert [function.name for function in piece.functions] == ["Soft"]
    onnx.checker.check_model(piece)
    again = verify(*(tmp_path / "piece" / n for n in ("a.onnx", "b.onnx", "inputs.npz")))
    assert again.different


def test_who_said_that_nothing_changed_is_named(wrong):
    wrong(kept_softmax)
    before = model("(float[2,3,4] x) => (float[2,3,4] y) { s = Softmax<axis=1>(x) y = Neg(s) }")
    verification = verify(before, convert_version(before, 13), engine="opshift")
    assert verification.cause.value == "s"
    assert verification.cause.adapters == (
        f"{__name__}.kept_softmax (Softmax 12->13, kept as it is)",
    )


def test_a_difference_that_grows_is_shown_from_the_inputs_on(tmp_path):
    text = "(float[4] x) => (float[4] y) <float w = {%s}> { a = Mul(x, w) b = Mul(a, w) y = Mul(b, w) }"
    verification = verify(
        model(text % "1"), model(text % "1.00006"), ulp=0, atol=0.0, reduce=tmp_path
    )
    assert (verification.cause.value, verification.cause.before) == ("b", "Mul Mul")
    assert "grows over several nodes" in verification.cause.detail
    assert verify(
        tmp_path / "a.onnx", tmp_path / "b.onnx", tmp_path / "inputs.npz", ulp=0, atol=0.0
    ).different


@pytest.mark.parametrize(
    "text",
    [
        "(seq(float[N]) s) => (float[M] y) { c = ConcatFromSequence<axis=0>(s) y = %s(c) }",
        "(seq(string[N]) s, float[2] x) => (float[2] y) { n = SequenceLength(s) c = Cast<to=1>(n) m = Add(x, c) y = %s(m) }",
        "(float[3] x) => (float[3] y) { file = Neg(x) y = %s(file) }",
        "(float[3] x) => (float[3] y) { a = Neg(x) allow_pickle = Mul(a, x) y = %s(allow_pickle) }",
    ],
)
def test_the_saved_difference_repeats_whatever_its_inputs_are(tmp_path, text):
    a, b = (model(text % op) for op in ("Abs", "Exp"))
    folder = tmp_path / "what differs"
    verification = verify(a, b, reduce=folder)
    left, right, _, inputs = shlex.split(verification.cause.saved)
    assert verify(left, right, inputs).cause.value == verification.cause.value == "y"

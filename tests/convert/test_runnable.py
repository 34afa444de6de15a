# SPDX-License-Identifier: Apache-2.0
"""Nodes that a runtime can run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from opshift.convert.runtime import (
    runnable,
)
from opshift.opsets import targets
from opshift.opsets.kernels import Missing
from runtime_rows import PLAIN, Misreading, builder_of, only_misread, without
from text_models import model


@pytest.mark.parametrize(
    ("row", "runs"),
    [
        (PLAIN, True),
        (replace(PLAIN, without=(targets.Lacking("Neg"),)), False),
        (without(Neg_13=Missing(("T",), frozenset({("double",)}))), False),
        (without(Neg_13=Missing(("T",), frozenset({("float",)}))), True),
        (without(Neg_13=Missing(("T",), frozenset(), frozenset({("double",)}))), True),
    ],
)
def test_nodes_run_if_no_lack_is_known(row, runs):
    nodes, op, rules = builder_of(
        model("(double[2] x) => (double[2] y) { a = Abs(x) y = Neg(a) }", 13)
    )
    assert runnable.runs(nodes, op, row, rules) == runs


@pytest.mark.parametrize(("misread", "runs"), [("y = Neg(a)", False), ("y = Exp(a)", True)])
def test_nodes_with_a_misread_form_do_not_run(misread, runs, monkeypatch):
    only_misread(monkeypatch, Misreading())
    nodes, op, rules = builder_of(
        model(f"(float[2] x) => (float[2] y) {{ a = Abs(x) {misread} }}", 13)
    )
    assert runnable.runs(nodes, op, PLAIN, rules) == runs


@pytest.mark.parametrize(
    ("processors", "answer", "runs", "surely"),
    [("", None, True, False), ("x86", True, True, False), ("", False, True, True)],
)
def test_nodes_that_are_perhaps_misread_do_not_surely_run(
    processors, answer, runs, surely, monkeypatch
):
    only_misread(monkeypatch, Misreading(processors, answer))
    nodes, op, rules = builder_of(
        model("(float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }", 13)
    )
    assert runnable.runs(nodes, op, PLAIN, rules) == runs
    assert runnable.runs(nodes, op, PLAIN, rules, doubtful=True) == surely

# SPDX-License-Identifier: Apache-2.0
"""Tests which functions of a model call each other, directly and through others."""

from __future__ import annotations

from opshift.model.functions import behind, called, callers_of, calls_of, functions_of
from text_models import model

BODIES = """
<opset_import: ["" : 18, "o" : 1], domain: "o"> A (a) => (b) { c = o.B(a) b = o.C(c) }
<opset_import: ["" : 18, "o" : 1], domain: "o"> B (a) => (b) { b = o.C(a) }
<opset_import: ["" : 18, "o" : 1], domain: "o"> C (a) => (b) { b = Neg(a) }
<opset_import: ["" : 18, "o" : 1], domain: "o"> D (a) => (b) { b = o.D(a) }
"""
A, B, C, D = (("o", name, "") for name in "ABCD")


def loaded(body):
    proto = model(
        f"(float[2] x, bool c) => (float[2] y) {{ {body} }}{BODIES}", 18, more=', "o" : 1'
    )
    return proto.graph.node, calls_of(functions_of(proto))


def test_direct_calls_and_callers():
    _, calls = loaded("y = Neg(x)")
    assert calls == {A: {B, C}, B: {C}, C: set(), D: {D}}
    assert {which: sorted(callers) for which, callers in callers_of(calls).items()} == {
        B: [A], C: [A, B], D: [D],
    }  # fmt: skip


def test_functions_that_are_reached_through_others():
    _, calls = loaded("y = Neg(x)")
    assert behind(calls, A) == {B, C}
    assert behind(calls, B, D) == {C, D}
    assert behind(calls, C) == behind(calls) == set()
    assert behind(callers_of(calls), C) == {A, B}


def test_functions_that_nodes_call():
    for body, expected in (
        ("y = Neg(x)", set()),
        ("y = o.B(x)", {B, C}),
        ("z = o.B(x) y = o.D(z)", {B, C, D}),
        ("y = If(c) <then_branch = t () => (float[2] p) { p = o.A(x) },"
         " else_branch = e () => (float[2] q) { q = Neg(x) }>", {A, B, C}),
        ("y = o.Missing(x)", set()),
    ):  # fmt: skip
        assert called(*loaded(body)) == expected

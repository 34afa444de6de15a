# SPDX-License-Identifier: Apache-2.0
"""The table `lengths.txt` of node counts, which `test_examples.py` compares with each result."""

from __future__ import annotations

from text_models import model

from tools.author import lengths


def test_what_is_longer_or_not_recorded_is_told() -> None:
    one, two, three = (lengths.Length(count, 2 * count, kept=False) for count in (1, 2, 3))
    known = {"a": [one, three], "b": [two]}
    assert list(lengths.objections(known, {"a": [one, two], "b": [two]})) == []
    assert list(lengths.objections(known, {"a": [two, three], "c": [one]})) == [
        "a: 2/4 3/6, 1/2 3/6 recorded", "c: 1 results, 0 recorded",
    ]  # fmt: skip


def test_a_result_with_more_attributes_or_for_no_reason_another_is_worse() -> None:
    then = lengths.Length(2, 5, kept=True)
    assert not lengths.worse(then, then)
    assert lengths.worse(then, then._replace(parts=6))
    assert lengths.worse(then, then._replace(kept=False))
    assert not lengths.worse(then._replace(kept=False), lengths.Length(1, 9, kept=False))


def test_names_do_not_make_another_model() -> None:
    graph = "(float[2] x) => (float[2] y) { %s = Neg(x) y = LeakyRelu<alpha=%s>(%s) }"
    plain = model(graph % ("a", 0.5, "a"), 13)
    assert str(lengths.length(plain, plain)) == "2/3="
    assert lengths.length(plain, model(graph % ("b", 0.5, "b"), 13)).kept
    assert not lengths.length(plain, model(graph % ("a", 0.25, "a"), 13)).kept

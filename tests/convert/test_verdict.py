# SPDX-License-Identifier: Apache-2.0
"""A verdict holds each reason and each doubt that the parts of the search find."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from opshift.convert.legal import runtime
from opshift.convert.legal.verdict import Verdict, verdict

REASONS = ("stamps", "below_floor", "lacking", "forms", "kernels")
DOUBTS = ("unknown", "in_doubt")
RELEASE = SimpleNamespace(shown="a runtime 1.0")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Each part of the search finds its own name; returns the values seen, as these are given."""
    given: list[object] = []

    def part(name):
        def find(document, release, *more):
            given.extend(more[1:])
            return [name]

        return find

    for name in (*REASONS, *DOUBTS):
        monkeypatch.setattr(runtime, name, part(name))
    monkeypatch.setattr(runtime, "without_import", lambda release: (["rejected"], ["doubted"]))
    return given


@pytest.mark.parametrize("seen", [None, {}, {"a": "b"}])
def test_each_part_adds_its_reasons(parts, seen):
    found = verdict(None, RELEASE, None, seen)
    assert found == Verdict("a runtime 1.0", REASONS, DOUBTS)
    assert parts == [seen or {}] * 2
    assert parts[0] is parts[1]
    assert seen is None or parts[0] is seen


def test_an_import_that_was_added_is_judged_too(parts):
    found = verdict(None, RELEASE, None, lacks_import=True)
    assert found.reasons == ("rejected", *REASONS)
    assert found.unknown == ("doubted", *DOUBTS)


def test_equal_reasons_are_told_once():
    found = Verdict("a runtime 1.0", ("one", "two", "one"), ("perhaps",)).in_words
    assert tuple(found.reasons) == ("one", "two")

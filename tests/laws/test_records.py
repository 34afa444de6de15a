# SPDX-License-Identifier: Apache-2.0
"""A class that `opshift.records` makes behaves as one that Python's own decorator makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from operator import ge, gt, le, lt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opshift import records

NAMES = ("a", "b", "c", "d")
FORMS = {
    "plain": lambda: dataclasses.MISSING,
    "default": lambda: dataclasses.field(default=3),
    "factory": lambda: dataclasses.field(default_factory=lambda: (1, 2)),
    "not compared": lambda: dataclasses.field(default=5, compare=False),
    "not shown": lambda: dataclasses.field(default=6, repr=False),
    "by name": lambda: dataclasses.field(kw_only=True),
    "by name with default": lambda: dataclasses.field(default=7, kw_only=True),
    "made": lambda: dataclasses.field(init=False, default_factory=tuple),
}
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        name: st.booleans() for name in ("frozen", "slots", "eq", "repr", "order", "kw_only")
    },
)


def made(decorator, forms, options, after):
    """Returns a class with a field of each form, which pickle finds by its name."""
    body = {"__doc__": "A record.", "__module__": __name__, "__annotations__": {}}
    for name, form in zip(NAMES, forms, strict=False):
        body["__annotations__"][name] = int
        if (value := FORMS[form]()) is not dataclasses.MISSING:
            body[name] = value
    if after:
        body["__post_init__"] = lambda self: SEEN.append(type(self).__name__)
    found = decorator(**options)(type("Record", (), body))
    sys.modules[__name__].Record = found
    return found


SEEN: list[str] = []


def told(work):
    """Returns a result, or the kind of an error, so that two classes can be compared."""
    try:
        return work()
    except (TypeError, AttributeError, ValueError) as error:
        return type(error).__name__


def seen(cls, first, second):
    """Returns everything that the class shows to its user."""
    SEEN.clear()
    one = told(lambda: cls(*first[0], **first[1]))
    if isinstance(one, str):
        return one
    two = told(lambda: cls(*second[0], **second[1]))
    shown = "" if cls.__repr__ is object.__repr__ else repr(one)
    answers = [
        shown, one == one, one == two, one != two,
        *[told(lambda compare=compare: compare(one, two)) for compare in (lt, le, gt, ge)],
        told(lambda: hash(one) == hash(copy.copy(one))),
        told(lambda: setattr(one, "a", 1)),
        dataclasses.asdict(one), cls.__match_args__, getattr(cls, "__slots__", None),
        [f.name for f in dataclasses.fields(cls)], len(SEEN),
    ]  # fmt: skip
    again = pickle.loads(pickle.dumps(two)) if not isinstance(two, str) else None
    more = [] if again is None else [dataclasses.asdict(again), again == two]
    changed = told(lambda: dataclasses.asdict(dataclasses.replace(one, b=9)))
    return [*answers, *more, changed, told(lambda: delattr(one, "a"))]


CALLS = st.tuples(
    st.lists(st.integers(0, 2), max_size=4),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), max_size=4),
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(sorted(FORMS)), min_size=1, max_size=4),
    OPTIONS,
    st.booleans(),
    CALLS,
    CALLS,
)
def test_it_is_what_python_makes(forms, options, after, first, second):
    try:
        expected = made(dataclasses.dataclass, forms, options, after)
    except (TypeError, ValueError):  # a field without a default behind one that has one
        return
    wanted = seen(expected, first, second)
    assert seen(made(records.dataclass, forms, options, after), first, second) == wanted


def test_own_methods_stay():
    @records.dataclass(frozen=True, slots=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

    assert (repr(Own(1)), Own(1) == Own(2)) == ("mine", True)
    assert hash(Own(1)) == hash(Own(1))  # as Python's own decorator gives it one


def test_a_record_that_holds_itself_is_shown():
    @records.dataclass
    class Loop:
        a: object = None

    loop = Loop()
    loop.a = loop
    assert "..." in repr(loop)
    with pytest.raises(TypeError):
        hash(loop)

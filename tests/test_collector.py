# SPDX-License-Identifier: Apache-2.0
"""The garbage collector is paused while a model is converted or checked."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import opshift
import pytest
from growth_families import FAMILIES
from opshift import collector

VERBS = {
    "check": opshift.check,
    "convert": lambda model: opshift.convert_version(model, 13),
}


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """Records the collections, with Python's own thresholds."""
    phases: list[str] = []
    was_on, thresholds = gc.isenabled(), gc.get_threshold()
    note = lambda phase, details: phases.append(phase)  # noqa: E731 - to remove it again
    gc.callbacks.append(note)
    gc.set_threshold(700, 10, 10)
    gc.enable()
    yield phases
    gc.callbacks.remove(note)
    gc.set_threshold(*thresholds)
    if not was_on:
        gc.disable()


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_collects_a_few_times_whatever_the_size_of_the_model(
    verb: str, collections: list[str]
) -> None:
    counts = []
    for size in (50, 50, 800):
        model = FAMILIES["nodes in a chain"](size)
        collections.clear()
        VERBS[verb](model)
        counts.append(len(collections))
    assert counts[2] <= counts[1] + 6
    assert gc.isenabled()


@pytest.mark.parametrize("running", [True, False])
def test_the_collector_goes_on_only_if_it_was_on(running: bool, collections: list[str]) -> None:
    @collector.paused()
    def fail() -> None:
        assert not gc.isenabled()
        raise KeyError("x")

    (gc.enable if running else gc.disable)()
    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled() == running

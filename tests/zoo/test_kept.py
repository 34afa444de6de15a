# SPDX-License-Identifier: Apache-2.0
"""The outcomes of a run are stored in a file."""

from __future__ import annotations

import json
import tracemalloc

from opshift import results
from opshift.zoo.kept import KeptCases, KeptOutcomes
from opshift.zoo.outcome import Blocker, Fate, Outcome


def test_outcomes_come_back_by_name_and_as_often_as_wanted():
    blocker = Blocker("n", "Erf", "", (9, 8), "NOT_EXPRESSIBLE", "no form")
    said = [
        Outcome("b.onnx", Fate.REFUSED, "NOT_EXPRESSIBLE", blockers=(blocker,), source={"": 9}),
        Outcome("a\udcff.onnx", Fate.OK, seconds=0.5, reads=(("a", 3, "v1"),)),
    ]
    with KeptOutcomes() as kept:
        for outcome in said:
            kept.add(outcome)
        assert [*kept] == [*kept] == said[::-1]
        for form in results.FORMATS.values():
            listed = [outcome.case() for outcome in said[::-1]]
            assert form(KeptCases(kept, {}), "t") == form(listed, "t")
        first = json.loads(results.jsonl(KeptCases(kept, {}), "t").splitlines()[0])
        assert first["outcome"] == "ok"


def test_an_outcome_leaves_little_in_memory():
    """The driver keeps a short outcome of each model; the file has the long texts."""
    with KeptOutcomes() as kept:
        tracemalloc.start()
        for number in range(1000):
            kept.add(Outcome(f"m{number}.onnx", Fate.CRASHED, "why", f"{number} " + "x" * 900))
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 300 * 1000
        assert sum(1 for _ in kept) == 1000

# SPDX-License-Identifier: Apache-2.0
"""Finds the largest magnitudes of the values of a model, also inside subgraphs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from opshift.author import registry
from opshift.records import dataclass
from opshift.verify import engine_choice, engine_runs, locate
from opshift.verify.cases import InputSet
from opshift.verify.engine_runs import Results
from opshift.verify.oracle.values import is_float
from opshift.verify.pair import Pair
from opshift.verify.pair_results import first_answers
from opshift.verify.subject import Subject, opened, save
from opshift.verify.tolerance import StatedTolerance

MOST_OCTETS = 1 << 28  # the size of the values that one run returns, if there are many values
Largest = dict[str, float]
"""The largest finite magnitude by name. Values of one name in several graphs count as one value."""


def magnitudes(
    path: str, folder: str, names: Sequence[str], inside: bool, large: bool, inputs: str
) -> tuple[Largest, str]:
    """Returns the largest magnitudes of values of the main graph; with `inside`, of all graphs.

    If no magnitudes can be computed, the second result is the reason; else it is empty. With
    `inside` or `large`, the model runs node by node in our own evaluator. Unless `large` is true,
    the model and its data are written to `folder`.
    """
    model, adapters = Path(path), registry.default()
    subject = opened(model, Path(folder), "a", adapters)
    stated = StatedTolerance(None, None, None)
    engine, why = engine_choice.choose((subject.model, subject.model), "auto")[0]
    if not (inside or large) and engine == engine_choice.RUNTIME:
        pair = Pair(subject, subject, "auto", 0, stated, None, adapters, in_double=False)
        side, cases, results = first_answers(pair, engine, why, inputs or None)
        if side.engine == engine_choice.RUNTIME:
            failed = _error(results)
            return {} if failed else _exposed(pair, names, cases), failed
    if failed := engine_choice.objection(subject.model, engine_choice.OURS):
        return {}, f"the model is too large to run as a whole, and {failed}" if large else failed
    walk = _Walk(subject, subject, engine_choice.OURS, 0, stated, None, adapters, in_double=False)
    _, cases, results = first_answers(walk, engine_choice.OURS, "", inputs or None)
    if failed := _error(results):
        return {}, failed
    for case in cases:
        for name, value in case.values.items():
            _count(walk.found, name, value)
    return walk.found, ""


def _error(results: Results) -> str:
    return next((error for _, error in results if error), "")


@dataclass(frozen=True, slots=True)
class _Walk(Pair):
    """A pair that runs in the evaluator, and records the magnitude of every computed value."""

    found: Largest = field(default_factory=dict)

    def run(self, subject: Subject, engine: str, cases: Sequence[InputSet]) -> Results:
        """Returns the results of a model for each case, and records all magnitudes."""
        values = [dict(case.values) for case in cases]
        record = partial(_count, self.found)
        return engine_runs.opshift(os.fspath(subject.path), values, self.seed, record)


def _exposed(pair: Pair, names: Sequence[str], cases: Sequence[InputSet]) -> Largest:
    """Records the magnitudes of the inputs and of the values `names`.

    Each run loads the whole model. Therefore a run has more values than the run before, as long as
    they fit in memory.
    """
    largest: Largest = {}
    for case in cases:
        for name, value in case.values.items():
            _count(largest, name, value)
        start, count = 0, locate.TOGETHER
        while start < len(names):
            chosen = names[start : start + count]
            octets = _expose(pair, engine_choice.RUNTIME, case, chosen, largest)
            start += count
            count = max(locate.TOGETHER, min(4 * count, count * MOST_OCTETS // max(1, octets)))
    return largest


def _expose(pair: Pair, engine: str, case: InputSet, names: Sequence[str], largest: Largest) -> int:
    """Runs a model with these values as outputs; returns the size of the values in bytes.

    If the run fails, tries each half of the values.
    """
    wider = locate.exposing(pair.a.model, names)
    path = pair.a.path.with_name("exposed.onnx")
    save(wider, path)
    values, error = pair.run(Subject("a", path, wider), engine, [case])[0]
    octets = sum(_octets(value) for value in values.values())
    if error and len(names) > 1:
        half = len(names) // 2
        for part in (names[:half], names[half:]):
            octets += _expose(pair, engine, case, part, largest)
    for name, value in values.items():
        _count(largest, name, value)
    return octets


def _octets(value: Any) -> int:
    """Returns the size of a value in bytes, which may be a sequence."""
    if isinstance(value, list):
        return sum(map(_octets, value))
    return int(getattr(value, "nbytes", 0))


def _count(largest: Largest, name: str, value: Any) -> None:
    """Records the largest finite number of a value, which may be a sequence."""
    if isinstance(value, list):
        for element in value:
            _count(largest, name, element)
    elif isinstance(value, np.ndarray) and is_float(value.dtype):
        sizes = np.abs(value.astype(np.float64))
        top = float(np.max(sizes, initial=0, where=np.isfinite(sizes)))
        largest[name] = max(largest.get(name, 0.0), top)

# SPDX-License-Identifier: Apache-2.0
"""Finds how large the values of a model become, also the values of graphs inside of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opshift.author import registry
from opshift.protos.whole import onnx
from opshift.verify import engine_choice, locate, oracle
from opshift.verify.cases import InputSet
from opshift.verify.oracle.values import is_float
from opshift.verify.pair import Pair
from opshift.verify.pair_results import first_answers
from opshift.verify.subject import Subject, opened, save
from opshift.verify.tolerance import StatedTolerance

Largest = dict[str, float]
"""The largest finite magnitude by name. Values of one name in several graphs count as one."""


def magnitudes(path: str, names: Sequence[str], inside: bool, inputs: str) -> tuple[Largest, str]:
    """The largest magnitudes of values of the main graph, and of all others if they are wanted.

    The text is the reason if there are none. The folder of the model must be writable.
    """
    model, adapters = Path(path), registry.default()
    subject = opened(model, model.parent, "a", adapters)
    pair = Pair(
        subject, subject, "auto", 0, StatedTolerance(None, None, None), None, adapters,
        in_double=False,
    )  # fmt: skip
    (engine, why), _ = engine_choice.choose((subject.model, subject.model), "auto")
    side, cases, results = first_answers(pair, engine, why, inputs or None)
    if errors := [error for _, error in results if error]:
        return {}, errors[0]
    ours = inside or side.engine == engine_choice.OURS
    if ours and (failed := engine_choice.objection(subject.model, engine_choice.OURS)):
        return {}, failed
    found: Largest = {}
    for case in cases:
        for name, value in case.values.items():
            _count(found, name, value)
        if ours:
            _walk(pair, case, found)
        else:
            for start in range(0, len(names), locate.TOGETHER):
                _expose(pair, engine, case, names[start : start + locate.TOGETHER], found)
    return found, ""


def _walk(pair: Pair, case: InputSet, found: Largest) -> None:
    """Computes a model with the interpreter, which shows each value."""
    model = onnx.load(pair.a.path)
    oracle.evaluate(
        model, case.values, seed=pair.seed, seen=lambda name, value: _count(found, name, value)
    )


def _expose(pair: Pair, engine: str, case: InputSet, names: Sequence[str], found: Largest) -> None:
    """Runs a model with some values as outputs, in halves if one run cannot hold them."""
    wider = locate.exposing(pair.a.model, names)
    path = pair.a.path.with_name("exposed.onnx")
    save(wider, path)
    values, error = pair.run(Subject("a", path, wider), engine, [case])[0]
    if error and len(names) > 1:
        half = len(names) // 2
        for part in (names[:half], names[half:]):
            _expose(pair, engine, case, part, found)
    for name, value in values.items():
        _count(found, name, value)


def _count(found: Largest, name: str, value: Any) -> None:
    """Counts the finite numbers of a value, which may be a sequence."""
    if isinstance(value, list):
        for one in value:
            _count(found, name, one)
    elif isinstance(value, np.ndarray) and is_float(value.dtype):
        sizes = np.abs(value.astype(np.float64))
        top = float(np.max(sizes, initial=0, where=np.isfinite(sizes)))
        found[name] = max(found.get(name, 0.0), top)

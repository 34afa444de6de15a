# SPDX-License-Identifier: Apache-2.0
"""Stores the outcomes of a run in a temporary file instead of memory."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace

from opshift.records import dataclass
from opshift.results import ModelResult
from opshift.zoo.outcome import Outcome


class KeptOutcomes:
    """The outcomes of a run, sorted by name; each is read from the file when it is needed."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="opshift-outcomes-")  # noqa: SIM115 - see __exit__
        # the name of each model, and the position of its outcome in the file
        self._places: list[tuple[str, int]] = []

    def add(self, outcome: Outcome) -> None:
        """Appends an outcome."""
        self._places.append((outcome.name, self._file.seek(0, os.SEEK_END)))
        pickle.dump(outcome, self._file)

    def __iter__(self) -> Iterator[Outcome]:
        for _, place in sorted(self._places):
            self._file.seek(place)
            outcome: Outcome = pickle.load(self._file)
            yield outcome

    def __enter__(self) -> KeptOutcomes:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class KeptCases:
    """The outcomes of a run in the form for a results file."""

    outcomes: KeptOutcomes
    paths: Mapping[str, str]
    """The path of each model by its name."""

    def __iter__(self) -> Iterator[ModelResult]:
        for outcome in self.outcomes:
            yield replace(outcome.case(), path=self.paths.get(outcome.name, outcome.name))

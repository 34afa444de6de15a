# SPDX-License-Identifier: Apache-2.0
"""A file of the results of a probe, to which each batch is added, so that a probe can continue."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opshift.errors import BadTarget
from opshift.probe.probe_models import ProbeModel, ProbeResult
from opshift.probe.stamps import Stamps
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file with the runtime and the models in its first line, and a batch in each other line."""

    path: Path
    target: str
    models: int  # a checksum of the list of models

    @staticmethod
    def of(path: Path, target: str, models: Sequence[ProbeModel]) -> ResultFile:
        """The file of a probe of these models in a runtime."""
        text = "\n".join(
            f"{one.key} {one.since} {one.types} {sorted(one.features)} {one.constants}"
            for one in models
        )
        return ResultFile(path, target, zlib.crc32(text.encode()))

    def read(self) -> tuple[Stamps | None, int, list[ProbeResult]]:
        """The versions that the runtime reads, the number of models that were run, and results.

        A last line that an ended probe did not complete is removed.
        """
        if not self.path.exists():
            return None, 0, []
        text = self.path.read_text("utf-8")
        complete = text[: text.rfind("\n") + 1]
        if complete != text:
            self.path.write_text(complete, "utf-8")
        head, *batches = [json.loads(line) for line in complete.splitlines()] or [{}]
        if (head.get("target"), head.get("models")) != (self.target, self.models):
            raise BadTarget(
                f"{self.path} has no results of these models in {self.target}; give another file"
                " with --results"
            )
        done = sum(one["done"] for one in batches)
        return Stamps(**head["reads"]), done, [_result(of) for one in batches for of in one["of"]]

    def begin(self, reads: Stamps) -> None:
        """Writes the first line."""
        self._add({"target": self.target, "models": self.models, "reads": asdict(reads)}, "w")

    def add(self, done: int, results: Iterable[ProbeResult]) -> None:
        """Adds a batch of this number of models, of which the legal ones have results."""
        listed = [
            [*one.key, one.since, one.types, sorted(one.features), one.outcome, one.detail]
            for one in results
        ]
        self._add({"done": done, "of": listed}, "a")

    def _add(self, line: object, mode: str) -> None:
        with self.path.open(mode, encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _result(of: list[Any]) -> ProbeResult:
    domain, op, since, types, features, outcome, detail = of
    return ProbeResult(
        (domain, op), since, tuple(types), frozenset(features), outcome, detail
    )  # fmt: skip

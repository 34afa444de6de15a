# SPDX-License-Identifier: Apache-2.0
"""Stores the results of a probe in a file after each batch, so that a probe can continue."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opshift.errors import BadTarget
from opshift.json_form import parsed
from opshift.probe.probe_models import ProbeModel, ProbeResult
from opshift.probe.stamps import Stamps
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file whose first line has the runtime and the models; each further line has a batch."""

    path: Path
    target: str
    models: int  # a checksum of the list of models

    @staticmethod
    def of(path: Path, target: str, models: Sequence[ProbeModel]) -> ResultFile:
        """Returns the file for a probe of these models in a runtime."""
        text = "\n".join(
            f"{model.key} {model.since} {model.types} {sorted(model.features)} {model.constants}"
            for model in models
        )
        return ResultFile(path, target, zlib.crc32(text.encode()))

    def read(self) -> tuple[Stamps | None, int, list[ProbeResult]]:
        """Returns the versions that the runtime reads, the number of finished models, and results.

        Removes an incomplete last line, which an interrupted probe leaves behind.
        """
        if not self.path.exists():
            return None, 0, []
        text = self.path.read_text("utf-8")
        complete = text[: text.rfind("\n") + 1]
        if complete != text:
            self.path.write_text(complete, "utf-8")
        head, *batches = [parsed(line) for line in complete.splitlines()] or [{}]
        if (head.get("target"), head.get("models")) != (self.target, self.models):
            raise BadTarget(
                f"{self.path} contains results of other models or of another runtime; give another"
                " file with --results"
            )
        done = sum(batch["done"] for batch in batches)
        return (
            Stamps(**head["reads"]),
            done,
            [_result(of) for batch in batches for of in batch["of"]],
        )

    def begin(self, reads: Stamps) -> None:
        """Writes the first line of the file."""
        self._add({"target": self.target, "models": self.models, "reads": asdict(reads)}, "w")

    def add(self, done: int, results: Iterable[ProbeResult]) -> None:
        """Adds a batch of `done` models; only the legal models among them have results."""
        listed = [
            [
                *result.key,
                result.since,
                result.types,
                sorted(result.features),
                result.outcome,
                result.detail,
            ]
            for result in results
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

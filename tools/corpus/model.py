# SPDX-License-Identifier: Apache-2.0
"""The models of a corpus, and what can become of one."""

from __future__ import annotations

import enum
import fnmatch
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HALF_SLACK = 5e-4


class Status(str, enum.Enum):
    """What a conversion came to; the last three are defects."""

    __str__ = str.__str__

    EQUAL = "equal"
    REFUSED = "refused"
    UNVERIFIED = "unverified"
    REJECTED = "rejected"
    WRONG = "wrong"
    INVALID = "invalid"
    CRASHED = "crashed"


DEFECTS = (Status.WRONG, Status.INVALID, Status.CRASHED)


@dataclass(frozen=True)
class Model:
    """One model of the corpus and what the manifest knows of its runs."""

    id: str
    folder: Path
    run: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()

    @property
    def slack(self) -> float:
        """How far the original's own runs lie apart; what passed through half has three digits."""
        half = HALF_SLACK if {"float16", "bfloat16"} & set(self.dtypes) else 0.0
        return max(half, float(self.run.get("max_diff_unoptimized") or 0.0))

    @property
    def path(self) -> Path:
        """The model's file."""
        return self.folder / "model.onnx"

    def sets(self) -> list[tuple[Path, Path]]:
        """Pairs of inputs and the outputs expected from them."""
        pairs = ((p, p.with_name(p.name.replace("inputs", "expected"))) for p in self._inputs())
        return [(inputs, expected) for inputs, expected in pairs if expected.exists()]

    def _inputs(self) -> list[Path]:
        return sorted(self.folder.glob("inputs*.npz"))


@dataclass(frozen=True)
class BlockerText:
    """One blocker, as text, for counting."""

    why: str
    op: str
    boundary: tuple[int, int]
    node: str
    detail: str


@dataclass(frozen=True)
class ModelVerdict:
    """The outcome for one model and one target."""

    model: str
    target: int
    status: Status
    detail: str = ""
    engine: str = ""
    refusals: tuple[BlockerText, ...] = ()


@dataclass(frozen=True)
class Settings:
    """What holds for every case of a run."""

    converter: str = "opshift"
    seconds: float = 120.0
    megabytes: int = 12_000
    newest: tuple[int, int] = (26, 13)


def models_of(corpus: Path, only: Sequence[str], sample: int | None, seed: int) -> list[Model]:
    """The models asked for, in the order of their names."""
    manifest = corpus / "manifest.json"
    entries = json.loads(manifest.read_text()) if manifest.exists() else []
    known = {entry["id"]: entry for entry in entries}
    found = sorted(path.parent for path in corpus.glob("*/model.onnx"))
    models = [
        Model(p.name, p, entry.get("run") or {}, tuple(entry.get("dtypes") or ()))
        for p in found
        for entry in [known.get(p.name, {})]
    ]
    models = [m for m in models if not only or any(fnmatch.fnmatch(m.id, g) for g in only)]
    if sample is not None and sample < len(models):
        models = sorted(random.Random(seed).sample(models, sample), key=lambda m: m.id)
    return models

# SPDX-License-Identifier: Apache-2.0
"""Compares two folders of models: each model, and the collection as a whole."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from opshift.errors import OpshiftError
from opshift.json_form import Form
from opshift.look.compare import Diff, diff
from opshift.model.model_version import Level
from opshift.records import dataclass
from opshift.text import Line, Role, Shown, cause_of, counted
from opshift.zoo import sources

_EFFECTS = {
    Level.NONE: "users of the first folder notice no difference.",
    Level.PATCH: "users of the first folder can use the second, but results may differ.",
    Level.MINOR: "users of the first folder can use the second, which offers more.",
    Level.MAJOR: "users of the first folder must change their code or their inputs.",
}


@dataclass(frozen=True, slots=True)
class UnreadModel:
    """A model that cannot be compared."""

    model: str
    """The path of the model, relative to its folder."""
    reason: str
    """The error about the model."""


@dataclass(frozen=True, slots=True)
class ModelChange(Form):
    """One model of the folders: its comparison, or the reason why it was not compared."""

    ALSO = ("model", "advice")
    HIDDEN = ("name", "found")

    name: str
    level: Level
    """The gravest change of the model in the sense of SemVer."""
    found: Diff | None
    reason: str
    """The gravest change of the model."""

    @property
    def model(self) -> str:
        """The path of the model, relative to its folder."""
        return self.name

    @property
    def advice(self) -> str:
        """The SemVer advice for this model; empty if the model is in only one of the folders."""
        return self.found.advice if self.found is not None else ""


@dataclass(frozen=True, slots=True, repr=False)
class FolderDiff(Shown):
    """The changes of all models between two folders, the gravest first, and their highest level.

    Printed by `opshift diff OLD_FOLDER NEW_FOLDER`.
    """

    KIND = "folder_diff"
    MODEL = False
    ALSO = ("level", "advice")

    models: tuple[ModelChange, ...]
    """Every model, the gravest change first."""
    unread: tuple[UnreadModel, ...] = ()
    """The models that cannot be compared."""

    @property
    def level(self) -> Level:
        """The highest level of change among all models."""
        return max((change.level for change in self.models), default=Level.NONE)

    @property
    def _certain(self) -> bool:
        """Whether no unread model can raise the level."""
        return not self.unread or self.level is Level.MAJOR

    @property
    def advice(self) -> str:
        """The SemVer advice for the collection, in one sentence."""
        if not self._certain:
            return "Advice: replace the models that cannot be compared, and compare again."
        if self.level is Level.NONE:
            return "Advice: keep the version of the collection, because no user is affected."
        return f"Advice: raise the {self.level.name} number of the collection's version."

    def lines(self) -> Iterator[Line]:
        """Yields the level of change of all models, the models per level, and changed models."""
        role = {Level.NONE: Role.GOOD, Level.MAJOR: Role.BAD}.get(self.level, Role.CAUTION)
        verdict = f"{self.level.name}: {_EFFECTS[self.level]}"
        if not self._certain:
            number = counted(len(self.unread), "model")
            role, verdict = Role.BAD, f"Not known: {number} cannot be compared."
        yield Line(verdict, role)
        counts = Counter(change.level for change in self.models)
        per_level = ", ".join(
            f"{counts[level]} {level.name}" for level in sorted(counts, reverse=True)
        )
        yield Line(f"  {counted(len(self.models), 'model')}: {per_level or 'none'}")
        for change in self.models:
            same = change.level is Level.NONE
            yield Line(f"  {change.name}: {change.level.name}: {change.reason}", more=same)
            if change.advice:
                yield Line(f"    {change.advice}", more=same)
        for name, why in ((entry.model, entry.reason) for entry in self.unread):
            yield Line(f"  {name}: cannot be compared: {why}", Role.BAD)
        yield Line(self.advice)


def diff_folders(first: str, second: str) -> FolderDiff:
    """Compares models of equal names in two folders."""
    old, new = dict(sources.find(first)), dict(sources.find(second))
    changes, unread = [], []
    for name in sorted(old.keys() | new.keys()):
        if any(os.path.isdir(models.get(name, "")) for models in (old, new)):
            unread.append(UnreadModel(name, "this folder cannot be listed"))
        elif name not in new:
            changes.append(ModelChange(name, Level.MAJOR, None, "the model was removed"))
        elif name not in old:
            changes.append(ModelChange(name, Level.MINOR, None, "the model is new"))
        else:
            try:
                difference = diff(old[name], new[name])
            except (OpshiftError, OSError) as error:
                reason = cause_of(error) if isinstance(error, OSError) else str(error)
                unread.append(UnreadModel(name, reason))
                continue
            reason = next(
                (change.reason for change in difference.changes), "no difference for users"
            )
            changes.append(ModelChange(name, difference.level, difference, reason))
    changes.sort(key=lambda model_change: (-model_change.level, model_change.name))
    return FolderDiff(tuple(changes), tuple(unread))

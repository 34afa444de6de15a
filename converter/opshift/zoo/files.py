# SPDX-License-Identifier: Apache-2.0
"""A model that is a file here, and a result that becomes one."""

from __future__ import annotations

import os
from collections.abc import Mapping

from opshift.errors import InvalidModel
from opshift.model import weights
from opshift.model.weights import Weights
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.zoo import marks
from opshift.zoo.key import Key
from opshift.zoo.layout import Layout
from opshift.zoo.marks import Mark
from opshift.zoo.outcome import Stamp, Unpublished


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model as a file here: carved, the files that belong to it, and what they are at home."""

    path: str
    skeleton: ModelProto
    weights: Weights
    files: tuple[str, ...]
    reads: tuple[Stamp, ...]
    home: str  # the folder that `reads` are named from

    def check_unchanged(self) -> None:
        """Raises if what was read is not what is there now."""
        if not marks.unchanged(self.reads, self.home):
            raise Unpublished("the model changed while it was read")


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    """A converted model, not yet written, its weights still where they were."""

    of: LocalModel
    skeleton: ModelProto
    weights: Weights
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FileResult:
    """Where a result goes and where its mark, both being files."""

    output: str
    mark: str

    @property
    def folder(self) -> str:
        return os.path.dirname(self.output)

    def there(self, key: Key) -> Mark | None:
        """The mark of a result that is there and up to date."""
        mark = marks.read(self.mark)
        return mark if mark and mark.holds(key, self.folder) else None

    def publish(
        self, made: ConvertedModel, external: str, key: Key, layout: Layout
    ) -> tuple[Stamp, ...]:
        """Gives the result its name, whole, then its mark, which is when the key is needed."""
        if external == "copy":
            layout.require_free(self.output, made.weights.locations)
        if not os.path.isdir(self.folder):
            os.makedirs(self.folder, exist_ok=True)
        files = spliced(made, self.output, external, layout)
        mark = Mark(key(), marks.stamps(files, self.folder), made.versions)
        made.of.check_unchanged()
        marks.write(self.mark, mark)
        return self.stamps(mark)

    def stamps(self, mark: Mark) -> tuple[Stamp, ...]:
        """All that a rerun has to find as it is: the files, and the mark itself."""
        return (*mark.writes, *marks.stamps([self.mark], self.folder))


def found(path: str) -> LocalModel:
    """The model in a file."""
    home = os.path.dirname(path)
    model = marks.stamps([path], home)  # before it is read, so that no later change is missed
    skeleton, store = weights.carve_file(path)
    data = weights.data_files(skeleton, store)
    return LocalModel(
        path, skeleton, store, (path, *data), (*model, *marks.stamps(data, home)), home
    )


def spliced(made: ConvertedModel, path: str, external: str, layout: Layout) -> list[str]:
    """Writes a result to a file, and answers all the files that belong to it.

    Their names come to the disk when the run ends: what a power cut takes, a rerun makes again.
    """
    try:
        return weights.splice(
            made.skeleton, made.weights, path,
            external=external, alone=False, taken=layout.outputs,
        )  # fmt: skip
    except InvalidModel as error:
        raise Unpublished(str(error)) from error

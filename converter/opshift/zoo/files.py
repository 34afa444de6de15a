# SPDX-License-Identifier: Apache-2.0
"""Reads models from local files, and writes results to local files."""

from __future__ import annotations

import os
from collections.abc import Callable

from opshift.errors import InvalidModel
from opshift.model import weights
from opshift.model.bytes.source import Opened
from opshift.model.weights import Weights
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.report import Report
from opshift.zoo import marks
from opshift.zoo.key import Key
from opshift.zoo.layout import Layout
from opshift.zoo.marks import Mark
from opshift.zoo.outcome import Stamp, Unpublished


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model in local files: its graph and weights, with the sizes and times of its files."""

    path: str
    skeleton: ModelProto
    weights: Weights
    content: bytes | None  # the bytes of the model file, if it is small
    files: tuple[str, ...]
    reads: tuple[Stamp, ...]
    home: str  # the folder to which the paths in `reads` are relative

    @property
    def contents(self) -> tuple[str | bytes, ...]:
        """The contents from which a digest of the model is computed: bytes, or paths of files."""
        model, *data = self.files
        return (model if self.content is None else self.content, *data)

    def check_unchanged(self) -> None:
        """Raises if a file has changed since it was read."""
        if not marks.unchanged(self.reads, self.home):
            raise Unpublished("the model changed while it was read")


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    """A converted model before it is written; its weights are still in the source files."""

    of: LocalModel
    skeleton: ModelProto
    weights: Weights
    report: Report


@dataclass(frozen=True, slots=True)
class FileResult:
    """The paths of a result and of its mark, both local files."""

    output: str
    mark: str

    @property
    def folder(self) -> str:
        return os.path.dirname(self.output)

    def there(self, key: Key) -> Mark | None:
        """Returns the mark of the result if the result exists and is up to date, else None."""
        mark = marks.read(self.mark)
        return mark if mark and mark.holds(key, self.folder) else None

    def publish(
        self, model: ConvertedModel, external: str, key: Key, layout: Layout
    ) -> tuple[Stamp, ...]:
        """Writes the complete result, then its mark."""
        if external == "copy":
            layout.require_free(self.output, model.weights.locations)
        if not os.path.isdir(self.folder):
            os.makedirs(self.folder, exist_ok=True)
        written: list[Mark] = []

        def published(files: list[str]) -> None:
            mark = Mark(key(), marks.stamps(files, self.folder), model.report.result,
                        model.report.origin)  # fmt: skip
            model.of.check_unchanged()
            marks.write(self.mark, mark)
            written.append(mark)

        spliced(model, self.output, external, layout, published)
        return self.stamps(written[0])

    def stamps(self, mark: Mark) -> tuple[Stamp, ...]:
        """Returns the sizes and times of all files, which must be unchanged in a rerun."""
        return (*mark.writes, *marks.stamps([self.mark], self.folder))


def found(path: str) -> LocalModel:
    """Opens a model in a local file; its weights are not read."""
    home = os.path.dirname(path)
    model = marks.stamps([path], home)  # before it is read, so that no later change is missed
    file = Opened(path)
    skeleton, large_tensors = weights.carve_file(file)
    data = weights.data_files(skeleton, large_tensors)
    reads = (*model, *marks.stamps(data, home))
    return LocalModel(path, skeleton, large_tensors, file.view.whole, (path, *data), reads, home)


def spliced(
    model: ConvertedModel,
    path: str,
    external: str,
    layout: Layout,
    published: Callable[[list[str]], None] | None = None,
) -> list[str]:
    """Writes a result to a file; returns the paths of all its files.

    The folder entries are synced to the disk only at the end of the run. After a loss of power, a
    rerun repeats the lost work.
    """
    try:
        return weights.splice(
            model.skeleton, model.weights, path,
            external=external, alone=False, taken=layout.outputs, published=published,
        )  # fmt: skip
    except InvalidModel as error:
        raise Unpublished(str(error)) from error

# SPDX-License-Identifier: Apache-2.0
"""Writes files under temporary names and then renames them, the model last."""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from types import TracebackType

from opshift.errors import BadDestination, choose_external
from opshift.model.bytes import file_attributes, file_names, leftovers, locks
from opshift.model.bytes.claim import WAIT, Claim, tidy
from opshift.model.bytes.file_attributes import Attributes, Readers
from opshift.model.bytes.file_names import FULL, errors_name
from opshift.model.bytes.ranges import Moved, Region, write_pieces
from opshift.model.bytes.source import Identity, Named, has_equal_bytes

Pieces = Iterable["bytes | memoryview | Moved"]


class Staging:
    """A writer for the files of one result; the model gets its own name last.

    Between `__enter__` and `__exit__`, no other run writes a result of this name.
    """

    def __init__(
        self,
        model: str,
        *,
        in_place: bool = False,
        taken: Collection[str] = (),
        sweeps: bool = True,
    ) -> None:
        """Prepares a result; `in_place` keeps the owner and mode of the replaced model."""
        self._model, self._folder = model, os.path.dirname(model)
        self._in_place, self._taken, self._sweeps = in_place, taken, sweeps
        self._claims: dict[str, Claim] = {}
        self._using = ExitStack()
        self._is_using = False
        self._ready: list[tuple[str, str]] = []
        self._own: dict[str, Identity] = {}
        self._kept: set[str] = set()
        self._undo: list[str] = []
        self._folders: list[str] = []

    def __enter__(self) -> Staging:
        self._claim(self._folder)
        return self

    def write_model(self, pieces: Pieces, sources: Sequence[Readers] = ()) -> None:
        """Stages the model, which only users may read who may read all its sources."""
        name = self._written(self._model, pieces, sources)
        self._ready.append((name, self._model))

    def write_data(
        self, pieces: Pieces, sources: Sequence[Readers] = (), old: Iterable[str] = ()
    ) -> str:
        """Stages a data file of the model; returns its final path.

        The function overwrites no existing file. A file with equal bytes is used in place of a new
        file; the `old` files of the replaced model are compared first.
        """
        name = self._written(next(own_names(self._model)), pieces, sources)
        for path in old:
            if self._is_equal(path, name):
                return path
        for path in own_names(self._model):
            if not os.path.lexists(path) and path not in self._taken:
                break
            if self._is_equal(path, name):
                return path
        self._ready.append((name, path))
        self._own[os.path.basename(path)] = Identity.of(os.stat(name))
        return path

    def _is_equal(self, path: str, name: str) -> bool:
        """Returns whether an existing data file can be used for a staged file, and protects it."""
        if path in self._taken or not _serves(path, name):
            return False
        self.use_data()
        if _serves(path, name):
            self._kept.add(path)
        return path in self._kept

    def use_data(self) -> None:
        """Protects data files next to the model from other runs until the model is written."""
        if not self._is_using:
            lock = locks.folder_lock(self._folder, WAIT, shared=True)
            if not self._using.enter_context(lock):
                raise BadDestination(
                    f"{self._model}: another run of opshift is removing data files in this folder;"
                    " run the command again when it has ended"
                )
            self._is_using = True

    def place(self, source: Named, path: str) -> None:
        """Stages a copy of a data file; an existing file with equal bytes stays."""
        self.use_data()
        if os.path.lexists(path):
            _require_same(source.path, path)
            if self._sweeps and os.path.realpath(os.path.dirname(path)) not in self._claims:
                tidy(os.path.join(os.path.dirname(path), os.path.basename(self._model)))
            return
        self._make_folder(os.path.dirname(path))
        region = Region(source, 0, source.seen.size)
        self._ready.append(
            (self._written(path, [region], [file_attributes.readers(source.path)]), path)
        )

    def commit(
        self, check: Callable[[], None], *, synced: bool = True, old: Iterable[str] = ()
    ) -> None:
        """Renames every file, the model last, unless `check` raises; syncs the files if `synced`.

        After the renames, the `old` data files are removed unless a model in their folder refers to
        them.
        """
        check()
        claim = self._claim(self._folder)
        unneeded = [path for path in old if path not in self._kept]
        retired = {(os.path.basename(path), Identity.of(os.lstat(path))) for path in unneeded}
        if self._own or retired:
            claim.note([*self._own.items(), *retired])
        *data, (model, path) = sorted(self._ready, key=lambda pair: pair[1] == self._model)
        for name, place in data:
            self._name(name, place)
        if synced or self._own or retired:
            self._sync(place for _, place in data)
        with errors_name(self._model):
            os.replace(model, path)
        self._undo.clear()
        self._folders.clear()
        if synced or retired:
            self._sync([path])
        claim.retired |= retired

    def _name(self, name: str, place: str) -> None:
        """Renames a staged data file to an unused name."""
        is_own = os.path.basename(place) in self._own
        if os.path.lexists(place):
            _require_same(name, place)
            return
        has_link = is_own and linked(name, place)
        if not has_link:  # only a copy of another run could use this name
            os.replace(name, place)
        if is_own or self._sweeps:
            self._undo.append(place)  # another result may already use a copy
        if has_link:
            os.unlink(name)  # onnx reads no external data from a file with two names

    def _written(self, path: str, pieces: Pieces, sources: Sequence[Readers]) -> str:
        """Writes a temporary file with these bytes and the permissions of the result."""
        name = self._claim(os.path.dirname(path)).name()
        with errors_name(path):
            if self._like is None:
                fd = file_attributes.create_result(name, self._model, sources)
            else:
                fd = file_attributes.create(name, sources)
        try:
            with errors_name(path, only=FULL):
                write_pieces(fd, pieces)
                if self._like is not None:
                    self._like.give_to(name, sources)
                os.fsync(fd)
        finally:
            os.close(fd)
        return name

    @cached_property
    def _like(self) -> Attributes | None:
        """Returns the attributes of the model that is replaced in place."""
        there = self._in_place and os.path.exists(self._model)
        return Attributes.of(self._model) if there else None

    def _claim(self, folder: str) -> Claim:
        key = os.path.realpath(folder)
        if key not in self._claims:
            self._claims[key] = Claim.on(folder, os.path.basename(self._model))
        return self._claims[key]

    def _make_folder(self, folder: str) -> None:
        missing = []
        while folder and not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for path in reversed(missing):
            os.mkdir(path)
            self._folders.append(path)

    @staticmethod
    def _sync(paths: Iterable[str]) -> None:
        for folder in {os.path.dirname(path) or os.curdir for path in paths}:
            sync_folder(folder)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._using.close()
        claim = self._claim(self._folder)
        for path in self._undo:
            with suppress(OSError):
                identity = Identity.of(os.stat(path))
                claim.retired.add((os.path.relpath(path, self._folder or os.curdir), identity))
        for claim in reversed(self._claims.values()):
            claim.release(sweeps=self._sweeps)
        for folder in reversed(self._folders):
            with suppress(OSError):
                os.rmdir(folder)


def own_names(model: str) -> Iterator[str]:
    """Yields the possible names of a model's data file, best first."""
    folder, name = os.path.split(model)
    path = os.path.join(folder, file_names.stem(name))
    yield f"{path}.data"
    for number in itertools.count(1):
        yield f"{path}.{number}.data"


def own_data(model: str) -> list[str]:
    """Returns the existing data files of a model that are named after the model."""
    with errors_name(model):
        text = leftovers.text_of(model)
    folder, name = os.path.split(model)
    names: set[str] = set()
    for form in (os.fsencode(stem := file_names.stem(name)), stem.encode("unicode_escape")):
        numbers = re.finditer(re.escape(form) + rb"((?:\.\d+)?\.data)", text or b"")
        names.update(stem + match[1].decode() for match in numbers)
    paths = (os.path.join(folder, name) for name in names)
    return sorted(filter(_is_file, paths), key=lambda path: (len(path), path))


def _is_file(path: str) -> bool:
    """Returns whether a path is a regular file; raises for an error of the disk."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        if error.errno in {errno.ENOENT, *leftovers.UNREADABLE}:
            return False
        raise


def linked(name: str, place: str) -> bool:
    """Gives a file a second, free name; returns whether the file system supports links."""
    if not hasattr(os, "link"):
        return False
    try:
        os.link(name, place)
    except FileExistsError:
        raise
    except OSError:  # the file system allows one name for a file
        return False
    return True


def _serves(path: str, name: str) -> bool:
    """Returns whether an existing file has the bytes of a staged file, and readers accept it."""
    there, staged = os.lstat(path), os.stat(name)
    if there.st_size != staged.st_size or there.st_nlink > 1 or os.path.islink(path):
        return False
    return os.path.isfile(path) and has_equal_bytes(path, name)


def _require_same(source: str, path: str) -> None:
    if not os.path.isfile(path) or not (
        os.path.samefile(source, path) or has_equal_bytes(source, path)
    ):
        raise BadDestination(
            f"{path!r} exists already and differs from {source!r}: "
            f"remove it, or {choose_external('one-file', 'inline')}"
        )


def sync_folder(folder: str) -> None:
    """Writes the names in a folder to the disk, if the system supports this."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

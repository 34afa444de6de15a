"""Bytes in files: where external data is, how ranges are moved, and how files appear whole."""

from __future__ import annotations

import errno
import filecmp
import mmap
import os
import secrets
import shutil
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from opshift.errors import InvalidModel

if TYPE_CHECKING:
    from onnx import TensorProto

_PAGE = 4 << 10
_LARGE_PAGE = 64 << 10
_CHUNK = 256 << 10  # stays in the processor's cache
_WRITE = 16 << 20
_NOT_HERE = {
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.EBADF,
    errno.ENOTSOCK,
}


# --- ranges ---------------------------------------------------------------------------------------


class Opened:
    """A file that stays readable when its name goes to another file."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self.fd)
        if os.fstat(self.fd).st_size == 0:
            raise InvalidModel(f"{path}: the file is empty")
        self.view = mmap.mmap(self.fd, 0, access=mmap.ACCESS_READ)

    def release(self) -> None:
        """Forget the pages that were read; they are read again when needed."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.view.madvise(mmap.MADV_DONTNEED)


class Moved(Protocol):
    """Bytes that are written without being held."""

    def __len__(self) -> int: ...

    def write(self, fd: int) -> None:
        """Append the bytes to a file."""


@dataclass(frozen=True, slots=True)
class Region:
    """A range of bytes of a file."""

    file: str | Opened
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length

    def part(self, start: int, length: int) -> Region:
        """Some of the bytes, at most so many."""
        return Region(self.file, self.offset + start, min(length, self.length - start))

    def read(self) -> bytes:
        """The bytes."""
        if isinstance(self.file, Opened):
            data = self.file.view[self.offset : self.offset + self.length]
            self.file.release()
            return data
        with open(self.file, "rb") as file:
            file.seek(self.offset)
            return file.read(self.length)

    def write(self, fd: int) -> None:
        """Append the bytes to a file."""
        if isinstance(self.file, Opened):
            _move(self.file.fd, fd, self.offset, self.length)
            return
        source = os.open(self.file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            _move(source, fd, self.offset, self.length)
        finally:
            os.close(source)


@dataclass(frozen=True, slots=True)
class Late:
    """Bytes that are made when they are written."""

    length: int
    make: Callable[[], bytes]

    def __len__(self) -> int:
        return self.length

    def write(self, fd: int) -> None:
        """Append the bytes to a file."""
        data = self.make()
        if len(data) != self.length:
            raise InvalidModel(f"a tensor has {len(data)} bytes where {self.length} were expected")
        write_all(fd, data)


def _move(source: int, fd: int, offset: int, length: int) -> None:
    """Move bytes in the fastest way that these files and places allow."""
    end, position = offset + length, os.lseek(fd, 0, os.SEEK_CUR)
    # The kernel moves pages: where they would straddle pages, a small buffer is twice as fast.
    steps = (_copy_file_range, _sendfile) if (position - offset) % _PAGE == 0 else ()
    for step in steps:
        try:
            while offset < end and (moved := step(source, fd, offset, _stretch(offset, end))):
                offset += moved
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
    _pump(source, fd, offset, end)


def _stretch(offset: int, end: int) -> int:
    """Up to a boundary of large pages first, then all: a third faster than across them."""
    short = -offset % _LARGE_PAGE
    return min(end - offset, short) if short else end - offset


def _pump(source: int, fd: int, offset: int, end: int) -> None:
    os.lseek(source, offset, os.SEEK_SET)
    position = os.lseek(fd, 0, os.SEEK_CUR)
    while offset < end:
        chunk = os.read(source, min(_CHUNK - position % _CHUNK, end - offset))
        if not chunk:
            raise InvalidModel("a file of weights became shorter while it was read")
        write_all(fd, chunk)
        offset += len(chunk)
        position += len(chunk)


def _copy_file_range(source: int, fd: int, offset: int, length: int) -> int:
    if not hasattr(os, "copy_file_range"):
        raise OSError(errno.ENOSYS, "copy_file_range")
    return os.copy_file_range(source, fd, length, offset)


def _sendfile(source: int, fd: int, offset: int, length: int) -> int:
    if not hasattr(os, "sendfile"):
        raise OSError(errno.ENOSYS, "sendfile")
    return os.sendfile(fd, source, offset, length)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write in as many calls as it takes; one huge call is several times slower."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest[:_WRITE]) :]


def write_pieces(fd: int, pieces: Iterable[bytes | memoryview | Moved]) -> None:
    """Write a file from what is in memory and what is not; small pieces go together."""
    small: list[bytes | memoryview] = []
    for piece in pieces:
        if isinstance(piece, bytes | memoryview):
            small.append(piece)
            continue
        write_all(fd, b"".join(small))
        small.clear()
        piece.write(fd)
    write_all(fd, b"".join(small))


# --- external data --------------------------------------------------------------------------------


def locate(tensor: TensorProto, base_dir: str) -> Region:
    """Find the bytes of an external tensor, refusing paths that leave the model's folder."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    location = where.get("location", "")
    path = inside(base_dir, location, tensor.name)
    if not os.path.isfile(path):
        raise InvalidModel(f"tensor {tensor.name!r}: its data file {location!r} is missing")
    size = os.path.getsize(path)
    try:
        offset = int(where.get("offset", 0))
        length = int(where.get("length", size - offset))
    except ValueError:
        raise InvalidModel(
            f"tensor {tensor.name!r}: offset and length in {location!r} must be numbers"
        ) from None
    if offset < 0 or length < 0 or offset + length > size:
        raise InvalidModel(
            f"tensor {tensor.name!r}: its data file {location!r} has {size} bytes, "
            f"too few for offset {offset} and length {length}"
        )
    return Region(path, offset, length)


def location_of(tensor: TensorProto) -> str:
    """The path of an external tensor's data, as the model has it."""
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def inside(base_dir: str, location: str, tensor: str) -> str:
    """The path of a data file, which must lie in or below the model's folder."""
    require_inside(location, tensor)
    base = os.path.realpath(base_dir or os.curdir)
    path = os.path.realpath(os.path.join(base, location))
    if not path.startswith(os.path.join(base, "")):
        raise _outside(location, tensor)
    return path


def require_inside(location: str, tensor: str) -> None:
    """Refuses a path that leaves the model's folder, whatever folder that is."""
    parts = PurePath(location)
    if not location or parts.is_absolute() or ".." in parts.parts or "\0" in location:
        raise _outside(location, tensor)


def _outside(location: str, tensor: str) -> InvalidModel:
    return InvalidModel(
        f"tensor {tensor!r}: its data file {location!r} is not inside the model's folder"
    )


# --- files that appear whole ----------------------------------------------------------------------


class Staging:
    """Files written under temporary names beside their place, then renamed together."""

    def __init__(self) -> None:
        self._ready: list[tuple[str, str]] = []
        self._temporary: list[str] = []
        self._folders: list[str] = []

    def __enter__(self) -> Staging:
        return self

    @property
    def paths(self) -> list[str]:
        """What will have a name."""
        return [path for _, path in self._ready]

    def write(self, path: str, pieces: Iterable[bytes | memoryview | Moved]) -> None:
        """Stage a file of these bytes."""
        name = self._temporary_name(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            fd = os.open(name, flags, 0o666)
        except OSError as error:  # nobody knows the temporary name
            raise OSError(error.errno, error.strerror, path) from None
        try:
            with suppress(FileNotFoundError):
                os.chmod(name, os.stat(path).st_mode & 0o7777)
            write_pieces(fd, pieces)
            os.fsync(fd)
        finally:
            os.close(fd)
        self._ready.append((name, path))

    def place(self, source: str, path: str, *, link: bool) -> None:
        """Stage a copy of, or a link to, a file; one that is there already is left."""
        if os.path.exists(path):
            if os.path.samefile(source, path) or filecmp.cmp(source, path, shallow=False):
                return
            raise InvalidModel(
                f"{path!r} is there already and differs from {source!r}: "
                "remove it, or choose one-file or inline"
            )
        self._make_folder(os.path.dirname(path))
        if link:
            with suppress(OSError):
                os.link(source, name := self._temporary_name(path))
                self._ready.append((name, path))
                return
        self.write(path, [Region(source, 0, os.path.getsize(source))])

    def commit(self, *, synced: bool = True) -> None:
        """Give every file its name, on the disk if `synced`; when one cannot have it, none does."""
        undo: list[tuple[str | None, str]] = []
        try:
            for name, path in self._ready:
                backup = self._backup(path)
                os.replace(name, path)
                undo.append((backup, path))
        except BaseException:
            for backup, path in reversed(undo):
                with suppress(OSError):
                    os.replace(backup, path) if backup else os.unlink(path)
            raise
        self._folders.clear()
        if synced:
            for folder in {os.path.dirname(path) or os.curdir for _, path in self._ready}:
                sync_folder(folder)

    def _backup(self, path: str) -> str | None:
        """A second name for what a rename would destroy."""
        if len(self._ready) == 1 or not os.path.isfile(path):
            return None  # one rename either happens or does not
        name = self._temporary_name(path)
        try:
            os.link(path, name)
        except OSError:
            shutil.copy2(path, name)
        return name

    def _temporary_name(self, path: str) -> str:
        name = os.path.join(os.path.dirname(path), f".opshift-{secrets.token_hex(6)}.tmp")
        self._temporary.append(name)
        return name

    def _make_folder(self, folder: str) -> None:
        missing = []
        while folder and not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for path in reversed(missing):
            os.mkdir(path)
            self._folders.append(path)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in self._temporary:
            with suppress(OSError):
                os.unlink(name)
        for folder in reversed(self._folders):
            with suppress(OSError):
                os.rmdir(folder)


def sync_folder(folder: str) -> None:
    """Puts the names in a folder on the disk, where that can be asked for."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

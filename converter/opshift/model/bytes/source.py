# SPDX-License-Identifier: Apache-2.0
"""Opens files whose content must not change while they are read, and reads pipes."""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Iterable, Iterator
from typing import NamedTuple, overload

from opshift.errors import InvalidModel

PIPE_LIMIT = 2**31 - 1
"""The most bytes that are read from a pipe; protobuf cannot read a larger model."""

TEXTS = (".onnxtxt", ".onnxtext", ".txtpb", ".textproto", ".prototxt", ".pbtxt", ".json",
         ".onnxjson")  # fmt: skip
"""The file extensions of the text formats of onnx."""

BINARY = getattr(os, "O_BINARY", 0)
_CHUNK = 256 << 10
_WRITE = 16 << 20
_COMPARED = 1 << 20
_READ = 1 << 30  # the kernel reads at most 2 GiB in one call
WHOLE = 1 << 20  # the largest file that is read in one call, in bytes
_WINDOW, _HEADER = 128 << 10, 24  # two numbers of a field's header have at most 20 bytes


def is_text(path: str) -> bool:
    """Returns whether the extension of a path belongs to a text format of onnx."""
    return os.path.splitext(path)[1] in TEXTS


class Identity(NamedTuple):
    """Identifies a file by device and inode, and its content by size and time."""

    device: int
    inode: int
    size: int
    modified: int

    @staticmethod
    def of(status: os.stat_result) -> Identity:
        return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class Named(NamedTuple):
    """A path with the identity of the file when it was first opened."""

    path: str
    seen: Identity

    def open(self) -> int:
        """Opens the file; raises if the file has changed."""
        fd = os.open(self.path, os.O_RDONLY | BINARY)
        if Identity.of(os.fstat(fd)) != self.seen:
            os.close(fd)
            raise changed(self.path)
        return fd

    def check_unchanged(self) -> None:
        """Raises if the path now belongs to another file, or if the content of the file changed."""
        try:
            same = Identity.of(os.stat(self.path)) == self.seen
        except OSError:
            same = False
        if not same:
            raise changed(self.path)


def changed(path: str) -> InvalidModel:
    return _error(path, "the file changed while it was read; run the command again")


def _error(path: str, sentence: str) -> InvalidModel:
    return InvalidModel(f"{path}: {sentence}", "FILE_ERROR")


class Opened:
    """A file that stays readable even if another file gets its path."""

    def __init__(self, path: str, fd: int | None = None) -> None:
        """Opens a file; the content of a pipe, or of `fd`, is read once and stored."""
        self.path = path
        self.fd = _opened(path) if fd is None else fd
        if fd is None:
            weakref.finalize(self, os.close, self.fd)
        status = os.fstat(self.fd)
        self.piped = fd is not None or not stat.S_ISREG(status.st_mode)
        self.readers = (0o777, -1) if self.piped else (status.st_mode, status.st_gid)
        if self.piped:
            self._keep(_chunks(self.fd, path))
        self.seen = Identity.of(os.fstat(self.fd))
        if self.seen.size == 0:
            raise InvalidModel(f"{path}: the file is empty", "EMPTY_FILE")
        self.view = Pages(self.fd, self.seen.size, path)

    def replaced(self, data: bytes) -> Opened:
        """Returns this file with other bytes, for example the bytes of a parsed text."""
        twin = Opened.__new__(Opened)
        twin.__dict__.update(self.__dict__)
        twin._keep([data])
        twin.view = Pages(twin.fd, len(data), self.path)
        return twin

    def _keep(self, chunks: Iterable[bytes]) -> None:
        import tempfile

        temporary = tempfile.TemporaryFile()  # noqa: SIM115 - it has no name and lives as long as this
        weakref.finalize(self, temporary.close)
        self.fd = temporary.fileno()
        for chunk in chunks:
            write_all(self.fd, chunk)

    def at_path(self, folder: str, name: str) -> str:
        """Returns a path with the content; the content of a pipe is first written to the folder."""
        if not self.piped:
            return self.path
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            for start in range(0, len(self.view), _WRITE):
                file.write(self.view[start : start + _WRITE])
        return path

    def check_unchanged(self) -> None:
        """Raises if the file has changed since it was opened."""
        if not self.piped:
            Named(self.path, self.seen).check_unchanged()


def opened(model: object) -> Opened:
    """Opens a model that is given as a path; returns an open file unchanged."""
    if isinstance(model, Opened):
        return model
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"model must be a ModelProto or a path, not {type(model).__name__}")
    return Opened(os.fspath(model))


def _opened(path: str) -> int:
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        os.scandir(path).close()  # raises if the folder cannot be listed
        batch = "(`opshift batch` converts all of them)"
        raise _error(path, f"this is a folder; name a model in it {batch}")
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise _error(path, "this is a device and not a model; give a file or a pipe")
    return os.open(path, os.O_RDONLY | BINARY)


def _chunks(fd: int, path: str) -> Iterator[bytes]:
    total = 0
    while chunk := os.read(fd, _CHUNK):
        total += len(chunk)
        if total > PIPE_LIMIT:
            size = f"more than {PIPE_LIMIT} bytes"
            raise _error(path, f"the model in the pipe has {size}; write it to a file first")
        yield chunk


class Pages:
    """The bytes of a file: a small file is read in one call, a large file in pieces.

    A memory map would be as fast, but would end the process if the file became shorter.
    """

    def __init__(self, fd: int, size: int, path: str) -> None:
        self.fd = fd
        self.size = size
        self.path = path
        self._start = 0
        self._loaded = b""

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> bytes: ...
    def __getitem__(self, at: int | slice) -> int | bytes:
        if isinstance(at, slice):
            if (whole := self.whole) is not None:
                return whole[at]
            start, stop, _ = at.indices(self.size)
            first = start - self._start
            if first >= 0 and stop - self._start <= len(self._loaded):
                return self._loaded[first : stop - self._start]
            return read_at(self.fd, start, max(0, stop - start), self.path)
        if at >= self.size:
            raise IndexError(at)
        loaded, start, _ = self.window(at)
        return loaded[at - start]

    @property
    def whole(self) -> bytes | None:
        """Returns all bytes of a small file; None for a large file."""
        if self.size > WHOLE:
            return None
        if len(self._loaded) < self.size:
            self._loaded = read_at(self.fd, 0, self.size, self.path)
        return self._loaded

    def window(self, pos: int) -> tuple[bytes, int, int]:
        """Returns bytes around a position, their offset, and the end of the complete fields."""
        if (whole := self.whole) is not None:
            return whole, 0, self.size
        end = self._start + len(self._loaded)
        if not self._start <= pos < (end if end == self.size else end - _HEADER):
            self._start = pos
            self._loaded = read_at(self.fd, pos, min(_WINDOW, self.size - pos), self.path)
            end = pos + len(self._loaded)
        return self._loaded, self._start, end if end == self.size else end - _HEADER


def read_at(fd: int, offset: int, length: int, path: str) -> bytes:
    """Reads a range of a file; raises an error that names the file if bytes are missing."""
    parts = []
    while length > 0:
        part = _pread(fd, min(length, _READ), offset)
        if not part:
            raise changed(path)
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_into(fd: int, offset: int, space: memoryview, path: str) -> None:
    """Fills a buffer with bytes of a file; raises an error if bytes are missing."""
    while space:
        count = _preadv(fd, space, offset)
        if not count:
            raise changed(path)
        offset += count
        space = space[count:]


def _preadv(fd: int, space: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(fd, [space], offset)
    data = _pread(fd, len(space), offset)
    space[: len(data)] = data
    return len(data)


def _pread(fd: int, length: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(fd, length, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, length)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Writes all bytes in several calls, because one huge call is several times slower."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(fd, remaining[:_WRITE]) :]


def has_equal_bytes(path: str, second_path: str) -> bool:
    """Compares the bytes of two files; `filecmp` may compare only their size and time."""
    with open(path, "rb") as first, open(second_path, "rb") as two:
        while (part := first.read(_COMPARED)) == two.read(_COMPARED):
            if not part:
                return True
    return False

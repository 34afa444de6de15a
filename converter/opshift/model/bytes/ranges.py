# SPDX-License-Identifier: Apache-2.0
"""Moves ranges of bytes between files, within the kernel if possible."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from opshift.errors import InvalidModel
from opshift.model.bytes.source import Named, Opened, read_at, read_into, write_all
from opshift.records import dataclass

_PAGE = 4 << 10
_LARGE_PAGE = 64 << 10
_CHUNK = 256 << 10  # a size that stays in the processor's cache
_STORED = 64 << 20  # bytes after which writing to the disk starts
_NOT_HERE = {
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.EBADF,
    errno.ENOTSOCK,
    errno.ESPIPE,
}


@dataclass(frozen=True, slots=True)
class Region:
    """A range of bytes of a file."""

    file: Named | Opened
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length

    @property
    def held(self) -> memoryview | None:
        """Returns the bytes if they are in memory already; else None."""
        whole = self.file.view.whole if isinstance(self.file, Opened) else None
        return None if whole is None else memoryview(whole)[self.offset : self.offset + self.length]

    def part(self, start: int, length: int) -> Region:
        """Returns a part of this range with at most this number of bytes."""
        return Region(self.file, self.offset + start, min(length, self.length - start))

    def read(self) -> bytes:
        """Reads the bytes of this range."""
        if isinstance(self.file, Opened):
            return self.file.view[self.offset : self.offset + self.length]
        source = self.file.open()
        try:
            return read_at(source, self.offset, self.length, self.file.path)
        finally:
            os.close(source)

    def write(self, fd: int) -> Iterator[None]:
        """Appends the bytes to a file, and yields after each part that the disk can write."""
        source = self.file.fd if isinstance(self.file, Opened) else self.file.open()
        try:
            for start in range(0, self.length, _STORED):
                length = min(_STORED, self.length - start)
                _move(source, fd, self.offset + start, length, self.file.path)
                yield
        finally:
            if isinstance(self.file, Named):
                os.close(source)


@dataclass(frozen=True, slots=True)
class Late:
    """Bytes that are computed, in parts, when they are written."""

    length: int
    make: Callable[[], Iterable[bytes]]

    def __len__(self) -> int:
        return self.length

    def write(self, fd: int) -> Iterator[None]:
        """Computes the bytes and appends them to a file; yields after each part."""
        written = 0
        for data in self.make():
            write_all(fd, data)
            written += len(data)
            yield
        if written != self.length:
            raise InvalidModel(f"a tensor has {written} bytes, but must have {self.length}")


Moved: TypeAlias = Region | Late
"""Bytes that are not in memory until they are written."""


def chunks(piece: bytes | Moved) -> Iterator[bytes]:
    """Yields the bytes of a piece in chunks of limited size."""
    if isinstance(piece, Late):
        yield from piece.make()
        return
    for start in range(0, len(piece), _CHUNK):
        if isinstance(piece, Region):
            yield piece.part(start, _CHUNK).read()
        else:
            yield piece[start : start + _CHUNK]


def _move(source: int, fd: int, offset: int, length: int, path: str) -> None:
    """Moves bytes in the fastest way that these files and offsets allow."""
    end, position = offset + length, _position(fd)
    # The kernel moves pages; if the offsets are not aligned, a small buffer is twice as fast.
    steps = (_copy_file_range, _sendfile) if (position - offset) % _PAGE == 0 else ()
    for step in steps:
        try:
            while offset < end and (moved := step(source, fd, offset, _stretch(offset, end))):
                offset += moved
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
    _pump(source, fd, offset, end, path)


def _position(fd: int) -> int:
    try:
        return os.lseek(fd, 0, os.SEEK_CUR)
    except OSError:  # a pipe has no positions
        return 0


def _stretch(offset: int, end: int) -> int:
    """Returns the size of the next move, aligned to large pages, which is a third faster."""
    short = -offset % _LARGE_PAGE
    return min(end - offset, short) if short else end - offset


def _pump(source: int, fd: int, offset: int, end: int, path: str) -> None:
    position = _position(fd)
    space = memoryview(bytearray(min(_CHUNK, end - offset)))  # reused, as new memory is slow
    while offset < end:
        length = min(_CHUNK - position % _CHUNK, end - offset)
        read_into(source, offset, space[:length], path)
        write_all(fd, space[:length])
        offset += length
        position += length


def _copy_file_range(source: int, fd: int, offset: int, length: int) -> int:
    if not hasattr(os, "copy_file_range"):
        raise OSError(errno.ENOSYS, "copy_file_range")
    return os.copy_file_range(source, fd, length, offset)


def _sendfile(source: int, fd: int, offset: int, length: int) -> int:
    if not hasattr(os, "sendfile"):
        raise OSError(errno.ENOSYS, "sendfile")
    return os.sendfile(fd, source, offset, length)


def write_pieces(fd: int, pieces: Iterable[bytes | memoryview | Moved]) -> None:
    """Writes a file from pieces in memory and in files; small pieces are written together."""
    small: list[bytes | memoryview] = []
    with contextlib.closing(_Storing(fd)) as storing:
        for piece in pieces:
            if isinstance(piece, Region) and (content := piece.held) is not None:
                piece = content
            if isinstance(piece, bytes | memoryview):
                small.append(piece)
                continue
            write_all(fd, b"".join(small))
            small.clear()
            for _ in piece.write(fd):
                storing.begin()
    write_all(fd, b"".join(small))


class _Storing:
    """Starts write-back of the written ranges while more bytes are written.

    A sync of the file then waits only for the last ranges.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.begun = _position(fd)
        self.thread: threading.Thread | None = None

    def begin(self) -> None:
        """Starts write-back of the bytes since the last call if there are enough of them."""
        length = _position(self.fd) - self.begun
        if length < _STORED or not hasattr(os, "posix_fadvise"):
            return
        self.close()
        # Passing pages to the disk takes a third of the time of writing them, so a thread does it.
        self.thread = threading.Thread(target=self._advise, args=(self.begun, length))
        self.thread.start()
        self.begun += length

    def _advise(self, start: int, length: int) -> None:
        # Linux then starts to write these bytes, and drops none before it is written.
        with contextlib.suppress(OSError):  # the call is only advice
            os.posix_fadvise(self.fd, start, length, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Waits until write-back of all ranges has started."""
        if self.thread is not None:
            self.thread.join()

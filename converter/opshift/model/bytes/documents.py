# SPDX-License-Identifier: Apache-2.0
"""Uses operator-set documents next to a model, only while opshift works on this model."""

from __future__ import annotations

import functools
import os
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

from opshift import versions
from opshift.errors import BadTarget, InvalidModel
from opshift.model.bytes import header_imports, wire
from opshift.model.bytes.external import real_path_inside
from opshift.model.bytes.source import BINARY, Opened, is_text
from opshift.opsets import described

_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # the name may become a FIFO after the check
_SETTLED = 10**9  # nanoseconds after which a change of the folder gets another time


def beside(*models: object) -> AbstractContextManager[None]:
    """Uses the operator-set documents in the folders of model files, within the context."""
    folders = dict.fromkeys(folder for model in models for folder in _folder(model))
    return described.using(document for folder in folders for document in _documents(folder))


def _folder(model: object) -> Iterator[str]:
    """Yields the folder of a model that imports a domain which ONNX does not describe."""
    if isinstance(model, (str, os.PathLike)) and os.path.isfile(model):
        try:
            model = Opened(os.fspath(model))
        except (InvalidModel, OSError):  # a later opening of the model reports it
            return
    if isinstance(model, Opened) and not model.piped and _imports_foreign(model):
        yield os.path.dirname(os.path.abspath(model.path))


def _imports_foreign(file: Opened) -> bool:
    if is_text(file.path):
        return True  # the imports are unknown until the whole file is read
    try:
        return not header_imports.domains(file.view).issubset(versions.DOMAINS)
    except (wire.Malformed, IndexError, InvalidModel):  # a later opening of the model reports it
        return False


def _documents(folder: str) -> Iterator[tuple[str, bytes]]:
    """Yields the path and the content of each document in a folder."""
    room = described.LARGEST
    for name in _names(folder):
        path = os.path.join(folder, name)
        if real_path_inside(folder, name) is None:
            raise _wrong(f"{path} is a link to a file outside of the model's folder")
        data = _content(path, room)
        room -= len(data)
        yield path, data


def _content(path: str, room: int) -> bytes:
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise _wrong(f"{path} is not a regular file")
    fd = os.open(path, os.O_RDONLY | BINARY | _NO_WAIT)
    with open(fd, "rb") as file:
        data = file.read(room + 1)
    if len(data) > room:
        limit = described.LARGEST >> 20
        raise _wrong(f"{path} and the documents before it have together more than {limit} MiB")
    return data


def _wrong(fault: str) -> BadTarget:
    return BadTarget(f"{fault}; remove the file, or name a document with --operator-set")


def _names(folder: str) -> tuple[str, ...]:
    """Returns the names of the documents in a folder, cached until the folder changes."""
    try:
        status = os.stat(folder)
        changed = status.st_mtime_ns
        settled = time.time_ns() - changed > _SETTLED
        key = (status.st_dev, status.st_ino, changed)
        return _listed(folder, key) if settled else _listed.__wrapped__(folder, key)
    except OSError:  # a later opening of the model reports it
        return ()


@functools.lru_cache(maxsize=64)
def _listed(folder: str, state: tuple[int, int, int]) -> tuple[str, ...]:
    """Lists documents, but no hidden files, because editors make hidden links with such names."""
    names = (name for name in os.listdir(folder) if name.endswith(described.SUFFIX))
    return tuple(sorted(name for name in names if not name.startswith(".")))

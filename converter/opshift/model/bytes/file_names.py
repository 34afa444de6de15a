# SPDX-License-Identifier: Apache-2.0
"""Derives names that are UTF-8 and, with a suffix, do not exceed the allowed length."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from opshift.errors import OpshiftError

ENDING = ".onnx"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a write to a disk without room
_LONGEST = 255 - len(".1234567.data")  # bytes of a name that leave room for a suffix


def has_ending(name: str) -> bool:
    """Returns whether a file or object has the extension of a model, in any case."""
    return name.lower().endswith(ENDING)


def digest(name: str) -> str:
    """Returns twelve letters for a name, equal for names that may mean the same file."""
    if not name.isascii():
        import unicodedata

        name = unicodedata.normalize("NFC", name)
    return hashlib.sha256(name.casefold().encode("utf-8", "surrogatepass")).hexdigest()[:12]


def stem(name: str) -> str:
    """Returns the name, or a name that a model can contain and that has room for a suffix."""
    data = os.fsencode(name)
    if len(data) <= _LONGEST and name == name.encode(errors="ignore").decode():
        return name
    exact = hashlib.sha256(data).hexdigest()[:12]
    start = data[: _LONGEST - 13].decode(errors="ignore")
    encoding = sys.getfilesystemencoding()  # it lacks letters if the locale is C
    return f"{start.encode(encoding, 'ignore').decode(encoding)}-{exact}"


@contextmanager
def errors_name(path: str, only: Collection[int] = ()) -> Iterator[None]:
    """Makes errors of the system contain the caller's path, not a temporary path.

    With `only`, it changes the errors with these numbers, and only if they name no file.
    """
    try:
        yield
    except OpshiftError:
        raise
    except OSError as error:
        if only and (error.errno not in only or error.filename):
            raise
        raise OSError(error.errno, error.strerror, path) from None

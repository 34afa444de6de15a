# SPDX-License-Identifier: Apache-2.0
"""Names that are derived from the name of a file, which may be as long as a name can be."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

from opshift.errors import OpshiftError

_LONGEST = 255 - len(".1234567.data")  # bytes of a name that leave room for an ending


def digest(name: str) -> str:
    """Twelve letters for a name; names that may mean the same file get the same letters."""
    if not name.isascii():
        import unicodedata

        name = unicodedata.normalize("NFC", name)
    return hashlib.sha256(name.casefold().encode("utf-8", "surrogatepass")).hexdigest()[:12]


def stem(name: str) -> str:
    """The name, or a shorter name if another ending would make it too long."""
    data = os.fsencode(name)
    if len(data) <= _LONGEST:
        return name
    exact = hashlib.sha256(data).hexdigest()[:12]
    return f"{data[: _LONGEST - 13].decode(errors='ignore')}-{exact}"


@contextmanager
def errors_name(path: str) -> Iterator[None]:
    """Replaces a hidden name in the errors of the system by the name that the caller knows."""
    try:
        yield
    except OpshiftError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None

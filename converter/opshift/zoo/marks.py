"""The mark beside a result: which recipe made it of which bytes, and the files as they were made.

A mark is written after its result, so a result without one, or one that has changed since, is
simply made again.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable

from opshift.zoo.outcome import Stamp


def stamps(paths: Iterable[str], folder: str) -> tuple[Stamp, ...]:
    """Files as they are now, named from a folder."""
    found = []
    for path in paths:
        status = os.stat(path)
        found.append((os.path.relpath(path, folder), status.st_size, status.st_mtime_ns))
    return tuple(found)


def unchanged(seen: Iterable[Stamp], folder: str) -> bool:
    """Whether files are as they were."""
    seen = tuple(seen)
    try:
        return bool(seen) and stamps((os.path.join(folder, s[0]) for s in seen), folder) == seen
    except OSError:
        return False


def write(mark: str, key: str, writes: Iterable[Stamp]) -> None:
    """Puts a mark in its place, whole."""
    os.makedirs(os.path.dirname(mark), exist_ok=True)
    temporary = os.path.join(os.path.dirname(mark), f".opshift-{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "x", encoding="ascii") as file:
            json.dump({"schema_version": 1, "key": key, "writes": list(writes)}, file)
        os.replace(temporary, mark)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def holds(mark: str, key: str, folder: str) -> tuple[Stamp, ...]:
    """The files of the result that a key names; empty unless they are all there as made."""
    try:
        with open(mark, encoding="ascii") as file:
            raw = json.load(file)
        writes = tuple((str(path), int(size), int(at)) for path, size, at in raw["writes"])
        matches = raw["schema_version"] == 1 and raw["key"] == key
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    return writes if matches and unchanged(writes, folder) else ()

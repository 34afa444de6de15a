# SPDX-License-Identifier: Apache-2.0
"""A cache of the outcomes of earlier runs, so that a rerun reads only changed models."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator

from opshift.errors import BadTarget
from opshift.zoo.outcome import Outcome

_TABLE = (
    "CREATE TABLE IF NOT EXISTS outcomes"
    " (name BLOB PRIMARY KEY, recipe TEXT NOT NULL, outcome TEXT NOT NULL) WITHOUT ROWID"
)
EVERY = 0.5  # seconds between writes; a rerun repeats what a killed driver had not written


class Journal:
    """A table of outcomes by name; an unreadable one is replaced by an empty one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._new, self._wrote = list[tuple[str, Outcome]](), 0.0
        try:
            os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
            self._db = self._open_or_begin()
        except (OSError, sqlite3.Error) as error:
            raise BadTarget(
                f"{path}: the journal cannot be written: {error}; give another file with --journal"
            ) from error

    def _open_or_begin(self) -> sqlite3.Connection:
        try:
            return self._open()
        except sqlite3.DatabaseError:
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path + end)
            return self._open()

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(_TABLE)
        db.execute("SELECT name, recipe, outcome FROM outcomes LIMIT 1").fetchone()
        return db

    def put(self, recipe: str, outcome: Outcome) -> None:
        """Stores an outcome if that is possible."""
        self._new.append((recipe, outcome))
        if time.monotonic() > self._wrote + EVERY:
            self._write()

    def _write(self) -> None:
        rows = [(os.fsencode(o.name), recipe, json.dumps(o.as_dict())) for recipe, o in self._new]
        with contextlib.suppress(sqlite3.Error), self._db:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?)", rows)
        self._new.clear()
        self._wrote = time.monotonic()

    def get(self, recipe: str, name: str) -> Outcome | None:
        """The stored outcome of a model for this recipe."""
        query = "SELECT outcome FROM outcomes WHERE name = ? AND recipe = ?"
        with contextlib.suppress(sqlite3.Error, ValueError, KeyError, TypeError):
            for (text,) in self._db.execute(query, (os.fsencode(name), recipe)):
                return Outcome.from_dict(json.loads(text))
        return None

    def close(self) -> None:
        self._write()
        self._db.close()


def cache_of(dst: str) -> str:
    """The path of the journal for results in a store."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "opshift", hashlib.sha256(dst.rstrip("/").encode()).hexdigest()[:16])


@contextlib.contextmanager
def opened(path: str) -> Iterator[Journal]:
    journal = Journal(path)
    try:
        yield journal
    finally:
        journal.close()

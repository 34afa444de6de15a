# SPDX-License-Identifier: Apache-2.0
"""Stores the outcomes of earlier runs, so that a rerun reads only changed models."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from opshift import terms
from opshift.errors import BadDestination
from opshift.json_form import parsed
from opshift.model.bytes.claim import Claim, tidy
from opshift.model.bytes.staging import linked
from opshift.text import cause_of
from opshift.zoo.outcome import Outcome

APPLICATION = 0x6F70736A  # the application id that marks an SQLite file as a journal of opshift
_FORM = (
    "CREATE TABLE outcomes"
    " (name BLOB PRIMARY KEY, recipe TEXT NOT NULL, outcome TEXT NOT NULL) WITHOUT ROWID"
)
HEAD = b"SQLite format 3\0"
_MARK = slice(68, 72)  # the position of the application id in an SQLite file
# suffixes of the files of a database; the main file is last
_PARTS = ("-wal", "-shm", "-journal", "")
# seconds between writes; after a crash of the driver, a rerun repeats the unwritten work
EVERY = 0.5
WAIT = 30.0  # seconds to wait for another process to finish its write


class Journal:
    """A table of outcomes by name.

    `notes` lists defects of the file; because of a defect, more models are read again. If the file
    fails later, `fault` has the error and the file is not used any more.
    """

    def __init__(self, path: str, *, default: bool = False) -> None:
        """Opens or creates a journal. A file of another kind raises an error and stays unchanged.

        A damaged file is renamed if `default` is set, which means that the caller did not choose
        it.
        """
        self.path, self.notes, self.fault = path, list[str](), ""
        self._new, self._wrote = list[tuple[str, Outcome]](), 0.0
        try:
            os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
            self._db = self._open(default)
        except (OSError, sqlite3.Error) as error:
            reason = cause_of(error) if isinstance(error, OSError) else error
            raise BadDestination(
                f"{path}: the journal cannot be used: {reason}; give another file with"
                f" {terms.option('journal', 'FILE')}"
            ) from error

    def _open(self, default: bool) -> sqlite3.Connection:
        try:
            return _opened(self.path)
        except _DamagedError as damage:
            if not default:
                raise
            new_name = _set_aside(self.path)
            self.notes.append(f"{self.path}: {damage}; it was renamed to {new_name}")
            return _opened(self.path)

    def put(self, recipe: str, outcome: Outcome) -> None:
        """Stores an outcome; a failure to write becomes a note."""
        self._new.append((recipe, outcome))
        if time.monotonic() > self._wrote + EVERY:
            self._write()

    def _write(self) -> None:
        rows = [(os.fsencode(o.name), recipe, json.dumps(o.as_dict())) for recipe, o in self._new]
        if not self.fault:
            with self._ending_at_a_fault(), self._db:
                self._db.execute("BEGIN")
                self._db.executemany("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?)", rows)
        self._new.clear()
        self._wrote = time.monotonic()

    def get(self, recipe: str, name: str) -> Outcome | None:
        """Returns the stored outcome of a model for the same options, or None."""
        if self.fault:
            return None
        query = "SELECT outcome FROM outcomes WHERE name = ? AND recipe = ?"
        with self._ending_at_a_fault(), contextlib.suppress(ValueError, KeyError, TypeError):
            for (text,) in self._db.execute(query, (os.fsencode(name), recipe)):
                return Outcome.from_dict(parsed(text))  # raises for a row of another release
        return None

    @contextlib.contextmanager
    def _ending_at_a_fault(self) -> Iterator[None]:
        """Catches an error of the file as `fault`; the conversions continue without the journal."""
        try:
            yield
        except sqlite3.Error as error:
            self.fault = (
                f"{self.path}: the journal failed: {error}; the models are converted, but the next"
                " run reads more of them again"
            )

    def close(self) -> None:
        self._write()
        self._db.close()


def reading(path: str) -> Iterator[Outcome]:
    """Yields the outcomes in a journal without changing the file."""
    with contextlib.closing(_unchanged(path)) as db:
        try:
            for (text,) in db.execute("SELECT outcome FROM outcomes ORDER BY name"):
                yield Outcome.from_dict(parsed(text))
        except (sqlite3.DatabaseError, ValueError, KeyError, TypeError) as error:
            raise _DamagedError(f"{path}: this file is not a readable journal: {error}") from error


class _DamagedError(OSError):
    """Raised for a file that is not a readable journal."""


def _opened(path: str) -> sqlite3.Connection:
    if os.path.exists(path):
        tidy(os.path.realpath(path))
    else:
        _create(os.path.realpath(path))
    _require_journal(path)
    with contextlib.ExitStack() as undone:
        db = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
        undone.callback(db.close)
        try:
            (check,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if db.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
                _begin(db)  # an old journal, or SQLite has rolled back an unfinished creation
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("SELECT name, recipe, outcome FROM outcomes LIMIT 1").fetchone()
        except sqlite3.DatabaseError as error:
            # subclasses of this exception are not about the content
            if type(error) is sqlite3.DatabaseError:
                raise _DamagedError(f"the journal is damaged: {error}") from error
            raise
        if check != "ok":
            raise _DamagedError(f"the journal is damaged: {check}")
        undone.pop_all()
    return db


def _create(path: str) -> None:
    """Creates a journal that, on a file system with links, no process ever sees unfinished."""
    claim = Claim.on(*os.path.split(path))
    try:
        name = claim.name()
        with contextlib.closing(sqlite3.connect(name, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = MEMORY")  # the next run does not remove other files
            _begin(db)
        with contextlib.suppress(FileExistsError):  # another process was faster
            if not linked(name, path):
                with open(path, "xb") as file:
                    file.write(Path(name).read_bytes())
    finally:
        claim.release(sweeps=True)


def _begin(db: sqlite3.Connection) -> None:
    """Turns an empty database into a journal in one transaction; another process may be faster."""
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        db.execute(_FORM)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute("COMMIT")


def _require_journal(path: str) -> None:
    """Raises for a file of another kind; an empty file may belong to another program."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("it is not a regular file")
    with open(path, "rb") as file:
        head = file.read(_MARK.stop)
    if not head:
        raise _DamagedError("this file is empty, and not a journal of opshift")
    if not head.startswith(HEAD):
        raise _DamagedError("this file is not a journal of opshift")
    mark = int.from_bytes(head[_MARK], "big")
    if mark != APPLICATION and (mark or not _has_only_outcomes(path)):
        raise _DamagedError("this database is not a journal of opshift")


def _has_only_outcomes(path: str) -> bool:
    """Returns whether a file is a journal of release 0.2 or earlier, without application id."""
    with contextlib.closing(_unchanged(path)) as db:
        try:
            return db.execute("SELECT sql FROM sqlite_master").fetchall() == [(_FORM,)]
        except sqlite3.DatabaseError:
            return False


def _unchanged(path: str) -> sqlite3.Connection:
    """Opens a database read-only; creates no other files unless another process is writing."""
    alone = "" if os.path.exists(f"{path}-wal") else "&immutable=1"
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro{alone}", uri=True)


def _set_aside(path: str) -> str:
    """Renames a damaged journal with all its files, and returns the new name."""
    number = 1
    while os.path.lexists(new_name := f"{path}.damaged-{number}"):
        number += 1
    for part in _PARTS:
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + part, new_name + part)
    return new_name


def cache_of(dst: str) -> str:
    """Returns the path of the journal for results in an object store."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "opshift", hashlib.sha256(dst.rstrip("/").encode()).hexdigest()[:16])


@contextlib.contextmanager
def opened(path: str, *, default: bool = False) -> Iterator[Journal]:
    journal = Journal(path, default=default)
    try:
        yield journal
    finally:
        journal.close()

# SPDX-License-Identifier: Apache-2.0
"""The journal of a batch: the files that it may be, and that other files never lose a byte."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from opshift.cli.entry import main
from opshift.errors import BadDestination
from opshift.model.bytes import leftovers
from opshift.zoo import journal as journals
from opshift.zoo.journal import Journal, reading
from opshift.zoo.outcome import Fate, Outcome
from zoos import zoo

MODEL = bytes(range(8)) * 50
FLIPS = 60


def held(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of each file except the shared memory of readers."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".sqlite-shm")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def database(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def filled(path: Path, count: int = 300) -> None:
    journal = Journal(str(path))
    for number in range(count):
        journal.put("r", Outcome(f"m{number}", Fate.REFUSED, "x" * 200))
    journal.close()


def works(journal: Journal) -> bool:
    journal.put("new", Outcome("n", Fate.OK))
    found = journal.get("new", "n")
    return found is not None and found.fate is Fate.OK


OUR_TABLE = "CREATE TABLE outcomes (name BLOB PRIMARY KEY, recipe TEXT NOT NULL, outcome TEXT NOT NULL) WITHOUT ROWID"
SOMETHING_ELSE = {
    "nothing": lambda path: path.touch(),
    "a text": lambda path: path.write_text("precious\n"),
    "a model": lambda path: path.write_bytes(MODEL),
    "a byte": lambda path: path.write_bytes(b"\0"),
    "the head of a database": lambda path: path.write_bytes(b"SQLite format 3\0" + MODEL[:40]),
    "the database of a program": lambda path: database(path, "CREATE TABLE users (name)"),
    "a database with our table and another": lambda path: database(path, OUR_TABLE, "CREATE TABLE users (name)"),
    "a table of this name": lambda path: database(path, "CREATE TABLE outcomes (id, text)"),
    "a marked database": lambda path: database(path, OUR_TABLE, "PRAGMA application_id = 7"),
    "a database that logs ahead": lambda path: database(path, "PRAGMA journal_mode = WAL", "CREATE TABLE users (name)"),
}  # fmt: skip


@pytest.mark.parametrize("make", SOMETHING_ELSE.values(), ids=SOMETHING_ELSE)
def test_a_file_that_is_no_journal_keeps_every_byte(make, tmp_path):
    path = tmp_path / "given.sqlite"
    make(path)
    before = held(tmp_path)
    with pytest.raises(BadDestination, match=r"given\.sqlite: .*`journal="):
        Journal(str(path))
    assert held(tmp_path) == before
    journal = Journal(str(path), default=True)
    assert works(journal)
    journal.close()
    kept = "given.sqlite.damaged-1"
    assert kept in journal.notes[0]
    after = held(tmp_path)
    assert {name: after[name.replace("given.sqlite", kept)] for name in before} == before


def test_a_link_to_such_a_file_is_such_a_file(tmp_path):
    (tmp_path / "text").write_text("precious\n")
    (tmp_path / "link").symlink_to("text")
    with pytest.raises(BadDestination, match="not a journal"):
        Journal(str(tmp_path / "link"))
    assert (tmp_path / "text").read_text() == "precious\n"


@pytest.mark.skipif(os.name == "nt", reason="there are no FIFOs")
@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_an_error_at_once(make, default, tmp_path):
    make(tmp_path / "j")
    with pytest.raises(BadDestination, match="not a regular file"):
        Journal(str(tmp_path / "j"), default=default)


def test_a_new_file_becomes_a_journal(tmp_path):
    (tmp_path / "link").symlink_to("linked")
    for name in ("new", "deep/new", "link"):
        filled(tmp_path / name)
        journal = Journal(str(tmp_path / name))
        assert journal.get("r", "m7").fate is Fate.REFUSED
        assert journal.get("other", "m7") is None
        assert works(journal)
        assert not journal.notes
        journal.close()
    assert {path.name for path in tmp_path.iterdir()} == {"new", "deep", "link", "linked"}


def test_a_new_journal_needs_no_links(tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "linked", lambda name, path: False)
    assert works(Journal(str(tmp_path / "j")))


def test_a_journal_is_never_seen_unfinished(tmp_path, monkeypatch):
    """After each statement of one process, another process finds no file or a complete journal."""
    path, begin, depth = tmp_path / "j", sqlite3.Connection.execute, [0]

    class Watched(sqlite3.Connection):
        def execute(self, sql, *rest):
            if path.exists() and not depth[0]:
                depth[0] = 1
                assert works(Journal(str(path)))
                depth[0] = 0
            return begin(self, sql, *rest)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Watched))
    assert works(Journal(str(path)))


def test_the_faster_of_two_processes_creates_the_journal(tmp_path, monkeypatch):
    path, link = tmp_path / "j", journals.linked
    filled(tmp_path / "other")

    def after_another(name: str, place: str) -> bool:
        path.write_bytes((tmp_path / "other").read_bytes())
        return link(name, place)

    monkeypatch.setattr(journals, "linked", after_another)
    assert Journal(str(path)).get("r", "m7").fate is Fate.REFUSED


def test_a_journal_of_the_first_releases_is_one(tmp_path):
    """The first journals had no mark and only this table."""
    database(tmp_path / "j", "PRAGMA journal_mode = WAL", OUR_TABLE,
             "INSERT INTO outcomes VALUES (x'6d', 'r', '{}')")  # fmt: skip
    for _ in range(2):
        journal = Journal(str(tmp_path / "j"))
        assert works(journal)
        assert journal.get("r", "m") is None  # another form of a row
        assert not journal.notes
        journal.close()


def test_no_damage_costs_a_byte(tmp_path):
    """A damaged journal works, gives an error, or is moved away unchanged."""
    filled(tmp_path / "good")
    good, rng, aside = (tmp_path / "good").read_bytes(), random.Random(0), 0
    for number in range(FLIPS):
        home = tmp_path / str(number)
        home.mkdir()
        at, length = rng.randrange(len(good)), rng.choice([1, 100, 4096])
        data = good[:at] + rng.randbytes(length) + good[at + length :]
        data = rng.choice([data, good[:at]]) if at else data
        path = home / "j.sqlite"
        path.write_bytes(data)
        try:
            Journal(str(path)).close()
        except BadDestination as error:
            assert "journal" in str(error)
            assert path.read_bytes() == data
        journal = Journal(str(path), default=True)
        assert works(journal)
        journal.close()
        if journal.notes:
            aside += 1
            assert (home / "j.sqlite.damaged-1").read_bytes() == data
    assert aside > FLIPS / 3  # otherwise the damage is not seen


def test_damage_that_the_first_rows_hide_is_seen(tmp_path):
    path = tmp_path / "j"
    filled(path)
    with path.open("r+b") as file:
        file.seek(-4096, os.SEEK_END)  # the last page
        file.write(b"\xff" * 100)
    with pytest.raises(BadDestination, match="the journal is damaged"):
        Journal(str(path))


def test_a_second_damaged_journal_does_not_replace_the_first(tmp_path):
    for number in (1, 2):
        (tmp_path / "j").write_text(f"text {number}")
        Journal(str(tmp_path / "j"), default=True).close()
        assert (tmp_path / f"j.damaged-{number}").read_text() == f"text {number}"
        (tmp_path / "j").unlink()


@pytest.mark.parametrize("default", [False, True])
def test_a_locked_journal_is_an_error(default, tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "WAIT", 0.1)
    filled(tmp_path / "j")
    database(tmp_path / "j", "PRAGMA journal_mode = DELETE")
    other = sqlite3.connect(tmp_path / "j", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    before = held(tmp_path)
    with pytest.raises(BadDestination, match="locked"):
        Journal(str(tmp_path / "j"), default=default)
    assert held(tmp_path) == before
    other.close()
    Journal(str(tmp_path / "j"), default=default).close()


class Failing(sqlite3.Connection):
    """A connection to a database that fails at one statement."""

    at = ""
    error = sqlite3.OperationalError("disk I/O error")

    def execute(self, sql, *rest):
        if self.at and self.at in sql:
            raise self.error
        return super().execute(sql, *rest)


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("told", ["disk I/O error", "database or disk is full"])
@pytest.mark.parametrize("at", ["quick_check", "BEGIN", "CREATE", "COMMIT", "journal_mode", "SELECT name"])  # fmt: skip
def test_a_disk_that_fails_is_an_error(at, told, default, tmp_path, monkeypatch):
    connect = sqlite3.connect
    failing = type("_", (Failing,), {"at": at, "error": sqlite3.OperationalError(told)})
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=failing))
    with pytest.raises(BadDestination, match=told):
        Journal(str(tmp_path / "j"), default=default)
    monkeypatch.undo()
    assert not list(tmp_path.glob("*damaged*"))
    assert works(Journal(str(tmp_path / "j"), default=default))  # nothing is left that stops it


def test_a_journal_that_fails_later_is_not_used_again(tmp_path):
    journal = Journal(str(tmp_path / "j.sqlite"))
    database(tmp_path / "j.sqlite", "DROP TABLE outcomes")
    for _ in range(3):
        assert journal.get("r", "m") is None
    journal.put("r", Outcome("n", Fate.OK))
    journal.close()
    assert "j.sqlite: the journal failed: no such table" in journal.fault
    assert not journal.notes


def test_a_journal_that_failed_is_not_used_if_it_works_again(tmp_path):
    path = tmp_path / "j.sqlite"
    journal = Journal(str(path))
    database(path, "DROP TABLE outcomes")
    assert journal.get("r", "m") is None
    database(path, OUR_TABLE)
    journal.put("r", Outcome("m", Fate.OK))
    assert not list(reading(str(path)))
    filled(path, 1)
    assert journal.get("r", "m0") is None
    journal.close()


def test_outcomes_are_written_at_once_and_then_after_pauses(tmp_path, monkeypatch):
    path, clock = str(tmp_path / "j"), SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(journals, "time", clock)
    journal, counts = Journal(path), list[int]()
    for now in (journals.EVERY + 0.1, journals.EVERY + 0.3, 2 * journals.EVERY + 0.2):
        journal.put("r", Outcome(f"at {now}", Fate.OK))
        counts.append(len(list(reading(path))))
    assert counts == [1, 1, 3]
    journal.close()


def test_a_reader_sees_what_a_writer_has_written_and_leaves_no_file(tmp_path):
    path = tmp_path / "j"
    filled(path, 2)
    before = held(tmp_path)
    assert [outcome.name for outcome in reading(str(path))] == ["m0", "m1"]
    assert held(tmp_path) == before
    journal = Journal(str(path))
    assert works(journal)
    assert [outcome.name for outcome in reading(str(path))] == ["m0", "m1", "n"]
    journal.close()


def test_a_journal_that_exists_is_not_created(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled(Path("j"), 1)
    monkeypatch.setattr(journals, "_create", None)
    Journal("j").close()


def test_a_new_journal_removes_what_killed_runs_left(tmp_path):
    left = Path(leftovers.run_file(str(tmp_path), "0123456789ac"))
    left.touch()
    filled(tmp_path / "j", 1)
    assert not left.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "this file is empty, and not a journal"),
        (b"SQLite format 3\0" + bytes(90), "this database is not a journal"),
    ],
)
def test_the_error_names_the_kind_of_the_file(content, reason, tmp_path):
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(BadDestination, match=reason):
        Journal(str(tmp_path / "j"))


def test_an_error_of_the_system_is_named_without_its_number(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadDestination, match=r"used: (?!\[Errno)"):
        Journal(str(tmp_path / "file" / "j"))


def test_the_journal_of_a_store_keeps_its_place(monkeypatch, tmp_path):
    """Another location would lose the outcomes of earlier releases."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = journals.cache_of("s3://bucket/folder/")
    assert name == str(tmp_path / "opshift" / "632d25f7b51bd5b5")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    other = journals.cache_of("s3://bucket/folder")
    assert other == str(tmp_path / ".cache" / "opshift" / "632d25f7b51bd5b5")


def test_a_journal_that_is_locked_during_a_run_is_an_error(tmp_path, monkeypatch):
    """The run waits for the lock once, and not again for each model."""
    monkeypatch.setattr(journals, "WAIT", 0.2)
    monkeypatch.setattr(journals, "EVERY", 0.0)
    words = ["batch", zoo(tmp_path / "src", 4), tmp_path / "dst", "--to", "13"]
    opened, others = Journal.__init__, list[sqlite3.Connection]()

    def and_lock(journal: Journal, path: str, **options: bool) -> None:
        opened(journal, path, **options)
        others.append(sqlite3.connect(path, isolation_level=None))
        others[0].execute("BEGIN EXCLUSIVE")

    monkeypatch.setattr(Journal, "__init__", and_lock)
    done = CliRunner().invoke(main, [*map(str, words), "--json"])
    others[0].close()
    assert done.exit_code == 2
    document = json.loads(done.stdout)
    assert (document["fates"]["ok"], document["notes"]) == (4, [])
    (fault,) = document["faults"]
    assert "the journal failed: database is locked" in fault
    monkeypatch.setattr(Journal, "__init__", opened)
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == 0, done.output
    assert "error" not in done.output


def test_the_command_says_that_a_file_is_no_journal(tmp_path):
    (tmp_path / "notes.txt").write_text("precious\n")
    words = ["batch", zoo(tmp_path / "src", 1), tmp_path / "dst", "--to", "13"]
    done = CliRunner().invoke(main, [*map(str, words), "--journal", str(tmp_path / "notes.txt")])
    assert done.exit_code == 2
    assert "notes.txt: the journal cannot be used: this file is not a journal" in done.stderr
    assert (tmp_path / "notes.txt").read_text() == "precious\n"
    (tmp_path / "dst" / ".opshift").mkdir(parents=True, exist_ok=True)
    (tmp_path / "dst" / ".opshift" / "journal.sqlite").write_text("damaged")
    done = CliRunner().invoke(main, [*map(str, words)])
    assert "note: " in done.stdout
    assert "renamed to" in done.stdout


UNDONE = bytes.fromhex("d9d505f920a163d7")  # begins the file by which SQLite undoes a change


def test_a_beginning_that_did_not_end_begins_again(tmp_path: Path) -> None:
    """The file names opshift already, and SQLite reverts the rest when it opens the file."""
    path = tmp_path / "j.sqlite"
    before = Path(f"{path}-journal")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute(OUR_TABLE)
        db.execute(f"PRAGMA application_id = {journals.APPLICATION}")
        undo = UNDONE + before.read_bytes()[len(UNDONE) :]
        db.execute("COMMIT")
    before.write_bytes(undo)
    journal = Journal(str(path))
    assert works(journal)
    assert journal.notes == []
    journal.close()


KILLED = """
import os, signal, sqlite3, sys
from opshift.zoo import journal

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

class Killed(sqlite3.Connection):
    def execute(self, sql, *rest):
        done = super().execute(sql, *rest)
        return kill() if "{at}" in sql else done

connect = sqlite3.connect
sqlite3.connect = lambda *a, **k: connect(*a, **k, factory=Killed)
link = journal.linked
journal.linked = lambda *names: link(*names) and "{at}" == "linked" and kill()
journal.Journal("done/j")
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("at", ["BEGIN", "CREATE", "COMMIT", "linked"])
def test_a_killed_creation_leaves_nothing_after_the_next_run(at: str, tmp_path: Path) -> None:
    folder = tmp_path / "done"
    code = KILLED.format(at=at)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len([*folder.iterdir()]) > 1 or at != "linked"
    journal = Journal(str(folder / "j"))
    assert works(journal)
    journal.close()
    assert [path.name for path in folder.iterdir()] == ["j"]

# SPDX-License-Identifier: Apache-2.0
"""After a crash or a failed call at any point, either the old or the new result exists.

The calls of Python are counted, and each test interrupts some of them.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from opshift import convert_file
from opshift.model.bytes import leftovers, locks, outline
from opshift.model.bytes.claim import Claim
from opshift.model.bytes.leftovers import mentioned, sweep, sweep_again, sweep_once, text_of
from opshift.model.bytes.source import Identity
from pairs import contents, load, save, weight

CALLS = ("open", "write", "copy_file_range", "sendfile", "fsync", "link", "replace", "unlink",
         "chmod", "mkdir", "close")  # fmt: skip
KILLS = 6  # a case is killed at every sixth call
FAILS = 12  # and each failure hits every twelfth one
FAILURES = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children that die need fork")

CASES = {
    "one file": ("", {}, False),
    "over one file": ("", {}, True),
    "one-file": ("w.bin", {"external": "one-file"}, False),
    "over a pair": ("w.bin", {"external": "one-file"}, True),
    "a pair becomes one": ("w.bin", {"external": "inline"}, True),
    "copy": (os.path.join("sub", "w.bin"), {"external": "copy"}, False),
    "in place": ("", {"in_place": True}, False),
    "a pair in place": ("m.onnx.data", {"external": "one-file", "in_place": True}, False),
    "inline in place": ("m.onnx.data", {"external": "inline", "in_place": True}, False),
    "ir in place": ("", {"ir_version": 8, "in_place": True}, False),
    "ir of a pair in place": ("m.onnx.data", {"ir_version": 8, "external": "one-file", "in_place": True}, False),
}  # fmt: skip


class Counter:
    """Executes a number of calls, then replaces the next one."""

    def __init__(self, left: int, act: Callable[[], object]) -> None:
        self.left, self.act, self.hit = left, act, ""

    def around(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def counted(*words: object, **more: object) -> object:
            writes = name != "open" or words[1] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
            if writes and not self.hit:
                self.left -= 1
                if self.left < 0:
                    self.hit = name
                    self.act()
            return real(*words, **more)

        return counted


def prepared(folder: Path, case: str) -> tuple[Path, Path, dict]:
    location, options, there = CASES[case]
    options = dict(options)
    source = save(folder / "home" / "m.onnx", location, 64)
    out = source if options.get("in_place") else folder / "out" / "m.onnx"
    if there:
        save(out, "m.onnx.data" if location else "", 128, seed=7)
    out.parent.mkdir(exist_ok=True)
    if "ir_version" not in options:
        options["target"] = 13
    return source, out, options


def state(out: Path) -> tuple | None:
    if not out.exists():
        return None
    header = out.read_bytes()[:2]
    return (*load(out), header)


def cases_of(folder: Path, case: str) -> tuple[tuple | None, tuple]:
    """Returns the files before and after a run without interruption."""
    source, out, options = prepared(folder, case)
    before = state(out)
    convert_file(source, out, **options)
    return before, state(out)


def child(act: Callable[[], None]) -> int:
    """Returns the exit code of a child process."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except OSError:
            os._exit(7)
        except BaseException:
            os._exit(8)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("case", CASES)
def test_killed_at_any_call_it_is_the_old_or_the_new(case, tmp_path):
    before, after = cases_of(tmp_path / "plain", case)
    for number in itertools.count(list(CASES).index(case) % KILLS, KILLS):
        folder = tmp_path / str(number)
        source, out, options = prepared(folder, case)

        def killed(number=number, source=source, out=out, options=options):
            counter = Counter(number, lambda: os._exit(99))
            for name in CALLS:
                if hasattr(os, name):
                    setattr(os, name, counter.around(name, getattr(os, name)))
            convert_file(source, out, **options)

        code = child(killed)
        assert code in (0, 99)
        assert state(out) in (before, after)
        if code == 0:
            assert number > (2 if case == "ir in place" else 5)
            break
        convert_file(source, out, **options)  # the next run in the folder
        assert state(out) == after
        left = contents(folder)
        assert not [name for name in left if ".opshift-" in name]
        assert set(left) == set(contents(tmp_path / "plain")), f"killed at call {number}"
        shutil.rmtree(folder)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("failure", FAILURES, ids=errno.errorcode.get)
def test_a_call_that_fails_leaves_the_old_or_the_new(case, failure, tmp_path):
    before, after = cases_of(tmp_path / "plain", case)
    first = (FAILURES.index(failure) + 5 * list(CASES).index(case)) % FAILS
    for number in itertools.count(first, FAILS):
        folder = tmp_path / str(number)
        source, out, options = prepared(folder, case)
        files = contents(folder)

        def failing(number=number, source=source, out=out, options=options):
            def fail() -> None:
                raise OSError(failure, os.strerror(failure))

            counter = Counter(number, fail)
            for name in CALLS:
                if hasattr(os, name):
                    setattr(os, name, counter.around(name, getattr(os, name)))
            convert_file(source, out, **options)
            os._exit(5 if counter.hit else 0)

        code = child(failing)
        assert code in (0, 5, 7)
        now = state(out)
        assert now == (before if code == 7 else after)
        if code == 7:
            left = {n: data for n, data in contents(folder).items() if ".opshift-" not in n}
            assert left == files, f"call {number}"
        if code == 0:
            break
        shutil.rmtree(folder)


@pytest.mark.parametrize("case", ["over a pair", "a pair becomes one", "a pair in place"])
def test_after_an_error_of_the_disk_the_next_run_removes_all_old_data(case, tmp_path):
    """If the old model cannot be read for a moment, its data files are unknown."""
    _, after = cases_of(tmp_path / "plain", case)
    for number in itertools.count():
        folder = tmp_path / str(number)
        source, out, options = prepared(folder, case)

        def failing(number=number, source=source, out=out, options=options, folder=folder):
            left = itertools.count(number, -1)

            def around(real):
                def counted(*words, **more):
                    ours = str(folder) in str(words[0]) or isinstance(words[0], int)
                    if ours and next(left) == 0:
                        raise OSError(errno.EIO, os.strerror(errno.EIO))
                    return real(*words, **more)

                return counted

            for name in ("open", "pread", "stat", "lstat", "unlink"):
                setattr(os, name, around(getattr(os, name)))
            convert_file(source, out, **options)
            os._exit(5 if next(left) < 0 else 0)

        if child(failing) == 0:
            break
        convert_file(source, out, **options)
        assert state(out) == after
        assert set(contents(folder)) == set(contents(tmp_path / "plain")), f"failed at {number}"
        shutil.rmtree(folder)


# --- what a live run holds is left to it ----------------------------------------------------------


def test_the_files_of_a_live_run_stay(tmp_path):
    claim = Claim.on(str(tmp_path), "other.onnx")
    Path(claim.name()).write_bytes(b"half")
    there = set(os.listdir(tmp_path))
    assert child(lambda: sweep(str(tmp_path))) == 0
    assert set(os.listdir(tmp_path)) == there
    convert_file(save(tmp_path / "m.onnx"), tmp_path / "o.onnx", 13)
    assert there <= set(os.listdir(tmp_path))
    claim.release(sweeps=True)
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "o.onnx"]


def test_the_files_of_a_dead_run_go(tmp_path):
    def die() -> None:
        claim = Claim.on(str(tmp_path), "o.onnx")
        Path(claim.name()).write_bytes(b"half")
        os._exit(9)

    assert child(die) == 9
    assert len(os.listdir(tmp_path)) == 2
    sweep(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_what_only_looks_like_ours_stays(tmp_path):
    names = [".opshift-x.tmp", ".opshift-0123456789ab-1.tmp", "0123456789ab.run", ".opshift"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "w.bin").write_bytes(weight())
    (tmp_path / ".opshift-0123456789ac.run").write_text('{"model": "m", "data": {"w.bin": [1, 2, 3, 4]}}')  # fmt: skip
    (tmp_path / ".opshift-0123456789ad.run").write_text('{"data": 7}')
    (tmp_path / ".opshift-0123456789ae.run").write_text("[" * 100_000)
    sweep(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "w.bin"])
    os.utime(tmp_path / names[1], (1, 1))  # without a run, and long ago
    sweep(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted([names[0], *names[2:], "w.bin"])


def test_without_locks_age_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "lock", lambda fd, *, shared=False: None)
    claim = Claim.on(str(tmp_path), "o.onnx")
    Path(claim.name()).write_bytes(b"half")
    sweep(str(tmp_path))
    assert len(os.listdir(tmp_path)) == 2
    os.utime(claim.path, (1, 1))
    sweep(str(tmp_path))
    assert os.listdir(tmp_path) == []
    claim.release(sweeps=True)


ROOT = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root has two users"
)


@ROOT
def test_what_another_user_wrote_is_not_believed(tmp_path):
    data = tmp_path / "w.bin"
    data.write_bytes(weight())
    status = data.stat()
    run = tmp_path / ".opshift-0123456789ac.run"
    run.write_text(f'{{"data": {{"w.bin": [{status.st_dev}, {status.st_ino}, {status.st_size}, {status.st_mtime_ns}]}}}}')  # fmt: skip
    os.chown(run, 65534, 65534)
    sweep(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [run.name, data.name]
    os.chown(run, 0, 0)
    sweep(str(tmp_path))
    assert os.listdir(tmp_path) == []


@ROOT
def test_the_owner_of_the_folder_is_believed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = Path("m.onnx")
    file.write_bytes(b"")
    assert leftovers.is_ours("m.onnx")
    os.chown(file, 65534, 65534)
    assert not leftovers.is_ours("m.onnx")
    os.chown(tmp_path, 65534, 65534)
    assert leftovers.is_ours("m.onnx")


@pytest.mark.parametrize("owner", [0, 65534])
@ROOT
def test_a_system_without_users_has_one_user(owner, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "geteuid")
    os.chown(save(tmp_path / "m.onnx"), owner, owner)
    assert leftovers.is_ours(str(tmp_path / "m.onnx"))


# --- the data files of an ended run ---------------------------------------------------------------


def listing(*data: Path) -> Path:
    """Returns the hidden file of an ended run, which lists data files."""
    run = Path(leftovers.run_file(str(data[0].parent), "0123456789ac"))
    run.write_bytes(leftovers.note((path.name, Identity.of(path.stat())) for path in data))
    return run


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "w.bin"
    path.write_bytes(weight())
    return path


def test_data_that_no_model_mentions_goes_with_the_run_that_lists_it(data):
    other = data.with_name("v.data")
    other.write_bytes(b"kept")
    save(data.with_name("m.onnx"), "v.data")
    listing(data, other)
    sweep(str(data.parent))
    assert sorted(contents(data.parent)) == ["m.onnx", "v.data"]


@pytest.mark.parametrize(
    ("field", "goes"), [("device", True), ("inode", False), ("size", False), ("modified", False)]
)
def test_data_that_changed_stays(field, goes, data):
    seen = Identity.of(data.stat())
    changed = seen._replace(**{field: getattr(seen, field) + 1})
    listing(data).write_bytes(leftovers.note([(data.name, changed)]))
    sweep(str(data.parent))
    assert sorted(contents(data.parent)) == ([] if goes else ["w.bin"])


def test_a_model_that_cannot_be_read_may_use_all_data(data):
    data.with_name("m.onnx").symlink_to("m.onnx")
    listing(data)
    sweep(str(data.parent))
    assert sorted(os.listdir(data.parent)) == ["m.onnx", "w.bin"]


def test_no_model_is_read_for_data_that_is_gone(data, monkeypatch):
    monkeypatch.setattr(leftovers, "text_of", None)
    save(data.with_name("m.onnx"))
    listing(data)
    data.unlink()
    sweep(str(data.parent))
    assert sorted(contents(data.parent)) == ["m.onnx"]


def test_data_that_cannot_be_removed_is_left_to_a_later_run(data, monkeypatch):
    run = listing(data)
    seen = {(data.name, Identity.of(data.stat()))}
    retired = set(seen)
    with monkeypatch.context() as patch:
        patch.setattr(leftovers, "remove", lambda path: os.rmdir(path))
        sweep(str(data.parent), "0123456789ad", retired)
    assert retired == seen
    assert sorted(contents(data.parent)) == [run.name, "w.bin"]
    sweep(str(data.parent), "0123456789ad", retired)
    assert not retired
    assert not contents(data.parent)


def test_data_in_a_folder_that_a_live_run_uses_stays(data, monkeypatch):
    monkeypatch.setattr(leftovers, "BRIEF", 0.0)
    run = listing(data)
    retired = {(data.name, Identity.of(data.stat()))}
    with locks.folder_lock(str(data.parent), 1.0, shared=True):
        sweep(str(data.parent), "0123456789ad", retired)
    assert len(retired) == 1
    assert sorted(contents(data.parent)) == [run.name, "w.bin"]


def test_a_run_waits_for_the_folder_only_for_its_own_data(data, monkeypatch):
    waits: list[float] = []
    real = locks.folder_lock
    monkeypatch.setattr(
        locks, "folder_lock", lambda *words: (waits.append(words[1]), real(*words))[1]
    )
    sweep(str(data.parent))
    sweep(str(data.parent), "0123456789ad", {(data.name, Identity.of(data.stat()))})
    assert waits == [0.0, leftovers.BRIEF]


def test_a_run_that_lists_more_files_in_the_meantime_stays(data, monkeypatch):
    run, retire = listing(data), leftovers._retire

    def retired(*words):
        run.write_bytes(run.read_bytes() + leftovers.note([("v.data", Identity(1, 2, 3, 4))]))
        return retire(*words)

    monkeypatch.setattr(leftovers, "_retire", retired)
    sweep(str(data.parent))
    assert sorted(contents(data.parent)) == [run.name]


def test_a_file_that_took_the_name_of_a_lock_is_not_locked(data, monkeypatch):
    run, lock = listing(data), locks.lock

    def late(fd, *, shared=False):
        if os.fstat(fd).st_ino == run.stat().st_ino:
            run.rename(run.with_name("moved"))
            run.write_bytes(b"")
        return lock(fd, shared=shared)

    monkeypatch.setattr(locks, "lock", late)
    sweep(str(data.parent))
    assert sorted(contents(data.parent)) == sorted([run.name, "moved", "w.bin"])
    run.unlink()
    assert not leftovers.is_at(0, str(run))
    assert not leftovers.is_stale(str(run))


def test_a_file_that_is_written_to_is_not_stale(data):
    assert not leftovers.is_stale(str(data))
    os.utime(data, (1, 1))
    assert leftovers.is_stale(str(data))


# --- which names a model mentions -----------------------------------------------------------------


def test_a_model_mentions_the_names_that_are_in_its_bytes(monkeypatch):
    chance = random.Random(3)
    for _ in range(400):
        letters = chance.choice(["a", "ab"])  # names that overlap, and names of all kinds
        text = "".join(chance.choices(letters, k=chance.randrange(12)))
        names = {"".join(chance.choices(letters, k=chance.randint(1, 8))) for _ in range(6)}
        monkeypatch.setattr(leftovers, "text_of", lambda _, text=text: text.encode())
        assert mentioned("m.onnx", names) == {name for name in names if name in text}, text


def test_a_name_may_be_written_with_escapes(monkeypatch):
    monkeypatch.setattr(leftovers, "text_of", lambda _: b"1 \\xfc.bin 2 \xc3\xb6.bin")
    assert mentioned("m.onnx", ["ü.bin", "ö.bin", "ä.bin"]) == {"ü.bin", "ö.bin"}


@pytest.mark.parametrize("absent", ["", "O_NONBLOCK"])
def test_the_text_of_a_large_model_is_without_its_weights(absent, tmp_path, monkeypatch):
    if absent:
        monkeypatch.delattr(os, absent)
    monkeypatch.setattr(outline, "_SMALL", 0)
    model = save(tmp_path / "m.onnx")
    text = text_of(str(model))
    assert b"Softmax" in text
    assert weight() not in text
    model.write_bytes(b"\xff")
    assert text_of(str(model)) is None


def test_what_is_no_file_mentions_nothing_and_what_cannot_be_read_may_mention_all(tmp_path):
    assert text_of(str(tmp_path)) == b""
    assert text_of(str(tmp_path / "none")) == b""
    os.mkfifo(tmp_path / "pipe")  # a reader of a pipe would wait for a writer
    assert text_of(str(tmp_path / "pipe")) == b""
    (tmp_path / "circle").symlink_to("circle")
    assert text_of(str(tmp_path / "circle")) is None


def test_an_error_of_the_disk_is_not_a_file_that_nobody_can_read(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(OSError, match="Input/output error"):
        text_of(str(tmp_path / "m.onnx"))


# --- which folders are swept ----------------------------------------------------------------------


def left(folder: Path) -> Path:
    """A temporary file that an ended run left in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    Path(leftovers.run_file(str(folder), "0123456789ac")).touch()
    path = Path(leftovers.temporary(str(folder), "0123456789ac", 1))
    path.touch()
    return path


def test_a_process_sweeps_a_folder_once_until_it_has_reason_to(tmp_path, monkeypatch):
    sweep_once(str(tmp_path))
    path = left(tmp_path)
    sweep_once(str(tmp_path))
    assert path.exists()
    sweep_again(str(tmp_path))
    sweep_once(str(tmp_path))
    assert not path.exists()
    path = left(tmp_path)
    monkeypatch.chdir(tmp_path)
    sweep("")
    assert not path.exists()


def test_the_folders_below_are_swept_but_not_the_folders_of_links(tmp_path):
    folder = tmp_path / "results"
    paths = [left(place) for place in (folder, folder / "a" / "b", folder / "kept", tmp_path / "c")]
    (folder / "link").symlink_to(tmp_path / "c")
    leftovers.sweep_below(str(folder), leave_out="kept")
    assert [path.exists() for path in paths] == [False, False, True, True]
    assert sorted(sweep(str(tmp_path))) == ["c", "results"]


def test_a_run_removes_its_own_temporary_files_and_keeps_its_lock(tmp_path):
    path = left(tmp_path)
    sweep(str(tmp_path), "0123456789ac")
    assert sorted(contents(tmp_path)) == [".opshift-0123456789ac.run"]
    assert not path.exists()

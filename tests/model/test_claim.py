# SPDX-License-Identifier: Apache-2.0
"""Processes that die, and calls that fail, at any point: the old result or the new one, never both.

The calls of Python are counted, and each
test hits a part of them.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from opshift import convert_file
from opshift.model.bytes import locks
from opshift.model.bytes.claim import Claim
from opshift.model.bytes.leftovers import sweep
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
    """Lets a number of calls pass, then does something instead of the next."""

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
    """What is there before and after a run that nothing disturbs."""
    source, out, options = prepared(folder, case)
    before = state(out)
    convert_file(source, out, **options)
    return before, state(out)


def child(act: Callable[[], None]) -> int:
    """The exit code of a child that does something."""
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
    """The old model may be unreadable for a moment, and then its data files are not known."""
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


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root has two users")
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

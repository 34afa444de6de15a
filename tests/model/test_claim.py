# SPDX-License-Identifier: Apache-2.0
"""Several runs that write into one folder: each result is that of one run, complete.

`tests/support/orders.py` runs the orders; OPSHIFT_ORDERS=1000000 tries all of them.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from opshift import convert_file
from opshift.errors import BadDestination, LeftoverWarning
from opshift.model.bytes import claim as claims
from opshift.model.bytes import file_names, leftovers, locks
from opshift.model.bytes.claim import Claim
from opshift.model.bytes.source import Identity
from pairs import contents, load, save, weight

FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that stop need fork")
SAMPLE = int(os.environ.get("OPSHIFT_ORDERS", "1"))  # orders of each scenario
HOLD = """import sys
from opshift.model.bytes.claim import Claim
Claim.on(sys.argv[1], sys.argv[2])
print("claimed", flush=True)
sys.stdin.read()"""


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(claims, "WAIT", 3.0)


# --- the law --------------------------------------------------------------------------------------


@FORK
def test_each_result_is_that_of_one_run_in_every_order_of_their_steps(tmp_path):
    import orders

    for scenario in orders.SCENARIOS:
        for turns, fault in orders.faults(scenario, tmp_path / "f", random.Random(7), SAMPLE):
            assert not fault, (scenario.name, turns)


# --- who has a name -------------------------------------------------------------------------------


def holder(folder: Path, model: str) -> subprocess.Popen[str]:
    """Starts a process that claims a name until its input ends."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HOLD, folder, model]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)  # fmt: skip
    assert process.stdout.readline() == "claimed\n"
    return process


def test_a_run_waits_for_another_one(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "WAIT", 60.0)
    source, out = save(tmp_path / "m.onnx"), tmp_path / "out.onnx"
    with holder(tmp_path, "out.onnx") as process:
        waiting = threading.Thread(target=convert_file, args=(source, out, 13))
        waiting.start()
        waiting.join(0.3)
        assert not out.exists()
        process.stdin.close()
        waiting.join(60)
    assert load(out) == (13, weight())
    assert sorted(contents(tmp_path)) == ["m.onnx", "out.onnx"]


def test_a_run_that_waited_too_long_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "WAIT", 0.01)
    source, out = save(tmp_path / "m.onnx"), save(tmp_path / "out.onnx", seed=2)
    with holder(tmp_path, "out.onnx") as process:
        with pytest.raises(BadDestination, match="another run of opshift is writing this file"):
            convert_file(source, out, 13)
        assert load(out) == (12, weight(2))
        convert_file(source, tmp_path / "other.onnx", 13)
        process.stdin.close()


def test_a_thread_does_not_wait_for_itself(tmp_path):
    claim = Claim.on(str(tmp_path), "out.onnx")
    with pytest.raises(BadDestination, match="another run of opshift is writing this file"):
        Claim.on(str(tmp_path), "out.onnx")
    claim.release(sweeps=False)
    Claim.on(str(tmp_path), "out.onnx").release(sweeps=False)
    assert not contents(tmp_path)


def test_a_name_that_another_run_holds_costs_no_open_file(tmp_path):
    claim = Claim.on(str(tmp_path), "out.onnx")
    free = os.dup(claim.fd)
    os.close(free)
    with pytest.raises(BadDestination):
        Claim.on(str(tmp_path), "out.onnx")
    again = os.dup(claim.fd)
    os.close(again)
    assert again == free
    claim.release(sweeps=False)


def test_the_thread_that_holds_a_claim_is_told_at_once(tmp_path, monkeypatch):
    def once(_):
        yield
        pytest.fail("the thread waits for itself")

    claim = Claim.on(str(tmp_path), "out.onnx")
    monkeypatch.setattr(locks, "tries", once)
    with pytest.raises(BadDestination):
        Claim.on(str(tmp_path), "out.onnx")
    claim.release(sweeps=False)


def test_a_claim_that_ends_in_the_meantime_is_tried_again(tmp_path, monkeypatch):
    real, answers = claims._claimed, [None, None]
    monkeypatch.setattr(
        claims, "_claimed", lambda *words: answers.pop() if answers else real(*words)
    )
    Claim.on(str(tmp_path), "out.onnx").release(sweeps=False)
    assert not contents(tmp_path)


def test_a_lock_file_that_goes_between_two_looks_is_made_anew(tmp_path, monkeypatch):
    real, errors = os.open, [FileNotFoundError(), FileExistsError()]

    def opened(*words):
        if errors:
            raise errors.pop()
        return real(*words)

    monkeypatch.setattr(os, "open", opened)
    claim = Claim.on(str(tmp_path), "out.onnx")
    assert claim.is_new
    claim.release(sweeps=False)


def test_a_lock_whose_file_was_replaced_is_not_a_claim(tmp_path, monkeypatch):
    real = locks.lock

    def late(fd):
        monkeypatch.setattr(locks, "lock", real)
        (tmp_path / leftovers.run_file("", file_names.digest("out.onnx"))).unlink()
        return real(fd)

    monkeypatch.setattr(locks, "lock", late)
    claim = Claim.on(str(tmp_path), "out.onnx")
    assert leftovers.is_at(claim.fd, claim.path)
    claim.release(sweeps=False)


def test_without_locks_a_claim_ends_when_it_is_stale(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "WAIT", 0.0)
    monkeypatch.setattr(locks, "lock", lambda fd, *, shared=False: None)
    first = Claim.on(str(tmp_path), "out.onnx")
    with pytest.raises(BadDestination, match="another run of opshift is writing this file"):
        Claim.on(str(tmp_path), "out.onnx")
    monkeypatch.setattr(claims, "WAIT", 3.0)
    os.utime(first.path, (1, 1))
    claims._holders.clear()
    second = Claim.on(str(tmp_path), "out.onnx")
    assert second.is_new
    for claim in (second, first):
        claim.release(sweeps=False)
    assert not contents(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes of files")
def test_the_file_of_a_claim_cannot_be_executed(tmp_path):
    claim = Claim.on(str(tmp_path), "out.onnx")
    assert not os.stat(claim.path).st_mode & 0o111
    claim.release(sweeps=False)


def test_one_file_has_one_claim_whatever_its_spelling():
    same = {file_names.digest(name) for name in ("Ümlaut.onnx", "Ümlaut.onnx", "ÜMLAUT.ONNX")}
    assert len(same) == 1
    assert file_names.digest("m.onnx") != file_names.digest("n.onnx")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root has two users")
def test_what_another_user_left_is_no_obstacle_and_is_not_believed(tmp_path):
    source = save(tmp_path / "m.onnx")
    data = tmp_path / "w.bin"
    data.write_bytes(b"of somebody")
    status = data.stat()
    seen = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]
    left = Path(leftovers.run_file(str(tmp_path), file_names.digest("out.onnx")))
    left.write_text(f'{{"data": {{"w.bin": {seen}}}}}')
    os.chown(left, 65534, 65534)
    convert_file(source, tmp_path / "out.onnx", 13)
    assert sorted(contents(tmp_path)) == ["m.onnx", "out.onnx", "w.bin"]


# --- after the model has its name -----------------------------------------------------------------


@pytest.mark.parametrize("call", ["close", "unlink"])
def test_a_claim_that_cannot_be_given_back_is_a_warning(call, tmp_path, monkeypatch):
    source, out = save(tmp_path / "m.onnx"), tmp_path / "out.onnx"

    def fail(what: object) -> None:
        getattr(os, call)(what)
        if out.exists():
            raise OSError(5, "Input/output error")

    for module in (claims, leftovers):
        monkeypatch.setattr(module, "os", SimpleNamespace(**{**vars(os), call: fail}))
    with pytest.warns(LeftoverWarning, match="Input/output error; remove this temporary file"):
        convert_file(source, out, 13)
    assert load(out) == (13, weight())


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot remove an open file")
def test_the_file_of_a_claim_goes_before_another_run_can_lock_it(tmp_path, monkeypatch):
    steps: list[str] = []
    claim = Claim.on(str(tmp_path), "out.onnx")
    for module, name in ((os, "close"), (leftovers, "remove")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda what, real=real, name=name: (steps.append(name), real(what))
        )
    claim.release(sweeps=False)
    assert steps == ["remove", "close"]


# --- what a claim leaves to a later run -----------------------------------------------------------


def killed(folder: Path, *data: Path) -> Path:
    """Leaves the lock file and a temporary file of a killed run that wrote `out.onnx`."""
    token = file_names.digest("out.onnx")
    Path(leftovers.temporary(str(folder), token, 1)).touch()
    run = Path(leftovers.run_file(str(folder), token))
    run.write_bytes(leftovers.note((path.name, Identity.of(path.stat())) for path in data))
    return run


def test_the_next_run_of_a_name_removes_what_a_killed_run_left(tmp_path):
    data = tmp_path / "w.bin"
    data.write_bytes(weight())
    killed(tmp_path, data)
    claim = Claim.on(str(tmp_path), "out.onnx")
    assert not data.exists()
    claim.release(sweeps=True)
    assert not contents(tmp_path)


def test_data_that_cannot_be_removed_yet_keeps_the_claim(tmp_path, monkeypatch):
    data = tmp_path / "w.bin"
    data.write_bytes(weight())
    claim = Claim.on(str(tmp_path), "out.onnx")
    claim.retired = {("w.bin", Identity.of(data.stat()))}
    claim.note(claim.retired)
    with monkeypatch.context() as patch:
        patch.setattr(leftovers, "remove", lambda path: os.rmdir(path))
        claim.release(sweeps=True)
    assert sorted(contents(tmp_path)) == sorted([os.path.basename(claim.path), "w.bin"])
    Claim.on(str(tmp_path), "out.onnx").release(sweeps=True)
    assert not contents(tmp_path)


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("retires", [True, False])
def test_without_a_sweep_only_a_new_claim_without_old_data_ends(is_new, retires, tmp_path):
    if not is_new:
        killed(tmp_path)
    claim = Claim.on(str(tmp_path), "out.onnx")
    assert claim.is_new == is_new
    claim.retired = {("w.bin", Identity(1, 2, 3, 4))} if retires else set()
    claim.release(sweeps=False)
    assert os.path.exists(claim.path) != (is_new and not retires)


def test_a_temporary_file_that_cannot_be_removed_is_left_to_the_next_sweep(tmp_path, monkeypatch):
    leftovers.sweep_once(str(tmp_path))
    claim = Claim.on(str(tmp_path), "out.onnx")
    Path(claim.name()).touch()
    with monkeypatch.context() as patch:
        patch.setattr(leftovers, "remove", lambda path: os.rmdir(path))
        claim.release(sweeps=False)
    assert len(contents(tmp_path)) == 2
    leftovers.sweep_once(str(tmp_path))
    assert not contents(tmp_path)


def test_a_claim_lists_all_data_that_it_notes(tmp_path):
    claim = Claim.on(str(tmp_path), "out.onnx")
    data = [(f"{i}.bin", Identity(i, 2, 3, 4)) for i in range(3)]
    claim.note(data[:1])
    claim.note(data[1:])
    assert leftovers.noted(claim.fd) == set(data)
    claim.release(sweeps=False)


def test_temporary_names_are_new(tmp_path):
    claim = Claim.on(str(tmp_path), "out.onnx")
    taken = Path(leftovers.temporary(str(tmp_path), claim.token, 2))
    taken.touch()
    names = [claim.name(), claim.name()]
    assert [name.rpartition("-")[2] for name in names] == ["1.tmp", "3.tmp"]
    for name in names:
        Path(name).touch()
    claim.release(sweeps=False)
    assert list(contents(tmp_path)) == [taken.name]


def test_a_model_that_did_not_change_is_tidied(tmp_path):
    """Each run removes files of killed runs of its name; those of other names only once."""
    out = str(tmp_path / "out.onnx")
    claims.tidy(out)
    killed(tmp_path)
    claims.tidy(str(tmp_path / "other.onnx"))
    assert len(contents(tmp_path)) == 2
    claims.tidy(out)
    assert not contents(tmp_path)
    leftovers.sweep_again(str(tmp_path))
    killed(tmp_path)
    claims.tidy(str(tmp_path / "other.onnx"))
    assert not contents(tmp_path)


def test_the_command_shows_the_warning_in_one_line(tmp_path):
    save(tmp_path / "m.onnx")
    code = (
        "import os, types\n"
        "from opshift.cli.entry import run\n"
        "from opshift.model.bytes import leftovers\n"
        "def fail(path):\n"
        "    os.unlink(path)\n"
        "    raise OSError(5, 'Input/output error')\n"
        "leftovers.os = types.SimpleNamespace(**{**vars(os), 'unlink': fail})\n"
        "run()"
    )
    words = [sys.executable, "-c", code, "convert", "m.onnx", "-o", "o.onnx", "--to", "13", "-q"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("warning: .opshift-")
    assert load(tmp_path / "o.onnx") == (13, weight())


def test_data_that_a_live_run_may_use_is_left_to_a_later_run(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "BRIEF", 0.01)
    source = save(tmp_path / "m.onnx", "w.bin")
    out = save(tmp_path / "out.onnx", "out.onnx.data", seed=2)
    with leftovers.locks.folder_lock(str(tmp_path), 1.0, shared=True):
        convert_file(source, out, 13, external="one-file")
        assert "out.onnx.data" in contents(tmp_path)
    convert_file(source, tmp_path / "other.onnx", 13)
    assert sorted(contents(tmp_path)) == ["m.onnx", "other.onnx", "out.onnx", "out.onnx.1.data", "w.bin"]  # fmt: skip
    assert load(out) == (13, weight())


# --- a folder is listed once ----------------------------------------------------------------------


@pytest.fixture
def listed(monkeypatch):
    """Records the listed folders, in order."""
    found: list[str] = []

    def counted(name: str):
        real = getattr(os, name)

        def count(path: object = ".", *words: object) -> object:
            found.append(os.path.realpath(path))
            return real(path, *words)

        return count

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, counted(name))
    return found


@pytest.mark.parametrize("external", ["inline", "one-file", "copy"])
def test_a_process_lists_the_folder_of_its_results_once(external, listed, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    for number in range(4):
        source = save(tmp_path / f"from{number}" / "m.onnx", f"w{number}.bin", seed=number)
        for name in ("a.onnx", "b.onnx"):
            convert_file(source, folder / name, 13 + number, external=external)
            convert_file(source, folder / name, 13 + number, external=external)
    if external == "one-file":  # old data was removed
        assert listed.count(str(folder)) == 1 + 2 * 3
        assert len(contents(folder)) == 4
    else:
        assert listed.count(str(folder)) == 1

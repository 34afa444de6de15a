# SPDX-License-Identifier: Apache-2.0
"""The supervisor: a crash affects only its own model, and no process outlives the driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from opshift.child_limits import STOPS, fair_share
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.workers import learned_limit
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.supervisor import Supervisor
from opshift.zoo.workers.worker import MOST, SMALL, SOON, Job, Worker
from zoos import DEEDS, Order, obey

HERE = str(Path(__file__).parent)


def run(*orders: Order, workers: int = 2, **limit: float) -> dict[str, Outcome]:
    supervisor = Supervisor(workers, ModelLimits(**{"seconds": 60, "megabytes": 1024, **limit}))
    return {outcome.name: outcome for outcome in supervisor.run(obey, orders)}


@pytest.mark.parametrize(
    ("deed", "fate", "said"),
    [
        ("segfault", Fate.CRASHED, "SIGSEGV: about to fall"),
        ("leave", Fate.CRASHED, "exit code 7"),
        ("object_to_it", Fate.CRASHED, "RuntimeError: a slip"),
        ("ask_for_too_much", Fate.OOM, "an allocation above the memory limit failed"),
        ("grow_where_the_kernel_does_not_count", Fate.OOM, "more than 1024 MiB"),
    ],
)
def test_a_death_is_named_and_the_others_are_done(deed, fate, said):
    others = [Order(f"good{i}") for i in range(10)]
    ended = run(*others[:5], Order("bad", deed), *others[5:])
    assert (ended["bad"].fate, ended["bad"].detail) == (fate, said)
    assert all(ended[other.name].fate is Fate.OK for other in others)
    assert len(ended) == 11


def test_the_kernel_stops_native_code_that_holds_the_interpreter():
    ended = run(Order("bad", "hang_with_the_interpreter"), Order("good"), seconds=1)
    assert (ended["bad"].fate, ended["bad"].why) == (Fate.TIMEOUT, "not finished in 1 s")
    assert ended["good"].fate is Fate.OK


def test_the_driver_stops_what_took_its_alarm_away(monkeypatch):
    monkeypatch.setattr("opshift.zoo.workers.worker.GRACE", 0.1)
    assert run(Order("bad", "hang_without_alarm"), seconds=0.5)["bad"].fate is Fate.TIMEOUT


def test_an_item_that_is_slow_is_put_aside_and_tried_once_more(tmp_path, monkeypatch):
    """Only children that hang show that other models do not wait for them."""
    monkeypatch.setattr(learned_limit, "FIRST", 1.0)
    monkeypatch.setattr(learned_limit, "LONGEST", 2.0)
    slow = [Order(f"slow{i}", "hang_once", str(tmp_path / f"{i}")) for i in range(2)]
    orders = [
        *slow,
        Order("bad", "hang_with_the_interpreter"),
        *(Order(f"good{i}") for i in range(9)),
    ]
    ended = run(*orders, seconds=None)
    assert [outcome.fate for outcome in ended.values()].count(Fate.OK) == 11
    assert list(ended)[:9] == [f"good{i}" for i in range(9)]
    assert (ended["bad"].fate, ended["bad"].why) == (Fate.TIMEOUT, "not finished in 2 s")


def test_a_limit_of_the_caller_is_the_only_one(tmp_path):
    ended = run(Order("slow", "hang_once", str(tmp_path / "0")), Order("good"), seconds=1)
    assert (ended["slow"].fate, ended["slow"].why) == (Fate.TIMEOUT, "not finished in 1 s")
    assert ended["good"].fate is Fate.OK


def test_a_crash_is_tried_again(tmp_path):
    order = Order("once", "fall_once", str(tmp_path / "fell"))
    assert run(order)["once"].fate is Fate.OK
    (tmp_path / "fell").unlink()
    ended = run(order, retries=0)["once"]
    assert (ended.fate, ended.why) == (Fate.CRASHED, "SIGKILL")


def test_workers_are_replaced_after_a_while():
    ended = run(*(Order(f"{i}") for i in range(6)), workers=1, recycle=2)
    assert len({outcome.detail for outcome in ended.values()}) == 3


@pytest.mark.parametrize("deed", ["segfault", "ask_for_too_much", "hang_with_the_interpreter"])
def test_what_waits_for_its_turn_is_not_harmed_and_not_counted_as_tried(deed, monkeypatch):
    waited = []
    close = Worker.close
    monkeypatch.setattr(Worker, "close", lambda self: (waited.append(len(self.jobs)), close(self)))
    others = [Order(f"good{i}") for i in range(8)]
    ended = run(*others[:4], Order("bad", deed), *others[4:], workers=1, retries=0, seconds=2)
    assert ended["bad"].fate is not Fate.OK
    assert all(ended[other.name].fate is Fate.OK for other in others)
    assert waited[0] > 0


def test_nothing_waits_behind_what_is_large_or_slow_or_in_a_worn_worker():
    worker = Worker(obey, ModelLimits(60, 1024, recycle=3))
    small, large = Job(Order("small")), Job(Order("large", size=SMALL))
    try:
        worker.give(small)
        assert not worker.takes(small)  # nobody knows its pace
        assert worker.hear()[1].fate is Fate.OK
        worker.give(Job(Order("small", size=1)))
        assert worker.takes(small)
        assert not worker.takes(large)
        worker.pace = SOON
        assert not worker.takes(small)
        worker.pace = 0.0
        worker.give(small)
        assert not worker.takes(small)
    finally:
        worker.close()


def test_a_worker_that_dies_idle_costs_nothing():
    supervisor = Supervisor(1, ModelLimits(60, 1024))

    def orders():
        yield Order("0")
        worker = supervisor.crew[0]
        assert worker.pipe.poll(60)  # it has answered, and nothing else waits there
        worker.process.kill()
        worker.process.join()
        yield from (Order(f"{i}") for i in range(1, 4))

    assert [outcome.fate for outcome in supervisor.run(obey, orders())] == [Fate.OK] * 4


def test_a_server_that_dies_costs_nothing():
    orders = [Order(f"{i}", "kill_the_server" if i == 1 else "work") for i in range(4)]
    ended = run(*orders, workers=1, recycle=1)
    assert {outcome.fate for outcome in ended.values()} == {Fate.OK}
    assert len(ended) == 4


def test_a_worker_that_cannot_be_started_is_tried_again_and_then_named(monkeypatch):
    def worker(*arguments):
        if failures.pop():
            raise OSError("no process is left")
        return Worker(*arguments)

    monkeypatch.setattr("opshift.zoo.workers.supervisor.Worker", worker)
    failures = [False, True]
    assert run(Order("good"), workers=1)["good"].fate is Fate.OK
    failures = [True, True]
    ended = run(Order("bad"), workers=1)["bad"]
    assert (ended.fate, ended.detail) == (
        Fate.LOST,
        "no worker could be started: no process is left",
    )


def test_children_start_from_nothing_where_there_is_no_fork(monkeypatch):
    monkeypatch.setattr("opshift.zoo.workers.worker.sys.platform", "win32")
    ended = run(Order("a"), Order("bad", "segfault"), workers=1)
    assert [ended[name].fate for name in ("a", "bad")] == [Fate.OK, Fate.CRASHED]


def test_stopping_hands_out_nothing_more():
    supervisor = Supervisor(1, ModelLimits(60, 1024))
    ended = []
    for outcome in supervisor.run(obey, [Order(f"{i}") for i in range(50)]):
        ended.append(outcome)
        supervisor.stop()
    assert 1 < len(ended) <= 1 + MOST  # the one that was told, and those that the worker had
    assert not supervisor.crew


def test_after_the_deadline_running_items_are_given_up(tmp_path):
    supervisor = Supervisor(2, ModelLimits(60, 1024))
    flag = tmp_path / "begun"
    outcomes = supervisor.run(obey, [Order("slow", "sleep", str(flag)), Order("good")])
    assert next(outcomes).name == "good"
    assert eventually(lambda: flag.exists() and flag.read_text())
    supervisor.stop()
    supervisor.stop(0.0)
    assert list(outcomes) == []
    assert eventually(lambda: not alive(int(flag.read_text())))


def test_what_dies_while_stopping_had_no_turn(tmp_path):
    supervisor = Supervisor(2, ModelLimits(60, 1024))
    flag = tmp_path / "begun"
    outcomes = supervisor.run(obey, [Order("slow", "sleep", str(flag)), Order("good")])
    assert next(outcomes).name == "good"
    supervisor.stop()
    assert eventually(lambda: flag.exists() and flag.read_text())
    for ignored in STOPS:
        os.kill(int(flag.read_text()), ignored)
    os.kill(int(flag.read_text()), signal.SIGKILL)
    assert list(outcomes) == []


def test_abandoning_the_run_ends_the_workers():
    supervisor = Supervisor(2, ModelLimits(60, 1024))
    outcomes = supervisor.run(obey, [Order(f"{i}") for i in range(50)])
    next(outcomes)
    pids = [worker.process.pid for worker in supervisor.crew]
    outcomes.close()
    assert pids
    assert not any(alive(pid) for pid in pids)


def test_no_worker_outlives_a_killed_driver(tmp_path):
    code = (
        "from opshift.zoo.workers.supervisor import Supervisor\n"
        "from zoos import Order, obey\n"
        f"orders = [Order(str(i), 'sleep', {str(tmp_path)!r} + f'/{{i}}') for i in range(2)]\n"
        "list(Supervisor(2).run(obey, orders))\n"
    )
    path = os.pathsep.join([HERE, *sys.path])
    driver = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    files = [tmp_path / "0", tmp_path / "1"]
    assert eventually(lambda: all(file.exists() and file.read_text() for file in files))
    driver.kill()
    driver.wait()
    pids = [int(file.read_text()) for file in files]
    assert eventually(lambda: not any(alive(pid) for pid in pids))


def test_every_deed_is_tried():
    tried = Path(__file__).read_text()
    assert all(f'"{deed}"' in tried or f"'{deed}'" in tried for deed in DEEDS if deed != "work")


def test_a_fair_share_leaves_something():
    assert fair_share(1) >= fair_share(1000) == 1024


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(true) -> bool:
    for _ in range(600):
        if true():
            return True
        time.sleep(0.05)
    return False


def test_an_item_that_finds_its_child_dead_does_not_change_the_cause_of_death():
    worker = Worker(obey, ModelLimits(60, 1024))
    try:
        worker.give(Job(Order("first")))
        worker.hear()
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.join()
        worker.give(Job(Order("bad", deed="segfault")))
        ended = worker.autopsy(Job(Order("first")))
        assert (ended.fate, ended.why) == (Fate.CRASHED, "SIGKILL")
    finally:
        worker.close()


def test_a_child_process_that_is_stopped_at_its_start_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(5):
        Worker(obey, ModelLimits(60, 1024)).close()
    assert not list(tmp_path.glob("opshift-*"))

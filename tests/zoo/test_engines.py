# SPDX-License-Identifier: Apache-2.0
"""Engines that distribute a zoo: lost shards are halved and retried, and lost models are named."""

from __future__ import annotations

import functools
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from opshift.errors import ClusterLost
from opshift.zoo import Fate, ModelLimits, migrate
from opshift.zoo.outcome import Outcome
from opshift.zoo.stores import bulk, stores
from opshift.zoo.stores.stores import Listed
from opshift.zoo.workers import pool, shards
from opshift.zoo.workers.shards import Spread
from zoos import Order, await_result, obey, zoo

LIMITS = ModelLimits(60, 1024)


class Here:
    """A carrier that runs work at once, and loses the shards that a test chooses."""

    def __init__(self, loses=lambda shard: False, at_most=2):
        self.loses, self.results, self.carried = loses, {}, []
        self.at_most = at_most

    def slots(self):
        return self.at_most

    def submit(self, call, work):
        fn, _, shard = shards.unpacked(work)
        handle = len(self.carried)
        self.carried.append(len(shard))
        self.results[handle] = None if self.loses(shard) else [fn(item) for item in shard]
        return handle

    def ended(self, handles, seconds):
        assert len(handles) <= 2 * self.at_most
        return handles[:1]

    def result(self, handle):
        if self.results[handle] is None:
            raise ConnectionError("a node went away")
        return self.results.pop(handle)

    def cancel(self, handle):
        self.results.pop(handle)


def test_a_lost_shard_is_halved_until_the_loss_has_a_name(monkeypatch):
    monkeypatch.setattr(shards, "MODELS", 8)
    carrier = Here(loses=lambda shard: any(item.name == "5" for item in shard))
    ended = list(Spread(carrier).run(obey, (Order(f"{i}") for i in range(20))))
    fates = {outcome.name: outcome.fate for outcome in ended}
    assert len(ended) == len(fates) == 20
    assert [name for name, fate in fates.items() if fate is not Fate.OK] == ["5"]
    assert "a node went away" in next(o.detail for o in ended if o.name == "5")
    assert sorted(carrier.carried) == [1, 1, 2, 2, 4, 4, 4, 8, 8]


@pytest.mark.parametrize("silent", ["slots", "submit", "ended"])
def test_a_cluster_that_does_not_answer_ends_the_run(silent, monkeypatch):
    """Otherwise, shards would be halved down to single models, each of them reported as lost."""

    def raises(*_):
        raise RuntimeError("no such cluster")

    carrier = Here()
    monkeypatch.setattr(carrier, silent, raises)
    with pytest.raises(ClusterLost, match="RuntimeError: no such cluster"):
        list(Spread(carrier).run(obey, [Order("a")]))


def test_a_carrier_tells_a_lost_cluster_from_a_lost_shard():
    def dies(shard):
        raise ClusterLost("the node ended")

    carrier = Here()
    carrier.result = dies
    with pytest.raises(ClusterLost, match="the node ended"):
        list(Spread(carrier).run(obey, [Order("a"), Order("b")]))
    assert carrier.carried == [2]


def test_stopping_and_leaving_take_the_rest_back(monkeypatch):
    monkeypatch.setattr(shards, "MODELS", 1)
    carrier = Here()
    spread = Spread(carrier)
    outcomes = spread.run(obey, (Order(f"{i}") for i in range(50)))
    next(outcomes)
    spread.stop()
    assert len(list(outcomes)) == 3
    assert len(carrier.carried) == 4
    outcomes = Spread(carrier).run(obey, (Order(f"{i}") for i in range(50)))
    next(outcomes)
    outcomes.close()
    assert not carrier.results


def test_a_shard_is_so_many_models_or_fewer_that_are_large(monkeypatch):
    monkeypatch.setattr(shards, "MODELS", 3)
    monkeypatch.setattr(shards, "BYTES", 100)

    def cut(*sizes):
        parts = shards.cut(Order(f"{i}", size=size) for i, size in enumerate(sizes))
        return [[order.size for order in part] for part in parts]

    assert cut(1, 1, 1, 1) == [[1, 1, 1], [1]]
    assert cut(50, 50, 1, 900, 1) == [[50, 50], [1], [900], [1]]
    assert cut() == []


def test_a_model_weighs_what_lies_beside_it(tmp_path):
    for name, size in {"a/m.onnx": 10, "a/m.data": 990, "b/m.onnx": 4, "b/n.onnx": 6}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    models = [str(tmp_path / name) for name in ("a/m.onnx", "b/m.onnx", "b/n.onnx")]
    assert bulk.sizes(models, Listed()) == [1000, 5, 5]
    assert bulk.sizes(["s3://unlisted/m.onnx"], Listed()) == [0]


def test_a_model_in_a_store_weighs_what_is_listed_beside_it(tmp_path):
    pytest.importorskip("fsspec", reason="opshift[remote] is not installed")
    place = f"memory://{os.urandom(4).hex()}/zoo"
    for name, size in {"m.onnx": 10, "a/m.onnx": 10, "a/m.data": 990}.items():
        store, key = stores.at(f"{place}/{name}")
        store.write(key, bytes(size), create=True)
    models = [f"{place}/{name}" for name in ("m.onnx", "a/m.onnx")]
    listed = Listed()
    listed.below(place)
    assert bulk.sizes(models, listed) == [10, 1000]


def test_a_shard_is_supervised_where_it_is():
    orders = (Order("a"), Order("bad", "segfault"), Order("b"))
    ended = {outcome.name: outcome for outcome in pool.elsewhere(packed(obey, orders))}
    assert [ended[name].fate.value for name in ("a", "bad", "b")] == ["ok", "crashed", "ok"]
    assert ended["bad"].why == "SIGSEGV"


def test_a_shard_runs_in_the_working_folder_of_its_command(tmp_path, monkeypatch):
    """Relative paths have one meaning in all workers, although Ray starts them in other folders."""
    pool.elsewhere(packed(obey, (Order("first"),)))  # the supervisor runs before the folder changes
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        (outcome,) = pool.elsewhere(packed(functools.partial(where_it_works, name), (Order("x"),)))
        assert outcome.detail == str(tmp_path / name)


def test_one_process_works_on_shards_until_it_dies_which_loses_one():
    def supervisor():
        (outcome,) = pool.elsewhere(packed(who_supervises, (Order("a"),)))
        return outcome.detail

    first = supervisor()
    assert supervisor() == first
    with pytest.raises(RuntimeError, match="ended with exit code -9"):
        pool.elsewhere(packed(kill_the_supervisor, (Order("a"),)))
    assert supervisor() != first


def test_a_child_stays_for_the_next_shard_of_the_same_work():
    """A new child would have to learn again how nodes are converted, which is slow."""

    def child(fn):
        (outcome,) = pool.elsewhere(packed(fn, (Order("a"),)))
        return outcome.detail

    first, other = functools.partial(who_works, "first"), functools.partial(who_works, "other")
    before = child(first)
    assert child(first) == before
    assert child(other) != before


def test_a_process_with_a_child_ends_when_nobody_reads_its_outcomes():
    """The error keeps the connection to the child, which ignores the signals of Python's exit."""
    worked = pool.Pool()
    pickle.dump(packed(obey, (Order("a"),)), worked.process.stdin)
    worked.process.stdout.close()
    worked.process.stdin.close()
    assert worked.process.wait(timeout=60) == 1


def test_a_process_ends_with_the_process_that_started_it():
    worked = pool.Pool()
    worked.run(packed(obey, (Order("a"),)))
    worked.life.close()
    assert worked.process.wait(timeout=60) == -signal.SIGIO


def test_a_process_that_nobody_needs_ends():
    code = "from opshift.zoo.workers import shard; shard.IDLE = 0.1; shard.main()"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    idle = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=path)
    assert idle.wait(60) == 0


def packed(fn, orders):
    return shards.packed(fn, LIMITS, orders)


def parent(pid):
    return int(Path(f"/proc/{pid}/status").read_text().split("PPid:")[1].split()[0])


def who_supervises(order: Order):
    return Outcome(order.name, Fate.OK, detail=str(parent(os.getppid())))


def who_works(work: str, order: Order):
    return Outcome(order.name, Fate.OK, detail=str(os.getpid()))


def where_it_works(work: str, order: Order):
    return Outcome(order.name, Fate.OK, detail=os.getcwd())


def kill_the_supervisor(order: Order):
    os.kill(parent(os.getppid()), signal.SIGKILL)
    signal.pause()


def test_an_engine_that_is_missing_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = ["batch", str(zoo(tmp_path, 1)), "--to", "13", "--dry-run"]
    bad = CliRunner().invoke(main, [*words, "--engine", "dask"])
    assert (bad.exit_code, "pip install 'opshift[dask]'" in bad.stderr) == (cli.BAD_INPUT, True)
    bad = CliRunner().invoke(main, [*words, "--cluster", "tcp://here:1"])
    assert (bad.exit_code, "only with --engine" in bad.stderr) == (cli.BAD_INPUT, True)


def test_a_cluster_that_cannot_be_used_is_no_bug_of_opshift(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="opshift[dask] is not installed")
    from opshift.zoo.workers import dask

    def connect(address):
        raise TimeoutError("nobody listens there")

    monkeypatch.setattr(dask, "connect", connect)
    words = ["batch", str(zoo(tmp_path, 1)), "--to", "13", "--dry-run", "--engine", "dask"]
    bad = CliRunner().invoke(main, [*words, "--cluster", "tcp://here:1"])
    assert bad.exit_code == cli.BAD_INPUT
    assert "the dask cluster at tcp://here:1 cannot be used: nobody listens there" in bad.stderr
    assert "run the same command again" in bad.stderr


@pytest.mark.parametrize(("deaths", "starts"), [(2, True), (3, False)])
def test_a_cluster_whose_worker_dies_at_once_is_started_again(deaths, starts, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="opshift[dask] is not installed")
    from opshift.zoo.workers import dask

    def client(**words):
        if left:
            raise left.pop()
        return "a client"

    left = [RuntimeError("Nanny failed to start.")] * deaths
    monkeypatch.setattr(distributed, "Client", client)
    if starts:
        assert dask.connect(None).client == "a client"
    else:
        with pytest.raises(RuntimeError, match="Nanny"):
            dask.connect(None)
    assert not left


def clusters():
    for extra, name in (("distributed", "dask"), ("ray", "ray")):
        missing = importlib.util.find_spec(extra) is None
        reason = f"{extra} is not installed: pip install opshift[{name}]"
        yield pytest.param(name, marks=pytest.mark.skipif(missing, reason=reason), id=name)


@pytest.fixture
def carrier(request, monkeypatch):
    """A real cluster on this machine with two workers."""
    if request.param == "dask":
        from distributed import Client
        from opshift.zoo.workers.dask import Dask

        made = Dask(Client(n_workers=2, threads_per_worker=1, dashboard_address=None))
    else:
        import ray
        from opshift.zoo.workers.ray import Ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        made = Ray()
    yield made
    made.close()


@pytest.mark.parametrize("carrier", list(clusters()), indirect=True)
def test_a_real_cluster_does_a_zoo_that_kills(carrier, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "MODELS", 20)
    spread = Spread(carrier, LIMITS)
    orders = [Order(f"{i}", "segfault" if i == 13 else "work") for i in range(30)]
    ended = Counter(outcome.fate for outcome in spread.run(obey, orders))
    assert ended == {Fate.OK: 29, Fate.CRASHED: 1}
    source = zoo(tmp_path / "src", 30)
    assert migrate(source, tmp_path / "dst", 13, engine=spread).fates == {Fate.OK: 30}
    assert len(list((tmp_path / "dst").glob("*/*.onnx"))) == 30


@pytest.mark.parametrize("carrier", list(clusters()), indirect=True)
def test_a_killed_worker_of_a_cluster_loses_no_model(carrier, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "MODELS", 4)
    fn = functools.partial(kill_the_engines_worker_once, str(tmp_path / "killed"))
    ended = list(Spread(carrier, LIMITS).run(fn, [Order(f"{i}") for i in range(12)]))
    assert (tmp_path / "killed").exists()
    assert sorted(int(outcome.name) for outcome in ended) == list(range(12))
    assert {outcome.fate for outcome in ended} == {Fate.OK}


def test_a_node_of_ray_that_ends_ends_the_run(tmp_path):
    pytest.importorskip("ray", reason="opshift[ray] is not installed")
    source, dst = zoo(tmp_path / "src", 300), tmp_path / "dst"
    words = ["-m", "opshift", "batch", source, dst, "--to", "13", "--engine=ray", "--memory=2000"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True, env=env)
    await_result(driver, dst)
    for task in Path(f"/proc/{driver.pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            if Path(f"/proc/{child}/comm").read_text().strip() == "raylet":
                os.kill(child, signal.SIGKILL)
    assert "the node of Ray on this machine ended" in driver.communicate(timeout=120)[1]
    assert driver.returncode == cli.BAD_INPUT


@pytest.mark.parametrize("kind", list(clusters()))
def test_interrupting_a_cluster_of_its_own_finishes_cleanly(kind, tmp_path):
    source, dst = zoo(tmp_path / "src", 300), tmp_path / "dst"
    words = ["-m", "opshift", "batch", source, dst, "--to", "13", "--engine", kind, "--memory=2000"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen(
        [sys.executable, *words], stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
    )
    await_result(driver, dst)
    os.killpg(driver.pid, signal.SIGINT)
    assert "run the same command" in driver.communicate(timeout=120)[1]
    assert driver.returncode == cli.INTERRUPTED


def kill_the_engines_worker_once(flag: str, order: Order):
    """Kills the process that carries the shard, which is the parent of the supervisor."""
    if order.name == "5" and not os.path.exists(flag):
        Path(flag).touch()
        pid = os.getpid()
        for _ in range(3):
            pid = parent(pid)
        os.kill(pid, signal.SIGKILL)
        signal.pause()
    return obey(order)

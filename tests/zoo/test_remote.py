# SPDX-License-Identifier: Apache-2.0
"""Zoos in a store: real runs of the command against a real S3-compatible server."""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from opshift import convert_version
from s3 import BUCKET, Server, batch, start
from test_kills import descendants
from zoos import ERF, model, zoo


@pytest.fixture(scope="module")
def running():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def server(running):
    running.fails_every, running.failure, running.ignores_create = 0, "403 Forbidden", False
    return running


@pytest.fixture
def prefix():
    return os.urandom(4).hex()


def wanted(name: str) -> bytes:
    """Returns the expected result of the model of this name."""
    result = convert_version(model(name="g0000"), 13).SerializeToString(deterministic=True)
    number = re.search(r"m(\d+)\.onnx$", name)[1]
    return result.replace(b"g0000", f"g{number}".encode())


def results(server: Server, prefix: str) -> set[str]:
    """Returns the models below a prefix, and requires that each one is complete."""
    names = {name for name in server.keys(prefix) if name.endswith(".onnx")}
    for name in names:
        assert server.get(f"{prefix}/{name}") == wanted(name)
    return names


def with_data(folder, location="weights/m.data"):
    """A model whose weights are in another file."""
    proto = model("(float[2000] x, float[2000] w) => (float[2000] y) { y = Add(x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2000, np.float32), "w"))
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(proto, folder / "m.onnx", save_as_external_data=True, location=location)


@pytest.mark.parametrize("ends", ["s3 to s3", "s3 to files", "files to s3"])
def test_a_zoo_is_converted_and_a_second_run_does_nothing(ends, server, prefix, tmp_path):
    """Each pair of file system and store takes another path through the code."""
    folder = zoo(tmp_path / "src", 12)
    onnx.save(model(ERF, 13, "e"), folder / "erf.onnx")
    (folder / "junk.onnx").write_bytes(b"no model")
    source = folder if ends.startswith("files") else server.upload(folder, f"{prefix}/src")
    to_files = ends.endswith("files")
    dst = tmp_path / "dst" if to_files else f"s3://{BUCKET}/{prefix}/dst"

    def run():
        return batch(server, tmp_path / "home", source, dst, "--to", "13")

    first = run()
    assert first["fates"] == {"ok": 13, "invalid": 1}
    assert first["notes"] == []
    assert f"{source}/junk.onnx: not a readable" in first["reasons"][0]["detail"]
    if to_files:
        assert len(list(dst.glob("*/m*.onnx"))) == 12
        assert all(path.read_bytes() == wanted(path.name) for path in dst.glob("*/m*.onnx"))
    else:
        assert server.get(f"{prefix}/dst/erf.onnx")
        server.client.delete_object(Bucket=BUCKET, Key=f"{prefix}/dst/erf.onnx")
        assert len(results(server, f"{prefix}/dst")) == 12
        assert run()["fates"] == {"skipped": 12, "ok": 1, "invalid": 1}
    before = server.puts(prefix)
    assert run()["fates"] == {"skipped": 13, "invalid": 1}
    shutil.rmtree(tmp_path / "home", ignore_errors=True)  # the marks tell what the journal forgot
    shutil.rmtree(tmp_path / "dst" / ".opshift" / "journal.sqlite", ignore_errors=True)
    assert run()["fates"] == {"skipped": 13, "invalid": 1}
    assert {k: n for k, n in server.puts(prefix).items() if "probe" not in k} == {
        k: n for k, n in before.items() if "probe" not in k
    }
    assert not any("probe" in name for name in server.keys(prefix))


def test_what_changed_in_a_store_is_done_again_and_nothing_else(server, prefix, tmp_path):
    source = server.upload(zoo(tmp_path / "src", 4), f"{prefix}/src")
    dst = f"{prefix}/dst"

    def run(*words):
        return batch(server, tmp_path / "home", source, f"s3://{BUCKET}/{dst}", *words)["fates"]

    assert run("--to", "13") == {"ok": 4}
    client, names = server.client, sorted(results(server, dst))
    other = model(name="other").SerializeToString()
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/src/{names[0]}", Body=other)
    client.put_object(Bucket=BUCKET, Key=f"{dst}/{names[1]}", Body=b"damaged")
    client.put_object(Bucket=BUCKET, Key=f"{dst}/.opshift/marks/{names[2]}.json", Body=b"{")
    assert run("--to", "13") == {"ok": 3, "skipped": 1}
    assert b"other" in server.get(f"{dst}/{names[0]}")
    assert server.get(f"{dst}/{names[1]}") == wanted(names[1])
    assert run("--to", "14") == {"ok": 4}
    assert run("--to", "14", "--shard", "1/2", "--journal", tmp_path / "j").keys() == {"skipped"}


def test_patterns_and_lists_speak_of_stores(server, prefix, tmp_path):
    """Models in a store can be chosen in the same three ways as files."""
    source = server.upload(zoo(tmp_path / "src", 12), f"{prefix}/src")
    client = server.client
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/src/list.txt", Body=b"# two\n0/m0000.onnx\n\n1/m0011.onnx")  # fmt: skip
    (tmp_path / "list.txt").write_text(f"{source}/3/m0003.onnx\nsrc/4/m0004.onnx\n")

    def rehearsed(what):
        return batch(server, tmp_path / "home", what, "--to", "13", "--dry-run")["total"]

    assert rehearsed(f"{source}/**/m001*.onnx") == 2
    assert rehearsed(f"{source}/1/*.onnx") == 2
    assert rehearsed(f"{source}/?/m0000.onnx") == 1
    assert rehearsed(f"{source}/2/m0002.onnx") == 1
    assert rehearsed(f"{source}/list.txt") == 2
    assert rehearsed(tmp_path / "list.txt") == 2
    dst = tmp_path / "dst"
    batch(server, tmp_path / "home", tmp_path / "list.txt", dst, "--to", "13")
    assert (dst / BUCKET / prefix / "src/3/m0003.onnx").exists()
    assert (dst / "src/4/m0004.onnx").exists()


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("s3://zoo/nothing-here", "no model found"),
        ("s3://zoo/*/nothing.onnx", "no model found"),
        ("s3://no-such-bucket/x", "NoSuchBucket"),
        ("nosuch://host/x", "Protocol not known"),
    ],
)
def test_what_is_not_there_is_one_sentence(source, sentence, server, tmp_path):
    driver = start(server, tmp_path, source, tmp_path / "dst", "--to", "13")
    err = driver.communicate(timeout=120)[1]
    assert driver.returncode == 2
    assert source.partition("*")[0].removesuffix("x") in err
    assert sentence in err
    error, advice = err.strip().splitlines()
    assert error.startswith("error: ")
    cure = "  More about this error: " if "; " in error else "  What to do: "
    assert advice.startswith(cure)


def test_sources_in_a_store_are_never_overwritten(server, prefix, tmp_path):
    source = server.upload(zoo(tmp_path / "src", 2), prefix)
    driver = start(server, tmp_path, source, source + "/", "--to", "13")
    assert (
        "the sources are in this folder; give another folder" in driver.communicate(timeout=120)[1]
    )
    assert batch(server, tmp_path, source, f"{source}/out", "--to", "13")["fates"] == {"ok": 2}
    assert batch(server, tmp_path, source, f"{source}/out", "--to", "13")["total"] == 2


def test_external_data_travels_with_its_model(server, prefix, tmp_path):
    with_data(tmp_path / "src" / "deep")
    shutil.copy(tmp_path / "src/deep/m.onnx", tmp_path / "src/deep/twin.onnx")
    source = server.upload(tmp_path / "src", f"{prefix}/src")
    dst = f"s3://{BUCKET}/{prefix}/dst"

    def run(*words):
        return batch(server, tmp_path / "home", source, dst, "--to", "13", *words)

    assert run()["fates"] == {"ok": 2}
    assert server.puts(f"{prefix}/dst")["deep/weights/m.data"] == 1
    for name in ("deep/m.onnx", "deep/weights/m.data"):
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_bytes(server.get(f"{prefix}/dst/{name}"))
    loaded = onnx.load(tmp_path / "here/deep/m.onnx")
    assert (numpy_helper.to_array(loaded.graph.initializer[0]) == 1).all()
    server.client.delete_object(Bucket=BUCKET, Key=f"{prefix}/dst/deep/weights/m.data")
    again = run()["fates"]  # whoever comes second may find what the first has put there
    assert again["ok"]
    assert again["ok"] + again.get("skipped", 0) == 2
    assert server.get(f"{prefix}/dst/deep/weights/m.data")
    assert run()["fates"] == {"skipped": 2}
    server.client.put_object(Bucket=BUCKET, Key=f"{prefix}/src/deep/weights/m.data", Body=bytes(8000))  # fmt: skip
    assert "remove it, or give `--external-data one-file`" in run()["reasons"][0]["detail"]
    assert run("--external-data", "one-file")["fates"] == {"ok": 2}
    assert run("--external-data", "one-file")["fates"] == {"skipped": 2}
    assert "deep/twin.onnx.data" in server.keys(f"{prefix}/dst")


def test_data_outside_the_models_folder_and_missing_data_are_refused(server, prefix, tmp_path):
    for folder, location in (
        ("escapes", "../secret"),
        ("absolute", "/etc/hostname"),
        ("gone", "x"),
    ):
        with_data(tmp_path / folder, "w")
        path = tmp_path / folder / "m.onnx"
        proto = onnx.load(path, load_external_data=False)
        proto.graph.initializer[0].external_data[0].value = location
        path.write_bytes(proto.SerializeToString())
    (tmp_path / "secret").write_bytes(bytes(8000))
    source = server.upload(tmp_path, f"{prefix}/src")
    raw = batch(server, tmp_path / "home", source, f"s3://{BUCKET}/{prefix}/dst", "--to", "13")
    assert raw["fates"] == {"invalid": 3}
    assert server.keys(f"{prefix}/dst") == set()


@pytest.fixture
def short():
    """Returns a folder with a short name, because the names of sockets are limited."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def test_every_model_is_done_whoever_is_killed(server, prefix, tmp_path, short):
    chance, count = random.Random(3), 60
    source = server.upload(zoo(tmp_path / "src", count), f"{prefix}/src")
    words = (source, f"s3://{BUCKET}/{prefix}/dst", "--to", "13")
    scratch = {"TMPDIR": short}
    for _ in range(3):  # runs that do not live
        driver = start(server, tmp_path / "home", *words, env=scratch, python=sys.executable)
        over = threading.Event()
        for _ in range(chance.randrange(1, 4)):
            over.wait(chance.uniform(0.5, 1.5))
            if whole := descendants(driver.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(whole), signal.SIGKILL)
        driver.kill()
        driver.communicate()
        results(server, f"{prefix}/dst")
    last = batch(server, tmp_path / "home", *words, "--retry", env=scratch)
    assert sum(last["fates"].values()) == last["fates"].get("ok", 0) + last["fates"].get(
        "skipped", 0
    )
    assert len(results(server, f"{prefix}/dst")) == count
    before = server.puts(f"{prefix}/dst")
    assert batch(server, tmp_path / "home", *words, env=scratch)["fates"] == {"skipped": count}
    unprobed = {name: n for name, n in server.puts(f"{prefix}/dst").items() if "probe" not in name}
    assert unprobed == {name: n for name, n in before.items() if "probe" not in name}
    assert not list(Path(short).glob("opshift-scratch-*"))


@pytest.mark.parametrize("failure", ["403 Forbidden", "500 Internal Server Error"])
def test_a_store_that_fails_every_tenth_request(failure, server, prefix, tmp_path):
    source = server.upload(zoo(tmp_path / "src", 20), f"{prefix}/src")
    words = (source, f"s3://{BUCKET}/{prefix}/dst", "--to", "13")
    server.fails_every, server.failure, server.count = 10, failure, 0
    first = batch(server, tmp_path / "home", *words)
    assert sum(first["fates"].values()) == 20
    if failure.startswith("500"):  # asked again by itself
        assert first["fates"] == {"ok": 20}
    else:
        assert first["fates"]["lost"] > 0
        assert first["fates"].keys() == {"ok", "lost"}
        assert all("s3://zoo/" in one["detail"] for one in first["reasons"]), first["reasons"]
    results(server, f"{prefix}/dst")
    server.fails_every = 0
    last = batch(server, tmp_path / "home", *words)
    assert last["fates"].get("skipped", 0) == first["fates"]["ok"]
    assert last["fates"].get("ok", 0) == first["fates"].get("lost", 0)
    assert len(results(server, f"{prefix}/dst")) == 20


def test_two_runs_of_one_part_write_each_result_once(server, prefix, tmp_path):
    source = server.upload(zoo(tmp_path / "src", 20), f"{prefix}/src")
    words = (source, f"s3://{BUCKET}/{prefix}/dst", "--to", "13", "--shard", "1/1", "--json")
    drivers = [start(server, tmp_path / f"home{i}", *words) for i in range(2)]
    ended = [driver.communicate(timeout=300) for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], ended
    puts = server.puts(f"{prefix}/dst")
    assert {puts[name] for name in results(server, f"{prefix}/dst")} == {1}


def test_shards_need_nothing_but_the_store(server, prefix, tmp_path):
    source = server.upload(zoo(tmp_path / "src", 20), f"{prefix}/src")
    words = (source, f"s3://{BUCKET}/{prefix}/dst", "--to", "13", "--json")
    drivers = [start(server, tmp_path / f"home{i}", *words, "--shard", f"{i}/2") for i in (1, 2)]
    raw = [json.loads(driver.communicate(timeout=300)[0]) for driver in drivers]
    assert [one["fates"]["ok"] == one["total"] > 0 for one in raw] == [True, True]
    assert sum(one["total"] for one in raw) == len(results(server, f"{prefix}/dst")) == 20
    assert batch(server, tmp_path / "home", *words[:-1])["fates"] == {"skipped": 20}


def test_a_store_that_ignores_create_only_is_told_of(server, prefix, tmp_path):
    server.ignores_create = True
    source = server.upload(zoo(tmp_path / "src", 3), f"{prefix}/src")
    words = (source, f"s3://{BUCKET}/{prefix}/dst", "--to", "13")
    first = batch(server, tmp_path / "home", *words)
    assert first["fates"] == {"ok": 3}
    assert "does not support create-only writes" in first["notes"][0]
    assert len(results(server, f"{prefix}/dst")) == 3


def test_weights_are_not_held_in_memory(server, prefix, tmp_path):
    """Only weights larger than the memory limit show that they are streamed."""
    weights = np.zeros(80 << 20, np.uint8)
    proto = model(f"(float[2] x, uint8[{weights.size}] w) => (float[2] y) {{ y = Identity(x) }}")
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    (tmp_path / "src").mkdir()
    onnx.save(proto, tmp_path / "src" / "m.onnx")
    onnx.save(proto, tmp_path / "src" / "d.onnx", save_as_external_data=True, location="d.data")
    source = server.upload(tmp_path / "src", f"{prefix}/src")
    dst = f"s3://{BUCKET}/{prefix}/dst"
    raw = batch(server, tmp_path / "home", source, dst, "--to", "13", "--memory", "176")
    assert raw["fates"] == {"ok": 2}, raw["reasons"]


def test_a_list_on_a_web_server(tmp_path, server):
    zoo(tmp_path / "src", 3)
    (tmp_path / "src/list.txt").write_text("0/m0000.onnx\n1/m0001.onnx\n1/gone.onnx\n")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "src")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        source = f"http://127.0.0.1:{web.server_port}/list.txt"
        raw = batch(server, tmp_path / "home", source, tmp_path / "dst", "--to", "13")
        assert raw["fates"] == {"ok": 2, "lost": 1}
        assert "gone.onnx" in raw["reasons"][0]["detail"]
        again = batch(server, tmp_path / "home", source, tmp_path / "dst", "--to", "13")
        assert again["fates"] == {"skipped": 2, "lost": 1}
        web.shutdown()


def test_another_scheme_is_left_to_fsspec(tmp_path, server):
    zoo(tmp_path / "src", 5)
    words = (f"local://{tmp_path}/src", f"local://{tmp_path}/dst", "--to", "13")
    raw = batch(server, tmp_path / "home", *words)
    assert raw["fates"] == {"ok": 5}
    assert batch(server, tmp_path / "home", *words)["fates"] == {"skipped": 5}
    paths = [path for path in (tmp_path / "dst").rglob("*") if path.is_file()]
    assert sorted(path.suffix for path in paths) == [".json"] * 5 + [".onnx"] * 5


def test_a_store_of_this_process_alone_takes_an_engine_of_this_process(tmp_path):
    from opshift.zoo import Fate, migrate
    from opshift.zoo.stores import stores

    class Here:
        def run(self, fn, items):
            yield from map(fn, items)

    store, folder = stores.at("memory://zoo/src")
    for path in zoo(tmp_path / "src", 3).rglob("*.onnx"):
        name = path.relative_to(tmp_path / "src").as_posix()
        store.upload(f"{folder}/{name}", str(path), create=True)
    for fate in (Fate.OK, Fate.SKIPPED):
        done = migrate(
            "memory://zoo/src", "memory://zoo/dst", 13, engine=Here(), journal=tmp_path / "j"
        )
        assert dict(done.fates) == {fate: 3}
        assert "does not refuse" not in str(done)
    assert store.read("dst/0/m0000.onnx") == wanted("m0000.onnx")


@pytest.mark.skipif(
    not importlib.util.find_spec("distributed"), reason="opshift[dask] is not installed"
)
def test_shards_of_a_cluster_see_the_store_alone(server, prefix, tmp_path):
    source = server.upload(zoo(tmp_path / "src", 6), f"{prefix}/src")
    words = (
        source,
        f"s3://{BUCKET}/{prefix}/dst",
        "--to",
        "13",
        "--engine",
        "dask",
        "--memory",
        "1024",
    )
    driver = start(server, tmp_path / "home", *words, "--json")
    out, err = driver.communicate(timeout=300)
    assert driver.returncode == 0, err
    assert json.loads(out)["fates"]["ok"] == 6
    assert len(results(server, f"{prefix}/dst")) == 6

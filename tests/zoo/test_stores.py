# SPDX-License-Identifier: Apache-2.0
"""The common behaviour of stores, on a real S3-compatible server and two file systems of fsspec."""

from __future__ import annotations

import os

import pytest
from opshift.errors import MissingExtra
from opshift.zoo.stores import stores
from s3 import BUCKET, Server


@pytest.fixture(scope="module")
def server():
    started = Server()
    yield started
    started.close()


@pytest.fixture(params=["s3", "memory", "local"])
def place(request, server, tmp_path, monkeypatch):
    """The url of an empty folder."""
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    stores._opened.cache_clear()
    folder = os.urandom(4).hex()
    return {
        "s3": f"s3://{BUCKET}/{folder}",
        "memory": f"memory://{folder}/deep",
        "local": f"local://{tmp_path}/store",
    }[request.param]


def test_what_is_put_is_listed_read_and_fetched_under_one_version(place, tmp_path):
    store, folder = stores.at(place)
    (tmp_path / "file").write_bytes(b"abc" * 1000)
    key = stores.join(folder, "a b/<ü>.onnx")
    put = store.upload(key, str(tmp_path / "file"), create=True)
    assert put[:2] == (key, 3000)
    small = store.write(stores.join(folder, "small"), b"xy", create=False)
    assert sorted(store.list(folder)) == sorted([put, small])
    assert store.stamp(key) == put == store.fetch(key, str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"abc" * 1000
    assert store.read(small[0]) == b"xy"
    assert stores.size_and_version(f"{place}/small") == small[1:]


def test_what_is_written_anew_has_another_version(place):
    store, folder = stores.at(place)
    key = stores.join(folder, "x")
    first, second = (store.write(key, data, create=False) for data in (b"1", b"2"))
    assert first != second
    assert store.read(key) == b"2"


def test_missing_and_taken_are_told_apart(place, tmp_path):
    store, folder = stores.at(place)
    key = stores.join(folder, "x")
    for ask in (store.stamp, store.read, lambda key: store.fetch(key, str(tmp_path / "none"))):
        with pytest.raises(FileNotFoundError):
            ask(key)
    store.delete(key)
    store.write(key, b"1", create=True)
    (tmp_path / "file").write_bytes(b"2")
    with pytest.raises(FileExistsError):
        store.upload(key, str(tmp_path / "file"), create=True)
    with pytest.raises(FileExistsError):
        store.write(key, b"2", create=True)
    assert store.read(key) == b"1"
    store.delete(key)
    assert list(store.list(folder)) == []


def test_probing_leaves_nothing_behind(place, server):
    assert stores.honours_create(place)
    store, folder = stores.at(place)
    assert list(store.list(folder)) == []


def test_a_store_that_ignores_create_only_is_found_out(server, monkeypatch):
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(server, "ignores_create", True)
    assert not stores.honours_create(f"s3://{BUCKET}/ignores")
    monkeypatch.setattr(server, "ignores_create", False)
    assert stores.honours_create(f"s3://{BUCKET}/ignores")


def test_a_large_object_goes_up_in_parts_and_is_created_once(server, tmp_path, monkeypatch):
    from opshift.zoo.stores import objects as store_objects

    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(store_objects, "CREATED_WHOLE", 1 << 20)
    data = os.urandom(20 << 20)
    (tmp_path / "large").write_bytes(data)
    store, key = stores.at(f"s3://{BUCKET}/large")
    size, version = store.upload(key, str(tmp_path / "large"), create=True)[1:]
    assert (size, version[-2:]) == (len(data), "-3")  # an S3 tag ends with the number of parts
    assert server.get("large") == data
    with pytest.raises(FileExistsError):
        store.upload(key, str(tmp_path / "large"), create=True)


def test_what_a_store_cannot_do_names_the_object(server, monkeypatch):
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    store, _ = stores.at("s3://no-such-bucket/x")
    with pytest.raises(
        FileNotFoundError, match="no such object or bucket: 's3://no-such-bucket/x'"
    ):
        store.write("x", b"1", create=False)
    monkeypatch.setattr(server, "fails_every", 1)
    with pytest.raises(stores.StoreError, match=r"s3://no-such-bucket/x: .*403"):
        store.read("x")
    monkeypatch.setattr(server, "fails_every", 0)


def test_a_missing_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "opshift.zoo.stores.objects", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'opshift\[remote\]'"):
        stores.at("gs://bucket/x")


def test_a_module_with_the_name_of_a_scheme_opens_its_urls(tmp_path, monkeypatch):
    """A new kind of store needs only one file."""
    from opshift.zoo import stores as package

    (tmp_path / "tape.py").write_text("def opened(root):\n    return [root]\n")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    assert stores.at("tape://reel/a/b") == (["tape://reel"], "a/b")

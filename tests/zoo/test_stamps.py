# SPDX-License-Identifier: Apache-2.0
"""A second run converts a model again if its file changed in any way."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from opshift.cli.entry import main
from opshift.zoo import Fate, ModelLimits, marks, migrate
from opshift.zoo.migrate import local_engine
from opshift.zoo.outcome import Outcome
from opshift.zoo.stores import stores
from pairs import save, weight

LONG_AGO = (315532800, 315532800)  # the date that reproducible archives give to their files


def run(source: Path, dst: Path, **options: object) -> dict[str, str]:
    """Returns the outcome of each model."""
    fates: dict[str, str] = {}
    options.setdefault("engine", local_engine(1, ModelLimits(60, 1024)))
    migrate(source, dst, 13, heard=lambda _, o: fates.update({o.name: o.fate.value}), **options)
    return fates


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def replace(path: Path, data: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(data)
    os.utime(other, LONG_AGO)
    os.replace(other, path)


def link(path: Path, data: bytes) -> None:
    path.with_name("target").write_bytes(data)
    os.utime(path.with_name("target"), LONG_AGO)
    path.unlink()
    path.symlink_to("target")


@pytest.fixture
def zoo(tmp_path):
    """Two models of equal size with the same date, and their results."""
    for name in ("a", "b"):
        save(tmp_path / "src" / name / "m.onnx", "w.bin", seed=1)
    for path in (tmp_path / "src").rglob("*.*"):
        os.utime(path, LONG_AGO)
    assert set(run(tmp_path / "src", tmp_path / "dst").values()) == {"ok"}
    for path in (tmp_path / "dst").rglob("m.onnx"):
        os.utime(path, LONG_AGO)
    run(tmp_path / "src", tmp_path / "dst")
    return tmp_path


def changed(path: Path) -> bytes:
    """Returns other content of equal size."""
    data = path.read_bytes()
    return data.replace(b"Softmax", b"Softpax") if b"Softmax" in data else weight(2)


@pytest.mark.parametrize("change", [write, replace, link])
@pytest.mark.parametrize("name", ["src/a/m.onnx", "src/a/w.bin", "dst/a/m.onnx", "dst/a/w.bin"])
def test_a_file_that_changed_is_never_up_to_date(name, change, zoo):
    path = zoo / name
    before = path.stat()
    change(path, changed(path))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    again = run(zoo / "src", zoo / "dst")
    assert again["b/m.onnx"] == "skipped"
    assert again["a/m.onnx"] != "skipped"


class Here:
    """An engine in this process that remembers its models."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def run(self, fn, items):
        for item in items:
            self.names.append(item.name)
            yield fn(item)


def test_files_that_did_not_change_are_not_read_again(zoo):
    engine = Here()
    assert set(run(zoo / "src", zoo / "dst", engine=engine).values()) == {"skipped"}
    assert engine.names == []


def test_rehash_reads_every_model(zoo):
    engine = Here()
    assert set(run(zoo / "src", zoo / "dst", engine=engine, rehash=True).values()) == {"skipped"}
    assert sorted(engine.names) == ["a/m.onnx", "b/m.onnx"]


def test_rehash_finds_a_change_that_no_stamp_shows(zoo, monkeypatch):
    monkeypatch.setattr(
        stores, "size_and_version", lambda path: (os.stat(path).st_size, "as before")
    )
    monkeypatch.setattr(marks, "unchanged", lambda *_: True)
    (zoo / "src" / "a" / "m.onnx").write_bytes(changed(zoo / "src" / "a" / "m.onnx"))
    assert set(run(zoo / "src", zoo / "dst", engine=Here()).values()) == {"skipped"}
    again = run(zoo / "src", zoo / "dst", engine=Here(), rehash=True)
    assert again == {"a/m.onnx": "invalid", "b/m.onnx": "skipped"}


def test_rehash_leaves_models_that_crashed_to_retry(zoo):
    class Falls(Here):
        def run(self, fn, items):
            yield from (Outcome(item.name, Fate.CRASHED, "SIGSEGV") for item in items)

    (zoo / "src" / "a" / "m.onnx").write_bytes(changed(zoo / "src" / "a" / "m.onnx"))
    for options in ({"engine": Falls()}, {"rehash": True}):
        assert run(zoo / "src", zoo / "dst", **options)["a/m.onnx"] == "crashed"
    assert run(zoo / "src", zoo / "dst", rehash=True, retry=True)["a/m.onnx"] != "crashed"


def test_the_command_has_the_option(zoo):
    words = ["batch", zoo / "src", zoo / "dst", "--to", "13", "--rehash", "--workers", "1"]
    done = CliRunner().invoke(main, [*map(str, words), "--json"])
    assert json.loads(done.stdout)["fates"]["skipped"] == 2

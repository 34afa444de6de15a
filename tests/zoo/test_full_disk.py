# SPDX-License-Identifier: Apache-2.0
"""On a full disk, unwritten models are named, no file is incomplete, and a second run finishes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from opshift import convert_version
from zoos import model

TEXT = "(float[10000] x, float[10000] w) => (float[10000] y) { y = Add(x, w) }"
COUNT, KIB = 20, 1024


@pytest.fixture
def source(tmp_path):
    """Models of 40 KB, and one small model."""
    folder = tmp_path / "src"
    folder.mkdir()
    proto = model(TEXT)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(10000, np.float32), "w"))
    for i in range(COUNT):
        proto.graph.name = f"g{i}"
        onnx.save(proto, folder / f"m{i}.onnx")
    onnx.save(model(), folder / "small.onnx")
    return folder


@pytest.fixture
def small_disk(tmp_path):
    """Returns a folder with its own file system of 400 KB."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", tmp_path.parent], capture_output=True).returncode:  # fmt: skip
        pytest.skip("mounting a small file system is not permitted here")
    subprocess.run(["umount", tmp_path.parent], check=True)
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def batch(source, dst, *words, **options):
    command = [sys.executable, "-m", "opshift", "batch", source, dst, "--to", "13", "--json"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*command, "--workers", "2", *words], capture_output=True, text=True, env=env, timeout=300, check=False, **options)  # fmt: skip
    assert done.returncode in (0, 1, 2), done.stderr  # 2: the journal found no room
    return json.loads(done.stdout)


def whole(source, dst):
    """Returns the results, and requires that each one is correct."""
    found = list(dst.glob("*.onnx"))
    for path in found:
        result = convert_version(source / path.name, 13).SerializeToString(deterministic=True)
        assert path.read_bytes() == result
    return found


def test_a_full_disk(source, small_disk, tmp_path):
    """Only a really full disk shows which files remain."""
    first = batch(source, small_disk)
    assert sum(first["fates"].values()) == COUNT + 1
    lost = first["fates"]["lost"]
    assert 0 < lost < COUNT
    assert {(one["fate"], one["why"]) for one in first["reasons"]} == {("lost", "No space left on device")}  # fmt: skip
    assert not list(small_disk.rglob(".opshift-*.tmp"))
    whole(source, small_disk)
    subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
    again = batch(source, small_disk)
    assert again["fates"]["ok"] + again["fates"]["skipped"] == COUNT + 1
    assert len(whole(source, small_disk)) == COUNT + 1
    assert batch(source, small_disk)["fates"]["skipped"] == COUNT + 1


def test_files_that_may_not_grow(source, tmp_path):
    def cap():
        resource.setrlimit(resource.RLIMIT_FSIZE, (32 * KIB, 32 * KIB))

    journal = ("--journal", tmp_path / "j" / "journal.sqlite")
    first = batch(source, tmp_path / "dst", *journal, preexec_fn=cap)
    assert (first["fates"]["ok"], first["fates"]["lost"]) == (1, COUNT)
    assert {one["why"] for one in first["reasons"]} == {"File too large"}
    assert [path.name for path in whole(source, tmp_path / "dst")] == ["small.onnx"]
    again = batch(source, tmp_path / "dst", *journal)
    assert (again["fates"]["ok"], again["fates"]["skipped"]) == (COUNT, 1)
    assert len(whole(source, tmp_path / "dst")) == COUNT + 1

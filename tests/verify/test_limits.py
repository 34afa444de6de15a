# SPDX-License-Identifier: Apache-2.0
"""A model that needs too much memory, one that does not end, and a runtime that crashes."""

from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from opshift import child_python, child_task
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from opshift.testing.model_text import parse_model
from opshift.verify import Limits, isolated_task, verify

pytestmark = pytest.mark.usefixtures("warm_children")

ENGINES = pytest.mark.parametrize("engine", ["opshift", "onnxruntime"])
HEADER = '<ir_version: 8, opset_import: ["" : 13]> g '
GREEDY = "(int64[1] s) => (float y) { z = ConstantOfShape(s) y = ReduceMax<keepdims=0>(z) }"
ENDLESS = """(float[2] x) => (float[2] y) <int64 n = {9223372036854775807}, bool c = {1}> {
    y = Loop(n, c, x) <body = b (int64 i, bool g, float[2] a) => (bool h, float[2] d) { h = Identity(g) d = Neg(a) }>
}"""


def model(text):
    return parse_model(HEADER + text)


@ENGINES
def test_more_memory_than_allowed(engine):
    greedy, size = model(GREEDY), {"s": np.array([500 << 20])}  # 2 GB of floats
    verification = verify(greedy, greedy, size, engine=engine, limits=Limits(megabytes=1024))
    assert not verification.equal
    assert not verification.different
    assert verification.rows[0].outcome == "no answer"
    assert "alloc" in verification.rows[0].detail
    few = {"s": np.array([1000])}
    assert verify(greedy, greedy, few, engine=engine, limits=Limits(megabytes=4096)).equal


@ENGINES
def test_longer_than_allowed(engine):
    endless = model(ENDLESS)
    verification = verify(endless, endless, engine=engine, limits=Limits(seconds=2))
    assert not verification.equal
    assert verification.rows[0].detail == "A gave no answer: not finished within the limit of 2 s"
    assert "give your own inputs, or raise the time limit" in verification.notes[0]


@pytest.fixture
def dying(monkeypatch):
    """Replaces the program of each child process by these lines."""

    def begin(lines):
        command = [sys.executable, "-c", lines]
        monkeypatch.setattr(child_python, "command", lambda *_: command)

    return begin


@pytest.mark.parametrize("signal", ["SIGABRT", "SIGSEGV", "SIGKILL"])
def test_a_runtime_that_dies(dying, signal, tmp_path):
    dying(f"import os, signal; os.kill(os.getpid(), signal.{signal})\n")
    path = tmp_path / "a.onnx"
    onnx.save(model("(float[2] x) => (float[2] y) { y = Neg(x) }"), path)
    words = ["verify", str(path), str(path), "--output-format", "json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == cli.REFUSED
    document = json.loads(done.stdout)
    assert (document["equal"], document["different"]) == (False, False)
    assert f"ended by {signal}" in document["rows"][0]["detail"]


def test_a_runtime_that_leaves_without_a_word(dying):
    dying("import os; os._exit(7)\n")
    assert child_task.run(isolated_task.__name__, "opshift", "", [], 0, limits=Limits()).error == (
        "ended with code 7"
    )


def test_no_file_is_left_behind(dying, tmp_path, monkeypatch):
    dying("import time; time.sleep(60)\n")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    proto = model("(float[2] x) => (float[2] y) { y = Neg(x) }")
    assert not verify(proto, proto, engine="opshift", limits=Limits(seconds=0.2)).equal
    assert list((tmp_path / "tmp").iterdir()) == []

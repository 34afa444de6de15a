# SPDX-License-Identifier: Apache-2.0
"""Without the calls that only POSIX has, every command gives the same result as with them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

WINDOWS = Path(__file__).resolve().parents[1] / "support" / "windows"
CODE = """
import json, sys
from opshift.cli.entry import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        if end.code not in (0, None):
            raise
"""


@pytest.fixture
def folder(tmp_path):
    """A model with its weights inside, and one with external data."""
    weight = numpy_helper.from_array(np.arange(1200, dtype=np.float32).reshape(4, 300), "w")
    x, y = (helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [2, 4]), ("y", [2, 300])))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    (tmp_path / "zoo").mkdir()
    onnx.save(model, tmp_path / "zoo" / "inside.onnx")
    onnx.save(
        model,
        tmp_path / "zoo" / "outside.onnx",
        save_as_external_data=True,
        location="outside.data",
    )
    return tmp_path


def run(*words, folder, windows=True):
    """Runs a command of opshift, with or without what POSIX has."""
    return run_all([words], folder=folder, windows=windows)


def run_all(commands, *, folder, windows=True):
    """Runs commands of opshift in one process, up to the first that fails."""
    paths = [str(WINDOWS)] * windows + [path for path in sys.path if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, "-c", CODE, json.dumps([[*map(str, command)] for command in commands])],
        cwd=folder, env=environment,
        capture_output=True, text=True, timeout=250,
    )  # fmt: skip


def test_the_calls_are_hidden_from_opshift_alone():
    code = (
        "import os, signal, sys, opshift.model.bytes.staging as s, opshift.child_limits as l\n"
        "print(hasattr(os, 'link'), hasattr(s.os, 'link'), hasattr(l.signal, 'SIGALRM'), l.sys.platform)"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(WINDOWS), *filter(None, sys.path)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "True False False win32\n", done.stderr


FILES = {"keep": "inside", "one-file": "inside", "inline": "outside", "copy": "outside"}


def test_a_file_is_converted(folder):
    """The files of each way to store weights are the same with and without what POSIX has."""
    found = []
    for windows in (False, True):
        commands = []
        for external, name in FILES.items():
            (folder / external).mkdir()
            words = ("convert", f"zoo/{name}.onnx", "-o", f"{external}/model.onnx", "--to", "13")
            commands.append((*words, "--external-data", external))
        done = run_all(commands, folder=folder, windows=windows)
        assert done.returncode == 0, done.stdout + done.stderr
        places = [folder / external for external in FILES]
        found.append(
            [{path.name: path.read_bytes() for path in place.iterdir()} for place in places]
        )
        for place in places:
            shutil.rmtree(place)
    assert found[0] == found[1]
    assert [len(files) for files in found[0]] == [1, 2, 1, 2]


def test_a_file_is_converted_in_place(folder):
    path = folder / "zoo" / "outside.onnx"
    done = run("convert", path, "--to", "13", "--in-place", folder=folder)
    assert done.returncode == 0, done.stderr
    assert onnx.load(path).opset_import[0].version == 13
    assert len(onnx.load(path).graph.initializer[0].raw_data) == 4800


def test_two_models_are_compared(folder):
    pytest.importorskip("onnxruntime")
    done = run(
        "convert", "zoo/inside.onnx", "-o", "out.onnx", "--to", "11", "--verify", folder=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr
    done = run("verify", "zoo/outside.onnx", "out.onnx", folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_zoo_is_converted_and_goes_on_where_it_stopped(folder):
    (folder / "zoo" / "bad.onnx").write_bytes(b"\x08")
    words = ("batch", "zoo", "made", "--to", "13", "--workers", "2", "--output-format", "json")
    done = run(*words, folder=folder)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert {p.name for p in (folder / "made").glob("*.onnx")} == {"inside.onnx", "outside.onnx"}
    assert onnx.load(folder / "made" / "outside.onnx").opset_import[0].version == 13
    first = json.loads(done.stdout)
    again = json.loads(run(*words, folder=folder).stdout)
    assert first != again


def test_looking_needs_none_of_them(folder):
    verbs = (("info",), ("check",), ("lowest",), ("plan", "--to", "9"), ("targets",))
    commands = [(verb, "zoo/inside.onnx", *more) for verb, *more in verbs]
    done = run_all(commands, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr

# SPDX-License-Identifier: Apache-2.0
"""No command imports a module of the working folder, neither itself nor in a child process."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import onnx
import pytest
from onnx import parser
from opshift.cli import commands

SOFTMAX = '<ir_version: 7, opset_import: ["" : 12]> g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }'
VERBS = """
accepts a.onnx --for onnxruntime==1.10
adapters Softmax
audit a.onnx --to 17
batch zoo out --to 17 --verify --workers 1 --report zoo.html --results rows.csv
check a.onnx
completion bash
convert a.onnx -o b.onnx --to 17 --verify --report one.html
diff a.onnx b.onnx
explain GGUF_FILE
info a.onnx
lowest a.onnx
ops Softmax
plan a.onnx --to 17
schema
targets a.onnx
verify a.onnx b.onnx --engine onnxruntime
verify a.onnx b.onnx --engine opshift
versions
"""
RUN = """
import json, sys
from opshift.cli.entry import main
if __name__ == "__main__":  # multiprocessing, by which Dask starts workers, runs this again
    for words in json.loads(sys.argv[1]):
        try:
            main(words)
        except SystemExit as end:
            if end.code not in (0, None):
                raise RuntimeError(f"{words}: {end.code}") from end
"""
OTHER_CHILDREN = """
from opshift.protos.whole import onnx
from opshift.testing.judge_process import shared
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.workers import pool, shards
from opshift.zoo.workers.limits import ModelLimits
import copy, numpy

model = onnx.load("a.onnx")
assert shared().compare(model, model, {"x": numpy.ones((2, 3), numpy.float32)}, ["given"])
work = shards.packed(copy.copy, ModelLimits(60, 1024), (Outcome("a", Fate.OK),))
assert [one.fate for one in pool.elsewhere(work)] == [Fate.OK]
"""


@functools.cache
def module_names() -> set[str]:
    names = {*sys.stdlib_module_names, *packages_distributions(), "opshift", "opshift_adapters"}
    return {name for name in names if name.isidentifier()}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of models with modules named like those of Python's library and of each package."""
    folder = tmp_path / "work"
    (folder / "zoo").mkdir(parents=True)
    for path in (folder / "a.onnx", folder / "zoo" / "a.onnx"):
        onnx.save(parser.parse_model(SOFTMAX), path)
    for name in module_names():
        text = f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\nraise ImportError\n"
        (folder / f"{name}.py").write_text(text)
    return folder


def run(folder: Path, program: str, *words: str) -> tuple[str, str]:
    """Runs a program from its own folder, like an installed script."""
    script = folder.parent / "bin" / "opshift"
    script.parent.mkdir()
    script.write_text(program)
    return done(folder, str(script), *words)


def done(folder: Path, *words: str) -> tuple[str, str]:
    """The names of imported modules of the folder, and the output on stderr."""
    path = os.pathsep.join(one for one in sys.path if one and Path(one) != folder)
    env = {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}
    ended = subprocess.run(
        [sys.executable, *words], cwd=folder, env={**env, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    log = folder.parent / "imported"
    return log.read_text() if log.exists() else "", ended.stderr


def test_the_folder_is_hostile(hostile):
    """Without this test, the others could pass because the modules are harmless."""
    assert done(hostile, "-c", "import google")[0].endswith("google ")


def test_no_verb_imports_a_module_of_the_working_folder(hostile):
    lines = [line.split() for line in VERBS.split("\n") if line]
    lines += [["verify", "a.onnx", "b.onnx", "--runtime", sys.executable]]
    lines += [["probe", sys.executable, "--op", "Neg", "--sample", "2", "-o", "row.toml"]]
    assert {line[0] for line in lines} == {
        module.name for module in pkgutil.iter_modules(commands.__path__)
    }
    imported, told = run(hostile, RUN, json.dumps(lines))
    assert imported == ""
    assert "Error" not in told
    assert (hostile / "out" / "a.onnx").exists()


def test_no_child_for_authors_or_clusters_imports_one(hostile):
    imported, told = run(hostile, OTHER_CHILDREN)
    assert imported == ""
    assert "Error" not in told


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_no_worker_of_a_cluster_imports_one(engine, hostile):
    package = {"dask": "distributed", "ray": "ray"}[engine]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install opshift[{engine}]")
    lines = [f"batch zoo out --to 17 --engine {engine}".split()]
    imported, told = run(hostile, RUN, json.dumps(lines))
    assert imported == ""
    assert (hostile / "out" / "a.onnx").exists(), told


def test_the_module_leaves_the_working_folder_out(hostile):
    """Python itself searches this folder for `python -m`, before opshift runs."""
    for path in hostile.glob("*.py"):
        if path.stem in {*sys.stdlib_module_names, "opshift"}:
            path.unlink()
    words = ["-m", "opshift", "batch", "zoo", "out", "--to", "17", "--verify"]
    imported, told = done(hostile, *words)
    assert imported == ""
    assert (hostile / "out" / "a.onnx").exists(), told

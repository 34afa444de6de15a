# SPDX-License-Identifier: Apache-2.0
"""Every snippet of the README, the tutorials and the how-tos runs as it is written.

A snippet after a comment `<!-- not run: reason -->` is left out, and one after the comment
`<!-- needs: module -->` where that module is not installed. One after `<!-- file: path -->` is
saved, and one after `<!-- more of: path -->` is added to the file. The snippets of one page run in
one folder that holds a model under the names that the pages use.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import distributions
import numpy as np
import onnx
import opshift
import pytest
import warm_python
from click.testing import CliRunner
from newest_onnx import IS_OLDER
from opshift import toml
from opshift.cli.entry import main
from opshift.opsets import schemas
from text_models import model

ROOT = Path(__file__).resolve().parents[2]
START = sorted((ROOT / "docs" / "start").glob("*.md"))
MESSAGES = ROOT / "docs" / "start" / "my-runtime-says.md"
HOUR = [ROOT / "README.md", ROOT / "docs" / "index.md", *(one for one in START if one != MESSAGES)]
PAGES = [ROOT / "docs" / "howto" / name for name in ("big-models.md", "report.md")]
HOWTOS = sorted({*(ROOT / "docs" / "howto").glob("*.md")} - {*PAGES})
BLOCK = re.compile(
    r"(?P<left><!-- not run: [^>]+ -->\s*)?(?:<!-- needs: (?P<needs>\w+) -->\s*)?"
    r"(?:<!-- (?P<file>file|more of): (?P<path>\S+) -->\s*)?"
    r"^```(?P<kind>sh|python|toml)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
# The model is not new enough for these, or opshift itself is what they install.
SETUP = re.compile(r"pip install|python3 -m venv")
SHELL = re.compile(r"[|<>;&$*?~`]")  # a line with one of these needs a shell


def snippets(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each snippet of a page that is to run."""
    found = [m for m in BLOCK.finditer(page.read_text(encoding="utf-8")) if not m["left"]]
    there = [m for m in found if m["needs"] is None or importlib.util.find_spec(m["needs"])]
    kept = (m for m in there if m["file"] or (m["kind"] != "toml" and not SETUP.search(m["text"])))
    return [(f"{m['file']}: {m['path']}" if m["file"] else m["kind"], m["text"]) for m in kept]


@pytest.fixture
def folder(tmp_path):
    """A folder with the example of the project, also at the opset and IR of a recent export."""
    for name in ("model.onnx", "attention_opset12.onnx"):
        shutil.copy(ROOT / "examples" / "attention_opset12.onnx", tmp_path / name)
    newer = opshift.convert_version(tmp_path / "model.onnx", 20)
    onnx.save(newer, tmp_path / "model.onnx")
    return tmp_path


SMALL = """(int32[N,3] x) => (float[N,3] y) <float[3] c = {0.5, 1, 2}> {
    f = Cast<to = 1>(x) p = Mul(f, c) y = Softmax<axis = 1>(p) }"""


@pytest.fixture
def files(folder):
    """Returns the files that the guides name, each a copy of a small model."""
    older, newer = folder / "attention_opset12.onnx", folder / "model.onnx"
    small = model(SMALL, 12, more=', "ai.onnx.ml" : 2')
    onnx.save(small, older)
    onnx.save(opshift.convert_version(small, 20), newer)
    for name in ("before", "in", "old", "optimized"):
        shutil.copy(older, folder / f"{name}.onnx")
    for name in ("after", "new"):
        shutil.copy(newer, folder / f"{name}.onnx")
    (folder / "models").mkdir()
    shutil.copy(older, folder / "models" / "resnet18.onnx")
    (folder / "list.txt").write_text("models/resnet18.onnx\n")
    np.savez(folder / "data.npz", x=np.ones((2, 3), np.int32))
    return folder


@pytest.mark.skipif((schemas.latest("") or 0) < 21, reason="the pages convert to opset 21")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run(page, files):
    run_all(page, files, sys.path)


ANSWERED = {
    0,
    1,
    4,
    5,
}  # no, "it would change" and "not known" are answers; 2 is bad usage and 3 a bug
# What a snippet of an adapter begins with, where the page tells of one part of its file.
HEAD = """from collections.abc import Mapping, Sequence
from typing import Any
from opshift.adapter import *
"""


@pytest.mark.skipif(IS_OLDER, reason="the pages name the newest opsets")
@pytest.mark.parametrize("page", HOWTOS, ids=lambda page: page.stem)
@pytest.mark.usefixtures("models_run_here")
def test_every_command_of_a_how_to_is_answered(page, files, monkeypatch):
    """The commands run in this process; those of the first pages run in child processes."""
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(files)
    code = [HEAD] if page.stem in ("modernize", "write-an-adapter") else []
    for kind, text in snippets(page):
        if kind == "python":
            code.append(text)
            continue
        for line in filter(None, text.splitlines()):
            if line.startswith("opshift ") and not SHELL.search(line):
                here = CliRunner().invoke(main, shlex.split(line, comments=True)[1:])
                code_of, told = here.exit_code, here.output
            else:
                done = run(["sh", "-eu", "-c", line], files, sys.path)
                code_of, told = done.returncode, done.stdout + done.stderr
            assert code_of in ANSWERED, f"{line}\n{told}"
    done = run(["python", "-c", "\n".join(code)], files, sys.path)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder in which pip has installed the wheel, as a user has it: without the checkout."""
    pytest.importorskip("setuptools", minversion="77")
    pytest.importorskip("pip")
    place = tmp_path_factory.mktemp("user")
    (wheel,) = distributions.build(place, "wheel").glob("*.whl")
    words = [
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--no-compile",  # most modules are not imported
        "--target",
        str(place / "site"),
        str(wheel),
    ]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    shutil.rmtree(place / "tree")
    return place / "site"


@pytest.mark.skipif((schemas.latest("") or 0) < 21, reason="the pages convert to opset 21")
@pytest.mark.parametrize("page", HOUR, ids=lambda page: page.stem)
def test_the_first_hour_of_a_user_runs_from_a_wheel(page, folder, installed):
    """Every snippet of the first pages runs with the installed wheel, without the checkout."""
    shutil.copytree(ROOT / "examples", folder / "examples")  # the README names one of them
    run_all(page, folder, paths_of(installed))


def test_the_packages_of_the_wheel_are_used(folder, installed):
    code = "import opshift, opshift_adapters as a\nprint(opshift.__file__, a.__file__)"
    done = run(["python", "-c", code], folder, paths_of(installed)).stdout.split()
    assert all(Path(path).is_relative_to(installed) for path in done)
    assert len(done) == 2


def test_a_probe_from_a_wheel_has_the_models_of_a_probe_from_the_checkout(folder, installed):
    code = "\n".join(
        (
            "from opshift.author import registry",
            "from opshift.probe.probe_models import models",
            "print(len(models(registry.default(), ('Softmax', 'Conv', 'Resize'))))",
        )
    )
    words = ["python", "-c", code]
    from_wheel, here = (run(words, folder, paths) for paths in (paths_of(installed), sys.path))
    assert int(from_wheel.stdout) == int(here.stdout) > 100


@pytest.mark.skipif((schemas.latest("") or 0) < 21, reason="the models are of opset 21")
def test_the_commands_for_each_message_of_a_runtime_help(folder, installed):
    """From a wheel, each message of the page with a model that causes it."""
    words = ["python", ROOT / "tests" / "support" / "runtime_messages.py", MESSAGES]
    done = run(words, folder, paths_of(installed))
    assert done.returncode == 0, done.stdout + done.stderr


def paths_of(installed):
    """The search path of a user: the wheel and its dependencies, and nothing of the checkout."""
    others = [path for path in sys.path if path and ROOT not in (Path(path), *Path(path).parents)]
    return [str(installed), *others]


def run_all(page, folder, paths):
    """Runs every snippet of a page in order."""
    pytest.importorskip("onnxruntime")
    for kind, text in snippets(page):
        if kind not in ("sh", "python"):
            save(folder, *kind.split(": "), text)
            continue
        words = ["sh", "-eu", "-c", text] if kind == "sh" else ["python", "-c", text]
        done = run(words, folder, paths)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def save(folder, how, name, text):
    """Writes a file of a tutorial, or more of it; a project is there as if pip had installed it."""
    (path := folder / name).parent.mkdir(exist_ok=True)
    before = path.read_text("utf-8") + "\n\n" if how == "more of" else ""
    path.write_text(before + text, "utf-8")
    if name == "pyproject.toml":
        project = toml.loads(text)["project"]
        (known := folder / "project.dist-info").mkdir()
        (known / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        groups = project["entry-points"].items()
        lines = [
            f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in one.items())
            for group, one in groups
        ]
        (known / "entry_points.txt").write_text("\n".join(lines))


def run(words, folder, paths):
    """Runs a command with the Python and the opshift of these paths."""
    python = warm_python.python(paths)
    (folder / "bin").mkdir(exist_ok=True)
    for command, before in (("opshift", "-m opshift "), ("python", "")):
        program = folder / "bin" / command
        program.write_text(f'#!/bin/sh\nexec "{python}" {before}"$@"\n')
        program.chmod(0o755)
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    found = os.pathsep.join([*paths, str(folder)])  # the project of a tutorial is in the folder
    environment = {**os.environ, "PATH": path, "PYTHONPATH": found}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_page_that_shows_no_command_would_be_noticed():
    assert all(snippets(page) for page in (*HOUR, *PAGES))

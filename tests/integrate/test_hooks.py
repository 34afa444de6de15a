# SPDX-License-Identifier: Apache-2.0
"""The pre-commit hooks, the action and the container file behave as documented."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import parser
from opshift import toml

pytestmark = pytest.mark.usefixtures("warm_children")

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / ".github" / "actions" / "opshift"
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; it comes with moto[s3]")


@pytest.fixture
def folder(tmp_path):
    """A repository with models of opset 12 and 13, one of them with a space in its name."""
    (tmp_path / "my models").mkdir()
    for opset, name in ((12, "old.onnx"), (13, "my models/new one.onnx")):
        text = f'<ir_version: 7, opset_import: ["": {opset}]> g (float[2] x) => (float[2] y) {{ y = Relu(x) }}'
        onnx.save(parser.parse_model(text), tmp_path / name)
    return tmp_path


def ran(words, folder, **environment):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)


def hook(name, *args, folder):
    """Runs a hook as pre-commit does: its entry, the args, then the files that match."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    one = next(hook for hook in hooks if hook["id"] == name)
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    files = [path for path in paths if re.search(one["files"], path)]
    first, *rest = one["entry"].split()
    assert first == "opshift"
    return ran([sys.executable, "-m", "opshift", *rest, *args, *files], folder)


def test_the_check_hook_names_what_is_wrong(folder):
    assert hook("opshift-check", folder=folder).returncode == 0
    (folder / "bad.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    told = hook("opshift-check", folder=folder)
    assert told.returncode == 2
    assert "Git LFS" in told.stderr


def test_the_limit_hook_names_the_model_that_is_too_new(folder):
    assert hook("opshift-accepts", "--opset=13", folder=folder).returncode == 0
    assert hook("opshift-accepts", "--for=onnxruntime==1.10", folder=folder).returncode == 0
    told = hook("opshift-accepts", "--opset=12", folder=folder)
    assert told.returncode == 1
    assert "my models/new one.onnx:\nNo:" in told.stdout
    assert "old.onnx:\nYes" in told.stdout


def action(folder, **inputs):
    """Runs the last step of the action as a shell would."""
    step = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))["runs"]["steps"][-1]
    asked = {
        name: re.fullmatch(r"\$\{\{ inputs\.(.+) \}\}", text)[1]
        for name, text in step["env"].items()
    }
    defaults = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))["inputs"]
    given = {name: inputs.get(key, defaults[key]["default"]) for name, key in asked.items()}
    words = ["bash", "-euo", "pipefail", "-c", step["run"]]
    return ran(
        words, folder, OPSHIFT_PYTHON=sys.executable, GITHUB_ACTION_PATH=str(ACTION), **given
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_action_checks_every_model(folder):
    done = action(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("opshift check") == 2
    done = action(folder, opset="12", **{"for": "onnxruntime==1.10"})
    assert done.returncode == 1
    assert (
        "::error file=my models/new one.onnx::opshift accepts --opset 12: No: a consumer"
        in done.stdout
    )
    assert done.stdout.count("::error") == 1
    done = action(folder, models="nothing/*.onnx")
    assert done.returncode == 2
    assert "no file matches" in done.stdout


def test_every_input_of_the_action_is_used():
    text = (ACTION / "action.yml").read_text("utf-8")
    assert {*yaml.safe_load(text)["inputs"]} == {*re.findall(r"inputs\.([\w-]+)", text)}


def test_the_container_file_copies_what_is_there():
    text = (ROOT / ".ci" / "Containerfile").read_text("utf-8")
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M)
        for word in line.split()
    ]
    assert {"converter", "adapters", "pyproject.toml"} <= {*copied}
    assert all((ROOT / name).exists() for name in copied)
    project = toml.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert re.search(r'ENTRYPOINT \["(\w+)"\]', text)[1] in project["scripts"]
    assert re.search(r"\[(\w+)\]\"$", text, re.M)[1] in project["optional-dependencies"]

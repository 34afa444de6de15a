# SPDX-License-Identifier: Apache-2.0
"""The worked example of a vendor's package, run as one that is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest
from opshift import toml, versions

pytestmark = pytest.mark.usefixtures("warm_children")

VENDOR = Path(__file__).parents[2] / "examples" / "vendor"


ROOT = VENDOR.parents[1]
MODEL = """<ir_version: 8, opset_import: ["" : 13, "com.acme" : 1]>
g (float[1,1,4] x, float[1,1,3] w) => (float[1,1,2] y) { y = com.acme.FastConv<relu = 1>(x, w) }"""


@pytest.fixture
def run(tmp_path):
    """Runs a command as if the example's package were installed without some entry points."""

    def running(*words, without=()):
        project = toml.loads((VENDOR / "pyproject.toml").read_text())["project"]
        installed = tmp_path / "acme_opshift-1.0.0.dist-info"
        installed.mkdir(exist_ok=True)
        name = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (installed / "METADATA").write_text(name)
        groups = [
            f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in points.items())
            for group, points in project["entry-points"].items()
            if group not in without
        ]
        (installed / "entry_points.txt").write_text("\n".join(groups))
        path = [str(tmp_path), str(VENDOR), *filter(None, sys.path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        return subprocess.run(
            [sys.executable, *words],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return running


def test_its_own_tests(run):
    done = run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(VENDOR), str(VENDOR)
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_page(run):
    done = run("-m", "opshift", "adapters", "FastConv", "--domain", "com.acme")
    assert "one of several choices" in done.stdout, done.stderr


def test_its_database_is_what_the_command_builds(run, tmp_path):
    done = run("-m", "opshift", "ops", "build", "--domain", "com.acme", "-o", "built.bin")
    assert done.returncode == 0, done.stderr
    data = VENDOR / "acme_opshift" / "opset_changelog.bin"
    assert (tmp_path / "built.bin").read_bytes() == data.read_bytes()


@pytest.mark.parametrize("without", [(), ("opshift.changelogs",)])
def test_a_domain_without_a_database_is_read_from_its_schemas(run, tmp_path, without):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    words = ["-m", "opshift", "convert", "m.onnx", "-o", "o.onnx", "--to", "com.acme=2"]
    done = run(*words, without=without)
    assert done.stdout.startswith("Converted: com.acme 1 -> 2."), done.stderr
    assert onnx.load(tmp_path / "o.onnx").graph.node[0].attribute[0].s == b"relu"
    plan = run("-m", "opshift", "plan", "m.onnx", "--to", "com.acme=1", without=without)
    assert "Possible" in plan.stdout, plan.stderr


def test_a_database_without_schemas_promises_nothing(run, tmp_path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    words = ["-m", "opshift", "convert", "m.onnx", "-o", "o.onnx", "--to", "com.acme=2"]
    done = run(*words, without=("opshift.schemas",))
    assert done.returncode == 2
    assert "the versions of 'com.acme' are not known" in done.stderr


@pytest.mark.parametrize(("ir", "version"), [(3, 8), (7, 12), (8, 15), (10, 21)])
def test_a_domain_that_appears_is_imported_at_the_version_of_the_ir(ir, version):
    assert versions.paired({"com.newco": 2}, "", ir) == version


def test_a_domain_that_appears_goes_with_the_others():
    assert versions.paired({"ai.onnx.ml": 3}, "", 10) == 16

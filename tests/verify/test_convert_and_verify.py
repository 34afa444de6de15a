# SPDX-License-Identifier: Apache-2.0
"""`opshift convert --verify` writes only results that were proven equal."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper
from opshift.adapter import Builder, Node, Result, adapter
from opshift.author import registry
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from opshift.testing.model_text import parse_model
from opshift.verify import verify

pytestmark = pytest.mark.usefixtures("models_run_here")

TEXT = '<ir_version: 8, opset_import: ["" : 12]> g (float[n,4] x) => (float[n,4] y) { a = Add(x, w) s = Softmax<axis=0>(a) y = Neg(s) }'


@adapter("Softmax", 12, 13)
def wrong_softmax(node: Node, op: Builder) -> Result:
    """The axis is forgotten."""
    node.int("axis")
    return op.same(node, axis=-1)


@pytest.fixture
def wrong(monkeypatch):
    branch = registry.default().branch()
    branch._verdicts["", "Softmax", 12, 13] = wrong_softmax
    monkeypatch.setattr(registry, "default", lambda: branch)


@pytest.fixture(params=["inside", "outside"])
def source(request, tmp_path):
    """A model whose weights are in the file, or in a data file."""
    model = parse_model(TEXT.replace("y) {", "y) <float[4] w = {1, 2, 3, 4}> {"))
    big = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(1024, 4)
    model.graph.initializer.append(numpy_helper.from_array(big, "big"))
    model.graph.node.insert(0, onnx.helper.make_node("ReduceMean", ["big"], ["m"], axes=[0]))
    model.graph.node[1].input[1] = "m"
    path = tmp_path / "in" / "in.onnx"
    path.parent.mkdir()
    outside = {"save_as_external_data": True, "location": "in.data", "size_threshold": 100}
    onnx.save(model, path, **(outside if request.param == "outside" else {}))
    return path


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("external", ["copy", "inline", "one-file"])
def test_what_is_equal_is_written(source, external, tmp_path):
    out = tmp_path / "out.onnx"
    where = ("-o", out, "--external-data", external)
    done = run("convert", source, *where, "--to", 13, "--verify")
    assert done.exit_code == cli.DONE, done.output
    assert f"B: {out} on " in done.stdout
    assert "\nEqual: both models" in done.stdout
    assert onnx.load(out).opset_import[0].version == 13
    assert verify(source, out).equal


def test_in_place(source):
    assert run("convert", source, "--in-place", "--to", 13, "--verify").exit_code == cli.DONE
    assert onnx.load(source).opset_import[0].version == 13


@pytest.mark.parametrize("in_place", [True, False])
def test_what_differs_is_not_written(wrong, source, in_place, tmp_path):
    before, around = contents(source.parent), sorted(tmp_path.iterdir())
    where = ["--in-place"] if in_place else ["-o", tmp_path / "out.onnx"]
    done = run("convert", source, *where, "--to", 13, "--verify", "--external-data", "copy")
    assert done.exit_code == cli.REFUSED
    assert "first difference: 's'" in done.stderr
    assert "wrong_softmax (Softmax 12->13)" in done.stderr
    assert done.stderr.startswith("Different: ")
    assert "Nothing was written." in done.stderr
    assert (contents(source.parent), sorted(tmp_path.iterdir())) == (before, around)


def test_looking_is_enough(wrong, source, tmp_path):
    done = run("convert", source, "--to", 13, "--dry-run", "--verify", "--output-format", "json")
    assert done.exit_code == cli.REFUSED
    document = json.loads(done.stdout)
    assert (document["kind"], document["verification"]["different"]) == ("report", True)
    assert document["verification"]["cause"]["value"] == "s"


def test_nobody_can_say(tmp_path):
    text = '<ir_version: 8, opset_import: ["" : 12, "acme" : 1]> g (float[2] x) => (float[2] y) { y = acme.Op(x) }'
    onnx.save(parse_model(text), tmp_path / "in.onnx")
    out = tmp_path / "out.onnx"
    done = run("convert", tmp_path / "in.onnx", "-o", out, "--to", 13, "--verify")
    assert done.exit_code == cli.REFUSED
    assert "Not shown to be equal: a model gave no result. Nothing was written.\n" in done.stderr
    assert not out.exists()

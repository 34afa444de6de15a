# SPDX-License-Identifier: Apache-2.0
"""`--verify` publishes a result only after it ran and was found equal."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper
from opshift import child_task
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from opshift.zoo import Fate, ModelLimits, migrate, task
from opshift.zoo.migrate import local_engine
from zoos import model, zoo

pytestmark = pytest.mark.usefixtures("models_run_here")

ADD = "(float[2] x, float[2] w) => (float[2] y, float[2] z) { z = Neg(x) y = Add(x, w) }"


class Here:
    """An engine in this process, in which a test can replace a conversion."""

    def run(self, fn, items):
        yield from map(fn, items)


def run(source, dst, **options):
    heard = []
    migrate(source, dst, 13, verify=True, heard=lambda _, o: heard.append(o), **options)
    return {outcome.name: outcome for outcome in heard}


@pytest.fixture
def source(tmp_path):
    proto = model(ADD)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    (tmp_path / "src").mkdir()
    onnx.save(proto, tmp_path / "src" / "add.onnx")
    return tmp_path / "src"


def test_equal_results_are_published_and_what_was_not_verified_is_done_again(source, tmp_path):
    zoo(source, 2)
    engine, dst = local_engine(1, ModelLimits(120, 2048)), tmp_path / "dst"
    migrate(source, dst, 13, engine=engine)
    for fate in (Fate.OK, Fate.SKIPPED):
        assert {o.fate for o in run(source, dst, engine=engine).values()} == {fate}
    assert len(list(dst.rglob("*.onnx"))) == 3


def test_external_data_is_verified_where_it_is(source, tmp_path, monkeypatch):
    """A worker may crash, so it does not start child processes."""
    monkeypatch.setattr(child_task, "run", lambda *args, **limits: pytest.fail("a process"))
    onnx.save(onnx.load(source / "add.onnx"), source / "far.onnx", save_as_external_data=True, location="w", size_threshold=0)  # fmt: skip
    for external in ("copy", "inline", "one-file"):
        ended = run(source, tmp_path / external, engine=Here(), external=external)
        assert {o.fate for o in ended.values()} == {Fate.OK}, ended


def test_a_model_that_differs_is_named_with_the_output_and_not_published(
    source, tmp_path, monkeypatch
):
    honest = task.convert

    def wrong(open_skeleton, options):
        skeleton, weights, report = honest(open_skeleton, options)
        skeleton.graph.node[-1].op_type = "Sub"
        return skeleton, weights, report

    monkeypatch.setattr(task, "convert", wrong)
    ended = run(source, tmp_path / "dst", engine=Here())["add.onnx"]
    assert (ended.fate, ended.why) == (Fate.UNVERIFIED, "different")
    assert "output 'y' differs" in ended.detail
    assert "computed by Add" in ended.detail
    assert not list((tmp_path / "dst").glob("*.onnx"))
    monkeypatch.setattr(task, "convert", honest)
    assert run(source, tmp_path / "dst", engine=Here())["add.onnx"].fate is Fate.UNVERIFIED
    again = run(source, tmp_path / "dst", engine=Here(), retry=True)["add.onnx"]
    assert again.fate is Fate.OK


def test_what_nobody_can_run_is_not_called_equal(source, tmp_path):
    text = '<ir_version: 8, opset_import: ["" : 12, "acme" : 1]> g (float[2] x) => (float[2] y) { y = acme.Magic(x) }'
    onnx.save(onnx.parser.parse_model(text), source / "add.onnx")
    ended = run(source, tmp_path / "dst", engine=Here())["add.onnx"]
    assert (ended.fate, ended.why) == (Fate.UNVERIFIED, "no answer")
    assert not list((tmp_path / "dst").glob("*.onnx"))
    assert {o.fate for o in run(source, None, engine=Here()).values()} == {Fate.UNVERIFIED}


def test_a_model_without_outputs_is_not_called_equal(source, tmp_path):
    proto = onnx.load(source / "add.onnx")
    del proto.graph.output[:]
    onnx.save(proto, source / "add.onnx")
    ended = run(source, tmp_path / "dst", engine=Here())["add.onnx"]
    assert (ended.fate, ended.why) == (Fate.UNVERIFIED, "no answer")
    assert ended.detail == "the model has no outputs to compare"


def test_the_extra_is_named(source, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    words = ["batch", str(source), str(tmp_path / "dst"), "--to", "13", "--verify"]
    bad = CliRunner().invoke(main, words)
    assert bad.exit_code == cli.BAD_INPUT
    assert "pip install 'opshift[verify]'" in bad.stderr

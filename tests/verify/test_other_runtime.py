# SPDX-License-Identifier: Apache-2.0
"""Runs models in the runtime of another Python: the outcomes, and the environment."""

from __future__ import annotations

import os
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from fake_runtimes import fake_python
from opshift import child_python
from opshift.child_task import Limits
from opshift.errors import BadTarget
from opshift.verify import other_runtime
from opshift.verify.other_runtime import RuntimeJob
from text_models import model

OPERATORS = ("Neg", "Abs", "Exp", "Floor", "Ceil", "Sign")
X = {"x": np.array([-1.5, 2.0], np.float32)}


def jobs(folder, cases=(X,)):
    found = []
    for op in OPERATORS:
        proto = model(f"(float[2] x) => (float[2] y) {{ y = {op}(x) }}", 13)
        onnx.save(proto, folder / f"{op}.onnx")
        found.append(RuntimeJob.of(proto, folder / f"{op}.onnx", cases))
    return found


def test_each_model_has_its_outcome_and_none_affects_another(tmp_path):
    log = tmp_path / "log"
    rules = {"Abs": "refuses", "Exp": "dies", "Floor": "fails", "Ceil": "sleeps", "log": str(log)}
    runtime = other_runtime.find(fake_python(tmp_path, rules), "onnxruntime")
    answers = runtime.run(jobs(tmp_path), Limits(seconds=6))
    assert [answer.outcome for answer in answers] == [
        other_runtime.RAN, other_runtime.NOT_LOADED, other_runtime.ENDED, other_runtime.NOT_RUN,
        other_runtime.TOO_SLOW, other_runtime.RAN,
    ]  # fmt: skip
    np.testing.assert_array_equal(answers[0].results[0][0]["y"], -X["x"])
    np.testing.assert_array_equal(answers[5].results[0][0]["y"], np.sign(X["x"]))
    assert answers[1].error == "RuntimeError: this operator is not implemented"
    assert answers[2].error == "the process ended with SIGSEGV without a message"
    assert answers[3].error == "ValueError: this shape is not supported"
    assert answers[4].error == "not finished within the limit of 6 s"
    ended = [line for line in log.read_text().splitlines() if "Exp" in line]
    assert len(ended) == 2  # it is to blame only if it was the first model of its process


@pytest.mark.parametrize("value", [[1.0, 2.0], np.ones(2, ml_dtypes.float8_e5m2)])
def test_an_input_that_cannot_be_sent_is_no_fault_of_the_runtime(value, tmp_path):
    runtime = other_runtime.find(fake_python(tmp_path, {}))
    answers = runtime.run(jobs(tmp_path, [{"x": value}]), Limits())
    assert {answer.outcome for answer in answers} == {other_runtime.NOT_SENT}
    assert answers[0].error == "the input 'x' has a type that cannot be sent to another Python"


def test_the_runtime_is_the_wanted_one_or_the_first(tmp_path):
    python = fake_python(tmp_path, {})
    for wanted in ("onnxruntime", "", "edge-box"):
        found = other_runtime.find(python, wanted)
        assert (found.name, found.version) == ("onnxruntime", "1.15.1")
        assert str(found) == f"onnxruntime 1.15.1 of {python}"
        assert found.target == "onnxruntime==1.15.1"


def test_a_python_without_the_runtime_is_named(tmp_path):
    (tmp_path / "cv2.py").write_text("import nothing_that_exists\n")
    python = fake_python(tmp_path, {}, stubs=tmp_path)
    with pytest.raises(BadTarget) as caught:
        other_runtime.find(python, "opencv")
    assert str(caught.value) == (
        f"{python} cannot run models: ModuleNotFoundError: No module named 'nothing_that_exists';"
        " give a Python interpreter that has opencv"
    )
    with pytest.raises(BadTarget, match=r"'onnxruntime==1\.10'; give the path of a Python"):
        other_runtime.find("onnxruntime==1.10")


def test_the_child_has_neither_our_paths_nor_programs_nor_indexes(tmp_path, monkeypatch):
    """Some packages call pip when they are imported, and a folder of models may contain modules."""
    seen = tmp_path / "seen"
    (tmp_path / "onnxruntime.py").write_text(
        f"import os, sys\nopen({str(seen)!r}, 'w').write(ascii([sorted(os.environ.items()), sys.path]))\n"
    )
    monkeypatch.setenv("PIP_INDEX_URL", "somewhere")
    monkeypatch.setenv("https_proxy", "somewhere")
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    monkeypatch.chdir(tmp_path)
    other_runtime.find(fake_python(tmp_path, {}, stubs=tmp_path), "onnxruntime")
    text = seen.read_text()
    assert "'somewhere'" not in text
    assert f"'{os.path.dirname(other_runtime.__file__)}'" not in text
    assert text.count(f"'{tmp_path}'") == 2  # PYTHONPATH of the script, and the path that it makes
    assert "('PIP_NO_INDEX', '1')" in text
    assert child_python.bare_environment()["PATH"] == os.defpath


def test_a_module_of_the_working_folder_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "tract.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)
    for wanted in ("tract", ""):
        try:
            other_runtime.find(sys.executable, wanted)
        except BadTarget as error:
            assert "imported" not in str(error)

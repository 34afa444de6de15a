# SPDX-License-Identifier: Apache-2.0
"""An old name warns, names the new one, and does the same."""

from __future__ import annotations

import subprocess
import sys
import warnings

import onnx
import opshift
import pytest
from onnx import onnx_operators_ml_pb2
from opshift import deprecation, terms
from text_models import model

MODEL = "(float[2] x) => (float[2] y) { y = Relu(x) }"


def test_an_old_function_warns_at_the_line_of_its_caller():
    proto = model(MODEL, 13)
    with pytest.warns(
        DeprecationWarning, match=r"opshift\.check_model .* use opshift\.check"
    ) as told:
        found = opshift.check_model(proto)
    assert found == opshift.check(proto)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opshift.check(proto)


def test_an_old_option_warns_on_stderr_and_stdout_stays(tmp_path):
    onnx.save(model(MODEL, 13), tmp_path / "m.onnx")
    (document := tmp_path / "acme.onnxopset").write_bytes(described("com.acme", 1))
    old, new = (
        subprocess.run(
            [sys.executable, "-m", "opshift", "check", "m.onnx", option, document],
            cwd=tmp_path, capture_output=True, text=True,
        )
        for option in ("--opset", "--operator-set")
    )  # fmt: skip
    assert (old.returncode, old.stdout) == (new.returncode, new.stdout)
    assert old.stderr.startswith("warning: --opset ")
    assert f"use --operator-set {document}" in old.stderr
    assert new.stderr == ""


def described(domain, version):
    """A document of an operator set without operators."""
    made = onnx_operators_ml_pb2.OperatorSetProto(magic="ONNXOPSET", ir_version=8)
    made.domain, made.opset_version = domain, version
    return made.SerializeToString()


def test_who_warns_how(capsys):
    text = "old is deprecated and will be removed in opshift 9; use new"
    with pytest.warns(DeprecationWarning, match=text):
        deprecation.warn("old", "new", "9")
    with terms.called_by(terms.Caller.COMMAND), warnings.catch_warnings():
        warnings.simplefilter("error")
        deprecation.warn("old", "new", "9")
    assert capsys.readouterr().err == f"warning: {text}\n"

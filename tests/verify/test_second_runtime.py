# SPDX-License-Identifier: Apache-2.0
"""The second model in the onnxruntime of another Python."""

from __future__ import annotations

import re
import sys

import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from opshift.cli.entry import main
from opshift.errors import BadTarget
from opshift.verify import Limits, verify
from text_models import model

pytestmark = pytest.mark.usefixtures("warm_children")

PLAIN = "(float[2] x) => (float[2] y) { y = Neg(x) }"


def test_both_are_compared_and_the_report_names_the_interpreter(tmp_path):
    a, b = model(PLAIN, 13), model("(float[2] x) => (float[2] y) { y = Abs(x) }", 13)
    same = verify(a, a, runtime=sys.executable)
    assert same.equal
    assert same.sides[1].engine == f"onnxruntime {onnxruntime.__version__} of {sys.executable}"
    verification = verify(a, b, runtime=sys.executable)
    assert verification.different
    assert "now Abs" in str(verification.cause)
    onnx.save(a, tmp_path / "a.onnx")
    words = ["verify", f"{tmp_path}/a.onnx", f"{tmp_path}/a.onnx", "--runtime", sys.executable]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0
    assert f" of {sys.executable} (chosen by the caller)" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "(string[2] x) => (string[2] y) { y = Identity(x) }",
        "(float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x, x) }",
        "(bool[2] x, float16[2] z) => (bool[2] y, float16[2] w) { y = Not(x) w = Neg(z) }",
    ],
)
def test_strings_sequences_and_halves_come_back_as_they_are(text):
    proto = model(text, 13)
    assert verify(proto, proto, runtime=sys.executable).equal


def test_a_map_comes_back():
    text = "(float[2,3] x) => (seq(map(int64, float)) y) { y = ai.onnx.ml.ZipMap<classlabels_int64s = [4, 5, 6]>(x) }"
    proto = model(text, 13, more=', "ai.onnx.ml" : 2')
    assert verify(proto, proto, runtime=sys.executable).equal


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "#!/bin/sh\necho no such wheel >&2\nexit 1\n",
            "exit code 1 with the message: no such wheel",
        ),
        ("#!/bin/sh\nkill -9 $$\n", "ended with SIGKILL without a message"),
        ("#!/bin/sh\nexec sleep 60\n", "not finished within the limit of 2 s"),
        ("\0 is no program", "cannot be started: "),
    ],
)
def test_an_interpreter_that_gives_no_answer_is_an_error(text, reason, tmp_path):
    python = tmp_path / "python"
    python.write_text(text)
    python.chmod(0o755)
    with pytest.raises(BadTarget, match=re.escape(reason)) as caught:
        verify(model(PLAIN, 13), model(PLAIN, 13), runtime=str(python), limits=Limits(seconds=2))
    assert str(caught.value).startswith(f"{python} cannot run models: ")
    assert str(caught.value).endswith("; give a Python interpreter that has a runtime")


def test_a_model_that_the_runtime_does_not_load_gives_no_answer():
    unknown = model("(float[2] x) => (float[2] y) { y = acme.Run(x) }", 13, more=', "acme" : 1')
    verification = verify(model(PLAIN, 13), unknown, runtime=sys.executable)
    assert [row.outcome for row in verification.rows] == ["no answer"] * len(verification.rows)
    assert "B gave no answer" in verification.rows[0].detail

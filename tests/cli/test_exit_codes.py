# SPDX-License-Identifier: Apache-2.0
"""The exit code says who is at fault: the model (1), a file or the environment (2), opshift (3)."""

from __future__ import annotations

import subprocess
import sys

import onnx
import pytest
from click.testing import CliRunner
from opshift.cli.entry import main
from text_models import model

INVALID = {
    "cycle": "{ a = Add(x, b) b = Relu(a) y = Identity(b) }",
    "two definitions": "{ a = Relu(x) a = Neg(x) y = Identity(a) }",
    "no definition": "{ y = Relu(nothing) }",
    "no such operator": "{ y = NoSuch(x) }",
    "no such attribute": "{ y = Relu<alpha = 1.0>(x) }",
    "no such domain": "{ y = com.acme.Run(x) }",
}
COMMANDS = (
    ("check", "MODEL"),
    ("convert", "MODEL", "--to", "21", "-o", "out.onnx"),
    ("convert", "MODEL", "--to", "9", "--check"),
    ("convert", "MODEL", "--for", "onnxruntime==1.10", "--dry-run"),
    ("convert", "MODEL", "--modernize", "--to", "21", "-o", "out.onnx"),
    ("plan", "MODEL", "--to", "21"),
    ("lowest", "MODEL"),
    ("accepts", "MODEL", "--opset", "21", "--ir", "10"),
    ("accepts", "MODEL", "--for", "onnxruntime==1.20"),
    ("targets", "MODEL", "onnxruntime==1.20"),
    ("verify", "MODEL", "MODEL"),
    ("batch", "FOLDER", "results", "--to", "21"),
)


def run(words, folder):
    places = {"MODEL": str(folder / "in" / "m.onnx"), "FOLDER": str(folder / "in")}
    words = [places.get(word, word) for word in words]
    return CliRunner().invoke(main, words)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path


@pytest.mark.usefixtures("models_run_here")
@pytest.mark.parametrize("fault", INVALID)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:1] + words[2:4]))
def test_an_invalid_model_is_exit_1_in_every_command(words, fault, folder):
    text = f"(float[2] x) => (float[2] y) {INVALID[fault]}"
    onnx.save(model(text, 13, ir=7), folder / "in" / "m.onnx")
    done = run(words, folder)
    assert done.exit_code == 1, done.output


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec", b"\x80\x04K"])
@pytest.mark.parametrize(
    "words", [command for command in COMMANDS if command[0] not in ("batch",)],
    ids=lambda words: " ".join(words[:1] + words[2:4]),
)  # fmt: skip
def test_a_file_that_holds_no_model_is_exit_2(words, content, folder):
    (folder / "in" / "m.onnx").write_bytes(content)
    assert run(words, folder).exit_code == 2


UNFIT = """
from google.protobuf.internal import builder
build = builder.BuildMessageAndEnumDescriptors
def fail(file, module):
    if "onnx" in file.name and "opshift" not in file.name:
        raise TypeError("Descriptors cannot be created directly.")
    build(file, module)
builder.BuildMessageAndEnumDescriptors = fail
from opshift.cli.entry import run
run()
"""


@pytest.mark.parametrize("words", [command for command in COMMANDS if command[0] != "batch"])
def test_a_protobuf_that_does_not_fit_onnx_is_a_fault_of_the_environment(words, folder):
    onnx.save(model("(float[2] x) => (float[2] y) { y = Relu(x) }"), folder / "in" / "m.onnx")
    words = [str(folder / "in" / "m.onnx") if word == "MODEL" else word for word in words]
    done = subprocess.run(
        [sys.executable, "-c", UNFIT, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "it needs another version of a package: Descriptors cannot" in done.stderr
    assert "bug" not in done.stderr

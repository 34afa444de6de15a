# SPDX-License-Identifier: Apache-2.0
"""A caller may close the standard streams: no file gets their messages, and no command fails."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from text_models import model

pytestmark = pytest.mark.skipif(os.name == "nt", reason="subprocess closes streams only on POSIX")
CLOSED = [numbers for count in (1, 2, 3) for numbers in itertools.combinations(range(3), count)]


def run(folder: Path, closed: tuple[int, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """Returns the end of a command whose caller has closed these streams."""

    def close() -> None:
        for number in closed:
            os.close(number)

    return subprocess.run(
        [sys.executable, "-m", "opshift", *words], cwd=folder, preexec_fn=close,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_a_result_is_complete_and_has_no_messages(closed: tuple[int, ...], tmp_path: Path) -> None:
    # the checker of onnx prints a warning about the experimental operator
    text = "(float[2] x) => (float[2] y) { h = ConstantFill<shape = [2]>() y = Add(x, h) }"
    onnx.save(model(text, 7, ir=4), tmp_path / "in.onnx")
    done = run(tmp_path, closed, "convert", "in.onnx", "-o", "out.onnx", "--to", "13", "-v")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.onnx", "out.onnx"]


@pytest.mark.parametrize("words", [("info", "in.onnx"), ("check", "in.onnx"), ("--version",)])
def test_a_question_ends_as_usual(words: tuple[str, ...], tmp_path: Path) -> None:
    onnx.save(model("(float[2] x) => (float[2] y) { y = Neg(x) }"), tmp_path / "in.onnx")
    assert run(tmp_path, (0, 1, 2), *words).returncode == 0


def test_a_result_for_a_closed_output_is_an_error(tmp_path: Path) -> None:
    onnx.save(model("(float[2] x) => (float[2] y) { y = Neg(x) }"), tmp_path / "in.onnx")
    done = run(tmp_path, (1,), "convert", "in.onnx", "-o", "-", "--to", "13")
    assert (done.returncode, "the standard output is closed" in done.stderr) == (2, True)


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A device of our own that is always full, because a test must not write to a real one."""
    device = tmp_path / "full"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("only root makes devices")
    return device


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has a device that is full")
@pytest.mark.parametrize(
    ("words", "stream"),
    [
        (("info", "in.onnx"), "standard output"),
        (("info", "in.onnx", "--json"), "standard output"),
        (("convert", "in.onnx", "-o", "-", "--to", "13"), "standard output"),
        (("convert", "in.onnx", "-o", "full", "--to", "13"), "full"),
        (("--help",), "standard output"),
        (("--version",), "standard output"),
        (("batch", "--help"), "standard output"),
    ],
)
def test_an_error_of_a_stream_names_the_stream(
    words: tuple[str, ...], stream: str, full: Path, tmp_path: Path
) -> None:
    onnx.save(model("(float[2] x) => (float[2] y) { y = Neg(x) }"), tmp_path / "in.onnx")
    with full.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "opshift", *words], cwd=tmp_path, stdout=output,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {stream}: No space left on device\n")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has a device that is full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("convert", "in.onnx", "-o", "-", "--to", "13"), 0),
        (("batch", ".", "results", "--to", "13", "--workers", "1"), 0),
        (("check", "none.onnx"), 2),
        (("none",), 2),
        ((), 2),
    ],
)
def test_a_message_that_cannot_be_written_ends_no_command(
    words: tuple[str, ...], code: int, unbuffered: str, full: Path, tmp_path: Path
) -> None:
    onnx.save(model("(float[2] x) => (float[2] y) { y = Neg(x) }"), tmp_path / "in.onnx")
    with full.open("wb") as messages:
        done = subprocess.run(
            [sys.executable, "-m", "opshift", *words], cwd=tmp_path, stdout=subprocess.PIPE,
            stderr=messages, check=False, env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert done.returncode == code

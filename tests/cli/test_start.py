# SPDX-License-Identifier: Apache-2.0
"""SIGTERM and SIGHUP end the command like Ctrl-C, also while its modules are imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

AT_AN_IMPORT = """
import itertools, os, signal, sys
from opshift.cli.start import run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it

class Signals:
    numbers = itertools.count()

    def find_spec(self, name, path=None, target=None):
        if next(self.numbers) == {number}:
            os.kill(os.getpid(), signal.{signal})

{before}
sys.meta_path.insert(0, Signals())
run()
print("not interrupted")
"""


def interrupted(
    tmp_path, number: int, name: str, before: str = ""
) -> subprocess.CompletedProcess[str]:
    """A batch that gets a signal at one of its imports."""
    (tmp_path / "zoo").mkdir(exist_ok=True)
    code = AT_AN_IMPORT.format(number=number, signal=name, before=before)
    words = [sys.executable, "-c", code, "batch", "zoo", "dst", "--to", "13", "--workers", "1"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=env, check=False)


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself these signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_at_an_import_ends_the_command_as_an_interrupt(name, tmp_path):
    handler = "default_int_handler" if name == "SIGINT" else "SIG_DFL"
    usual = f"signal.signal(signal.{name}, signal.{handler})"  # nohup ignores SIGHUP
    for number in range(0, 240, 40 if name == "SIGTERM" else 120):
        done = interrupted(tmp_path, number, name, usual)
        assert done.returncode == 130, (number, done.stderr)
        assert "error: interrupted" in done.stderr
        assert "Traceback" not in done.stderr


SWALLOWED = """
class Extension:
    def find_spec(self, name, path=None, target=None):
        if name == "opshift.zoo.migrate":
            try:
                os.kill(os.getpid(), signal.{signal})
            except KeyboardInterrupt:
                raise {error}("a module in C failed to import") from None

sys.meta_path.insert(0, Extension())
"""


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself these signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("error", ["ImportError", "SystemError", "ValueError"])
def test_an_interrupt_that_a_module_turns_into_another_error_is_one(name, error, tmp_path):
    done = interrupted(tmp_path, -1, name, SWALLOWED.format(signal=name, error=error))
    assert done.returncode == 130, done.stderr
    assert done.stderr.startswith("error: interrupted")


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself these signals")
def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path):
    ignored = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert interrupted(tmp_path, 0, "SIGTERM", ignored).returncode != 130


def test_the_package_imports_its_commands_on_their_first_use():
    code = (
        "import sys, opshift.cli, opshift.cli.start; assert 'click' not in sys.modules\n"
        "from opshift.cli import main; assert main.name == 'main'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

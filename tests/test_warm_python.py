# SPDX-License-Identifier: Apache-2.0
"""A Python of tests that is a fork behaves like a new one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm_python

PROGRAMS = [
    "pass",
    "import sys; sys.exit(3)",
    "import sys; sys.exit('why')",
    "import os; os.kill(os.getpid(), 9)",
    "import os; os.abort()",
    "import sys; print(sys.stdin.read(), sys.argv, flush=True); print('error', file=sys.stderr)",
    "import os, sys; print(os.getcwd(), sys.path[0], os.environ['TOLD'], __name__, end='')",
    "import atexit; atexit.register(print, 'at the end'); print('before')",
    "import threading, time; threading.Timer(0.1, print, ['a thread']).start()",
    "import onnxruntime; print(onnxruntime.__name__)",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_ends_and_prints_as_a_new_one(program, tmp_path, monkeypatch):
    monkeypatch.setenv("TOLD", "by the caller")

    def run(python):
        words = [python, "-c", program, "word"]
        done = subprocess.run(words, input=b"text", capture_output=True, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    assert run(warm_python.python()) == run(sys.executable)


def test_an_error_is_a_traceback_and_a_code():
    words = [warm_python.python(), "-c", "1 / 0"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "ZeroDivisionError: division by zero",
    )


def test_a_process_whose_caller_gives_up_ends(tmp_path):
    program = "import pathlib, time; time.sleep(0.5); pathlib.Path('late').touch()"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([warm_python.python(), "-c", program], cwd=tmp_path, timeout=0.2)
    time.sleep(0.5)
    assert not (tmp_path / "late").exists()


def runs_as_a_fork():
    program = "import sys; print('opshift.cli.entry' in sys.modules)"
    words = [warm_python.python(), "-c", program]
    return subprocess.run(words, capture_output=True, text=True).stdout == "True\n"


def test_the_server_goes_on_if_a_command_and_its_caller_end_together():
    program = (
        "import os, signal; print(os.getppid(), flush=True); os.kill(os.getppid(), signal.SIGSTOP)"
    )
    caller = subprocess.Popen([warm_python.python(), "-c", program], stdout=subprocess.PIPE)
    server = int(caller.stdout.readline())
    time.sleep(0.3)  # the command ends while the server is stopped
    caller.kill()
    caller.wait()
    os.kill(server, signal.SIGCONT)
    assert runs_as_a_fork()
    assert runs_as_a_fork()  # the first command may start before the server handles the two ends


def test_the_server_goes_on_if_a_caller_is_gone_before_its_command():
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(Path(warm_python.python()).with_name("socket")))
    assert runs_as_a_fork()


@pytest.mark.parametrize("words", [("-X", "utf8", "-c"), ("-S", "-c")])
def test_other_options_of_python_start_a_new_one(words):
    program = "import sys; print('opshift.cli.entry' in sys.modules)"
    words = [warm_python.python(), *words, program]
    assert subprocess.run(words, capture_output=True, text=True).stdout == "False\n"


def test_without_its_server_a_command_runs_in_a_new_python(tmp_path):
    client, real = warm_python.CLIENT, sys.executable
    words = [real, "-I", "-S", client, tmp_path / "no socket", real, "-c", "print(6 * 7)"]
    assert subprocess.run(words, capture_output=True, text=True).stdout == "42\n"


def test_a_server_that_was_killed_is_reported_at_the_end():
    program = (
        "import os, signal, subprocess, warm_python\n"
        "words = [warm_python.python(), '-c', 'import os; print(os.getppid())']\n"
        "os.kill(int(subprocess.check_output(words)), signal.SIGKILL)\n"
    )
    words, folder = [sys.executable, "-c", program], Path(warm_python.__file__).parent
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [f"{warm_python.FAILED} -9"]

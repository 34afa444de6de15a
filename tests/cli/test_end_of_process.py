# SPDX-License-Identifier: Apache-2.0
"""The command ends its process at once, without losing output or unfinished work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

AT_EXIT = "import atexit; atexit.register(lambda: print('ended', flush=True))"
THREAD = """
import threading
main = threading.main_thread()
threading.Thread(target=lambda: (main.join(), print('ended', flush=True))).start()"""


def run(before: str, *words: str) -> subprocess.CompletedProcess[str]:
    code = f"{before}\nfrom opshift.cli.entry import run\nrun('opshift')"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-c", code, *words], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("before", ["", AT_EXIT, THREAD], ids=["alone", "at exit", "thread"])
def test_what_others_left_to_do_is_done(before):
    done = run(before, "--version")
    assert done.returncode == 0
    assert "version" in done.stdout
    assert done.stdout.endswith("ended\n") == bool(before)


def test_an_error_keeps_its_code_and_its_message():
    done = run(AT_EXIT, "nonsense")
    assert (done.returncode, done.stdout) == (2, "ended\n")
    assert "'nonsense' is neither a command nor a file" in done.stderr


def test_nothing_is_taken_apart():
    """Python does not clear the modules at the end of the process."""
    kept = (
        "import sys\nclass Kept:\n def __del__(self): sys.__stdout__.write('cleared')\n"
        "kept = Kept()"
    )
    assert "cleared" not in run(kept, "--version").stdout

# SPDX-License-Identifier: Apache-2.0
"""The progress of a batch: a display on a terminal, and plain lines in a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest
from opshift.zoo import progress
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.summary import Summary
from zoos import zoo


def summary(*fates):
    made = Summary(10)
    for i, fate in enumerate(fates):
        made.add(Outcome(f"m{i}", fate, "W", "why", size=1_000_000))
    return made


def test_a_line_counts_what_was_worked_on():
    seen = summary(Fate.OK, Fate.OK, Fate.SKIPPED, Fate.REFUSED, Fate.CRASHED)
    assert progress.line(seen, 2.0) == (
        "5/10 done, 1 up to date, 1 refused, 1 failed, 2.0 models/s, 2.0 MB/s, 0:02 left"
    )
    assert progress.line(summary(Fate.OK), 900.0).endswith("0.0 models/s, 0.0 MB/s, 2:15:00 left")
    assert progress.line(Summary(3), 0.0).startswith("0/3 done")


def test_a_pipe_gets_a_line_for_each_failure_and_one_at_the_end(capsys):
    with progress.plain() as heard:
        seen = Summary(3)
        for fate in (Fate.OK, Fate.REFUSED, Fate.OK):
            outcome = Outcome("a\nb.onnx", fate, "W", "it says why")
            seen.add(outcome)
            heard(seen, outcome)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "refused a\\nb.onnx: it says why"
    assert lines[1].startswith("3/3 done, 0 up to date, 1 refused")
    assert len(lines) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_a_terminal_shows_what_each_worker_is_doing(tmp_path):
    source, (ours, theirs) = zoo(tmp_path / "src", 300), pty.openpty()
    words = [sys.executable, "-m", "opshift", "batch", source, tmp_path / "dst", "--to", "13"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm", "COLUMNS": "120"}
    driver = subprocess.Popen(
        [*words, "--workers", "1"], stderr=theirs, stdout=subprocess.DEVNULL, env=env
    )
    os.close(theirs)
    seen = "".join(iter(lambda: read(ours), ""))
    assert driver.wait(120) == 0
    assert re.search(r" s  \d/m\d{4}\.onnx", seen)
    assert re.search(r"\d+/300 done, .* models/s, .* MB/s, \d+:\d\d left", seen)


def read(terminal):
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # nobody writes to it any more
        return ""

# SPDX-License-Identifier: Apache-2.0
"""A sample of the injections of tools/fuzz/crash.py, where strace is installed and permitted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_sample_of_injections_leaves_nothing_mixed():
    words = ["--only", "pair", "--sample", "4", "--faults", "KILL", "EIO"]
    done = subprocess.run([sys.executable, "-m", "tools.fuzz", "crash", *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
    if "is it permitted here?" in done.stderr:
        pytest.skip("processes may not be traced here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("16 injections, 0 mixed")

# SPDX-License-Identifier: Apache-2.0
"""After kill -9 of workers and of the driver at random times, every model is done or named."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

from opshift import convert_version
from zoos import model, zoo

COUNT = 500


def start(source: Path, dst: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "opshift", "batch", source, dst, "--to", "13", "--json"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([*command, "--workers", "2", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)  # fmt: skip


def descendants(pid: int) -> list[int]:
    """Returns the children of a process, recursively; a process that has ended has none."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def test_every_model_is_done_once_or_named_whoever_is_killed(tmp_path):
    """Only kills at random times show that no moment loses a model."""
    chance = random.Random(7)
    source, dst = zoo(tmp_path / "src", COUNT), tmp_path / "dst"
    for _ in range(3):  # runs that do not live
        driver, over = start(source, dst), threading.Event()
        for _ in range(chance.randrange(3, 7)):
            over.wait(chance.uniform(0.1, 0.7))
            whole = descendants(driver.pid)
            if whole:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(whole), signal.SIGKILL)
        driver.kill()
        driver.communicate()
        visible(dst)
    named = finished(start(source, dst))
    assert named["left"] == 0
    assert sum(named["fates"].values()) == COUNT
    assert named["fates"]["ok"] + named["fates"]["skipped"] + named["fates"]["crashed"] == COUNT
    assert finished(start(source, dst, "--retry"))["fates"]["crashed"] == 0
    assert len(visible(dst)) == COUNT
    before = {path: path.stat().st_mtime_ns for path in visible(dst)}
    assert finished(start(source, dst))["fates"]["skipped"] == COUNT
    assert before == {path: path.stat().st_mtime_ns for path in visible(dst)}


def finished(driver: subprocess.Popen[str]) -> dict:
    return json.loads(driver.communicate(timeout=120)[0])


def visible(dst: Path) -> list[Path]:
    """Returns the visible results, and requires that each one is complete."""
    result = convert_version(model(name="g0000"), 13).SerializeToString(deterministic=True)
    paths = [path for path in dst.rglob("*.onnx") if not path.name.startswith(".")]
    for path in paths:
        assert path.read_bytes() == result.replace(b"g0000", f"g{path.stem[1:]}".encode())
    return paths

# SPDX-License-Identifier: Apache-2.0
"""The programs that `bench_zoo.py` runs side by side: `zoo_sides.py SIDE FROM TO N`.

Each has its imports done and has converted something before its clock starts. It imports nothing
that opshift would not, so that a worker is no larger than it is elsewhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from typing import Any

TARGET = 21
WARMING = 2  # models for each loop or worker


def loops(source: str, to: str, count: int) -> None:
    """So many loops of convert_file at the same time, each over its part of the models."""
    context = get_context("spawn")
    ready, start = context.Barrier(count + 1), context.Barrier(count + 1)
    paths = sorted(os.path.join(source, name) for name in os.listdir(source))
    work = []
    for i in range(count):
        os.makedirs(folder := os.path.join(to, str(i)))
        work.append(context.Process(target=loop, args=(paths[i::count], folder, ready, start)))
        work[-1].start()
    ready.wait()
    at_the_gate()
    start.wait()
    for process in work:
        process.join()
        assert process.exitcode == 0


def loop(paths: Sequence[str], to: str, ready: Any, start: Any) -> None:
    """One of the loops."""
    from opshift import convert_file

    for path in paths[:WARMING]:
        convert_file(path, os.path.join(to, "first.onnx"), TARGET)
    ready.wait()
    start.wait()
    for path in paths:
        convert_file(path, os.path.join(to, os.path.basename(path)), TARGET)


def batch(source: str, to: str, count: int) -> None:
    """A batch in so many workers."""
    from opshift.zoo.migrate import local_engine, migrate

    os.makedirs(first := os.path.join(to, "first"))
    for name in os.listdir(source)[: WARMING * count]:
        shutil.copy(os.path.join(source, name), os.path.join(first, name))
    migrate(first, os.path.join(to, "1"), TARGET, engine=local_engine(count))
    at_the_gate()
    summary = migrate(source, os.path.join(to, "2"), TARGET, engine=local_engine(count))
    assert not summary.failures, str(summary)


def copy(source: str, to: str, count: int) -> None:
    """The plain copy of the models."""
    del count
    at_the_gate()
    subprocess.run(["cp", "-r", source, to], check=True)


def at_the_gate() -> None:
    """Says so, and waits for the line to begin."""
    print("ready", flush=True)
    sys.stdin.readline()


def main() -> None:
    """The command."""
    side, source, to, count = sys.argv[1:]
    {"loops": loops, "batch": batch, "copy": copy}[side](source, to, int(count))
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

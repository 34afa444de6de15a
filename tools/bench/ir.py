# SPDX-License-Identifier: Apache-2.0
"""Measures `opshift convert --ir N` and a plan of the header, and prints a table.

    python -m tools.bench ir [--nodes 200000] [--size 1536] [--turns 5]

Each row is the best of some processes of its own; the first is the command that does nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from opshift.cli.terminal import DONE, WOULD_CHANGE
from opshift.convert.ir import restamp
from opshift.convert.request import Request

from tools.bench.process_time import process_time
from tools.bench.workloads import transformer, weighty

MODULE = [sys.executable, "-m", "opshift"]


def measured(words: list[str], place: Path, turns: int) -> tuple[float, float]:
    """Wall and CPU seconds of a process, whichever run was the quickest."""
    best = (1e9, 1e9)
    for _ in range(turns):
        restamp.look(place, Request({}, 8), place, "keep").write(place, in_place=True)  # as it was
        wall, cpu = process_time([*MODULE, *words], WOULD_CHANGE if "--check" in words else DONE)
        best = min(best[0], wall), min(best[1], cpu)
    return best


def rows(folder: Path, nodes: int, size: int) -> Iterator[tuple[str, Path, list[str]]]:
    """What is measured, on which file, and the words of the command."""
    many, heavy = folder / "many.onnx", folder / "heavy.onnx"
    many.write_bytes(transformer(13, nodes).SerializeToString())
    heavy.write_bytes(weighty(13, size).SerializeToString())
    yield "nothing (`--help`)", many, ["--help"]
    for what, path in ((f"{nodes:,} nodes", many), (f"{size} MiB of weights", heavy)):
        for ir, words in (
            ("10", ["-o", str(folder / "out.onnx")]),
            ("7", ["-o", str(folder / "out.onnx")]),
            ("10", ["--in-place"]),
            ("7", ["--in-place"]),
            ("7", ["--check"]),
        ):
            words = ["convert", str(path), "--ir", ir, *words]
            yield f"{what}, IR 8 → {ir}, `{words[4]}`", path, words
        yield f"{what}, plan 13 → 13", path, ["plan", str(path), "--to", "13"]


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1536)
    parser.add_argument("--turns", type=int, default=5)
    wanted = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        print("| | wall s | CPU s |\n| --- | --- | --- |")
        for what, path, words in rows(Path(folder), wanted.nodes, wanted.size):
            wall, cpu = measured(words, path, wanted.turns)
            print(f"| {what} | {wall:.3f} | {cpu:.3f} |", flush=True)


if __name__ == "__main__":
    main()

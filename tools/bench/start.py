# SPDX-License-Identifier: Apache-2.0
"""Measures what a command costs on a small model, beside a script of the C++ converter.

    python -m tools.bench start [--turns 11] [--nodes 20]

Each command and each script runs once in every turn, as a process of its own, after one turn that
is not counted. The table gives the medians of the CPU seconds, and their ratios to the script.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.bench.process_time import process_time
from tools.bench.workloads import transformer

SCRIPT = """
import sys, onnx
from onnx import version_converter
onnx.save(version_converter.convert_version(onnx.load(sys.argv[1]), 18), sys.argv[2])
"""
REFERENCE = "onnx.version_converter, 13 → 18"


def commands(model: Path, out: Path) -> dict[str, list[str]]:
    """What is measured."""
    python, opshift = [sys.executable], [sys.executable, "-m", "opshift"]
    convert = [*opshift, "convert", str(model), "-o", str(out)]
    return {
        "python alone": [*python, "-c", "pass"],
        "`import onnx`": [*python, "-c", "import onnx"],
        REFERENCE: [*python, "-c", SCRIPT, str(model), str(out)],
        "`--version`": [*opshift, "--version"],
        "`--help`": [*opshift, "--help"],
        "`info`": [*opshift, "info", str(model)],
        "`convert --ir 9`": [*convert, "--ir", "9"],
        "`convert --to 18`": [*convert, "--to", "18"],
        "`convert --to 21`": [*convert, "--to", "21"],
        "`convert --to 11`": [*convert, "--to", "11"],
        "`check`": [*opshift, "check", str(model)],
        "`plan --to 11`": [*opshift, "plan", str(model), "--to", "11"],
        "`accepts --for onnxruntime==1.10`": [
            *opshift, "accepts", str(model), "--for", "onnxruntime==1.10"
        ],
    }  # fmt: skip


def measured(words: Mapping[str, Sequence[str]], out: Path, turns: int) -> dict[str, float]:
    """The median of each command."""
    taken: dict[str, list[float]] = {what: [] for what in words}
    for turn in range(turns + 1):
        for what, each in words.items():
            out.unlink(missing_ok=True)
            found = process_time(each, cwd=out.parent)  # a folder without settings
            taken[what] += [found.cpu] if turn else []
    return {what: statistics.median(one) for what, one in taken.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--nodes", type=int, default=20)
    wanted = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        model, out = Path(folder) / "small.onnx", Path(folder) / "out.onnx"
        model.write_bytes(transformer(13, wanted.nodes).SerializeToString())
        found = measured(commands(model, out), out, wanted.turns)
    print("| | CPU s | of the script |\n| --- | --- | --- |")
    for what, each in found.items():
        print(f"| {what} | {each:.3f} | {each / found[REFERENCE]:.2f} |")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Tests opshift with every Python on this machine, every onnx and every protobuf it supports.

python -m tools.bench matrix [--all] [--python 3.10] [--onnx 1.17] [--work DIR]

A combination is installed only from wheels and runs some tests of each kind. Without --all, the
oldest and the newest onnx are tested with every protobuf, and the newest protobuf with every onnx.
Run this tool before a release; the workflow `matrix.yml` runs it every week.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.lib.interpreters import pythons
from tools.lib.program import described

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
ONNX = ("1.17", "1.18", "1.19", "1.20", "1.21", "1.22", "1.23")
PROTOBUF = ("4", "5", "6", "7")
SMOKE = (
    "tests/cli/test_cli.py", "tests/convert/test_step.py", "tests/model/test_arrays.py",
    "tests/model/test_weights.py", "tests/opsets/test_versions.py", "tests/look/test_plan.py",
)  # fmt: skip
BASE = (
    "click", "ml-dtypes", "networkx", "numpy", "tomli", "pytest", "pytest-xdist", "hypothesis",
)  # fmt: skip
SECONDS = 600


@dataclass(frozen=True)
class CombinationResult:
    """The outcome of one combination; `onnx` and `protobuf` are the installed versions."""

    python: str
    onnx: str
    protobuf: str
    result: str


def combinations(every: bool) -> Iterator[tuple[str, str]]:
    """Yields (onnx, protobuf) in an order that changes one package at a time."""
    for onnx in ONNX:
        for protobuf in PROTOBUF:
            if every or protobuf == PROTOBUF[-1] or onnx in (ONNX[0], ONNX[-1]):
                yield onnx, protobuf


def environment(python: str, place: Path) -> Path:
    """Creates a virtual environment without onnx and protobuf; returns its interpreter."""
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    inside = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    _pip(inside, *BASE, "setuptools>=77")
    return inside


def attempt(inside: Path, version: str, onnx: str, protobuf: str) -> CombinationResult:
    """Installs one combination and runs the tests."""
    installed = _pip(inside, f"onnx=={onnx}.*", f"protobuf=={protobuf}.*")
    if installed.returncode:
        return CombinationResult(version, onnx, protobuf, "no wheels fit")
    _pip(inside, "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    words = [str(inside), "-m", "pytest", "-q", "-p", "no:cacheprovider", *SMOKE]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    said = f"{done.stdout}\n{done.stderr}".strip()  # pytest names a missing plugin on stderr
    result = "passed" if done.returncode == 0 else f"FAILED: {said.splitlines()[-1]}"
    if done.returncode:
        print(said[-3000:], file=sys.stderr)
    releases = _version(inside, "onnx"), _version(inside, "protobuf")
    return CombinationResult(version, *releases, result)


def _pip(inside: Path, *what: str) -> subprocess.CompletedProcess[str]:
    words = [str(inside), "-m", "pip", "install", "-q", "--only-binary", ":all:", *what]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def _version(inside: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    words = [str(inside), "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Tests combinations, prints each outcome at once, and returns 1 if a test failed."""
    parser = described(__doc__)
    parser.add_argument("--all", action="store_true", help="every onnx with every protobuf")
    parser.add_argument("--python", action="append", help="only this version; may be repeated")
    parser.add_argument("--onnx", action="append", help="only this version; may be repeated")
    parser.add_argument("--work", type=Path, help="the folder for the environments")
    args = parser.parse_args()
    results: list[CombinationResult] = []
    with tempfile.TemporaryDirectory() as scratch:
        for version in [minor for minor in args.python or PYTHONS if minor in pythons()]:
            place = (args.work or Path(scratch)) / f"python{version}"
            inside = environment(pythons()[version], place)
            for onnx, protobuf in combinations(args.all):
                if args.onnx and onnx not in args.onnx:
                    continue
                results.append(attempt(inside, version, onnx, protobuf))
                print(*re.split(r"\s+", " ".join(vars(results[-1]).values())), flush=True)
    return any(outcome.result.startswith("FAILED") for outcome in results)


if __name__ == "__main__":
    sys.exit(main())

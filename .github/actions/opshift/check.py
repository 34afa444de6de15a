# SPDX-License-Identifier: Apache-2.0
"""Checks the models that the patterns in MODELS match; the exit code is the gravest one.

RUNTIME, OPSET and STRICT are the inputs of the action. It prints an annotation for each failure.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys


def commands(asked: dict[str, str]) -> list[list[str]]:
    """The commands of opshift that the inputs ask for, without the models."""
    found = [["check", "--strict"] if asked.get("STRICT") == "true" else ["check"]]
    if asked.get("RUNTIME"):
        found.append(["accepts", "--for", asked["RUNTIME"]])
    if asked.get("OPSET"):
        found.append(["accepts", "--opset", asked["OPSET"]])
    return found


def models(patterns: str) -> list[str]:
    """The files that the patterns match, each once."""
    lines = [line.strip() for line in patterns.splitlines() if line.strip()]
    found = (path for line in lines for path in glob.glob(line, recursive=True))
    return sorted({path for path in found if os.path.isfile(path)})


def annotation(words: list[str], done: subprocess.CompletedProcess[str]) -> str:
    """What failed: the verdict and the first reason, escaped as the forge asks."""
    told = " ".join(line.strip() for line in (done.stderr or done.stdout).splitlines()[:2])
    command = " ".join(["opshift", *words])
    return f"{command}: {told or f'exit code {done.returncode}'}".replace("%", "%25")


def main() -> int:
    """Runs each command on each model."""
    found = models(os.environ["MODELS"])
    if not found:
        print(f"::error::no file matches {os.environ['MODELS']!r}")
        return 2
    gravest = 0
    for words in commands(dict(os.environ)):
        for model in found:
            print(f"opshift {' '.join(words)} {model}", flush=True)
            line = [sys.executable, "-m", "opshift", *words, "--", model]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            print(done.stdout, done.stderr, sep="", end="", flush=True)
            if done.returncode:
                print(f"::error file={model}::{annotation(words, done)}")
            gravest = max(gravest, done.returncode)
    return gravest


if __name__ == "__main__":
    sys.exit(main())

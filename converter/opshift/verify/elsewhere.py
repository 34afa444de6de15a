# SPDX-License-Identifier: Apache-2.0
"""Runs a model in the onnxruntime of another Python interpreter, such as that of a device."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opshift.child_task import Limits
from opshift.verify.isolated_task import Results

GUEST = Path(__file__).with_name("guest.py")


def run(
    python: str, path: str, cases: Sequence[Mapping[str, Any]], limits: Limits | None
) -> Results:
    """The model's outputs for each case, or a sentence about why there are none."""
    with tempfile.TemporaryDirectory(prefix="opshift-") as name:
        folder = Path(name)
        if failed := _prepare(folder, path, cases) or _call(python, folder, limits):
            return [({}, failed)] * len(cases)
        answer = json.loads((folder / "answer.json").read_text())
        if "error" in answer:
            return [({}, answer["error"])] * len(cases)
        return [_result(one, folder / f"out{i}.npz") for i, one in enumerate(answer["cases"])]


def _prepare(folder: Path, path: str, cases: Sequence[Mapping[str, Any]]) -> str:
    """Writes the job; returns the reason if that is impossible, or an empty text."""
    for number, case in enumerate(cases):
        if bad := [name for name, value in case.items() if not isinstance(value, np.ndarray)]:
            return (
                f"the input {bad[0]!r} is no tensor, and only tensors can be sent to another Python"
            )
        arrays = {k: v.astype(str) if v.dtype.kind == "O" else v for k, v in case.items()}
        np.savez(folder / f"in{number}.npz", **arrays)
    job = {"model": os.path.abspath(path), "cases": len(cases)}
    (folder / "job.json").write_text(json.dumps(job))
    return ""


def _call(python: str, folder: Path, limits: Limits | None) -> str:
    """Runs the guest; returns the reason if it gave no answer, or an empty text."""
    seconds = (limits or Limits()).seconds
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [python, str(GUEST), str(folder)], env=environment, timeout=seconds, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not finished in {seconds:g} s, the limit"
    except OSError as error:
        return f"{python} cannot be run: {error.strerror}"
    if (folder / "answer.json").exists():
        return ""
    last = (done.stderr.strip().splitlines() or ["it wrote no message"])[-1]
    code = done.returncode
    return f"{python} ended {f'by signal {-code}' if code < 0 else f'with code {code}'}: {last}"


def _result(told: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], str]:
    if "error" in told:
        return {}, told["error"]
    with np.load(path) as arrays:
        return {name: _value(one, arrays) for name, one in told["outputs"].items()}, ""


def _value(told: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    if "array" in told:
        array = arrays[told["array"]]
        return array.astype(object) if array.dtype.kind == "U" else array
    if "list" in told:
        return [_value(one, arrays) for one in told["list"]]
    return dict(told["map"]) if "map" in told else None

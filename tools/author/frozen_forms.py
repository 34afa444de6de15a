# SPDX-License-Identifier: Apache-2.0
"""Freezes the JSON output of a release and the files of a batch, for later releases to read."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx.parser

SOFTMAX = "(float[2,3] x) => (float[2,3] y) { y = Softmax(x) }"
ERF = "(double[2] x) => (double[2] y) { y = Erf(x) }"
COMMANDS = {
    "report": "convert a.onnx -o c.onnx --to 15",
    "refused": "convert b.onnx -o c.onnx --to 8",
    "error": "convert none.onnx -o c.onnx --to 8",
    "plan": "plan a.onnx --to 11",
    "lowest": "lowest a.onnx",
    "audit": "audit a.onnx",
    "check": "check a.onnx",
    "several": "check a.onnx b.onnx",
    "diff": "diff a.onnx b.onnx",
    "accepts": "accepts a.onnx --for onnxruntime==1.10",
    "verification": "verify a.onnx a.onnx --engine opshift",
    "info": "info a.onnx",
    "ops": "ops Clip",
    "changes": "ops Clip --since 10 --diff 13",
    "versions": "versions",
    "targets": "targets",
    "code": "explain NO_ADAPTER",
    "adapters": "adapters Clip",
    "batch": "batch src out --to 8 --journal journal.sqlite3 --workers 1",
}


def run(folder: Path, words: str) -> Any:
    """Returns the JSON output of a command."""
    return json.loads(done(folder, words).stdout)


def done(folder: Path, words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command and returns the finished process."""
    return subprocess.run(
        [sys.executable, "-m", "opshift", *words.split(), "--output-format", "json"],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
    )  # fmt: skip


def prepare(folder: Path) -> None:
    """Writes the models that the commands read."""
    (folder / "src").mkdir()
    for name, text in (("a", SOFTMAX), ("b", ERF)):
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
        for place in (folder, folder / "src"):
            onnx.save(model, place / f"{name}.onnx")


def frozen() -> tuple[bytes, bytes]:
    """Returns the JSON of every command, and the files of a batch in one archive."""
    with tempfile.TemporaryDirectory(prefix="opshift-") as name:
        folder = Path(name)
        prepare(folder)
        documents = {key: run(folder, words) for key, words in COMMANDS.items()}
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                inside = path.relative_to(folder).as_posix()
                if path.is_file() and inside.startswith(("src/", "out/", "journal.sqlite3")):
                    archive.writestr(inside, path.read_bytes())
        return json.dumps(documents, indent=1, sort_keys=True).encode(), packed.getvalue()


def lost(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Yields the fields of a JSON form that a later form lacks, or whose type changed."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{where}.{key} is gone"
            else:
                yield from lost(value, after[key], f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if before and after:
            yield from lost(before[0], _together(after), f"{where}[]")
    elif _kind(before) != _kind(after) and None not in (before, after):
        yield f"{where} was {_kind(before)} and is {_kind(after)}"


def _together(items: list[Any]) -> Any:
    """Merges JSON objects into one object that has the fields of all of them."""
    first = items[0]
    if not all(isinstance(item, dict) for item in items):
        return first
    keys = dict.fromkeys(key for item in items for key in item)
    return {key: _together([item[key] for item in items if key in item]) for key in keys}


def _kind(value: Any) -> str:
    return "number" if isinstance(value, float) else type(value).__name__.replace("int", "number")

# SPDX-License-Identifier: Apache-2.0
"""The exports of an interpreter with torch, and the opsets that torch and opshift reach."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import opshift

from .install import NotHere

CHILD = Path(__file__).with_name("torch_child.py")
NETWORKS = Path(__file__).with_name("torch_modules.py")
ASKED = 13  # of which torch's own converter of opsets is not capable for most networks


@dataclass(frozen=True)
class Exports:
    """The folders of the exports, and what torch wrote or said for each wish."""

    version: str
    root: Path
    told: dict[str, dict[str, Any]]

    @property
    def folders(self) -> list[Path]:
        return [self.root / name for name, one in self.told.items() if "opset" in one]


def exports(python: str, cache: Path, names: tuple[str, ...] = ()) -> Exports:
    """The networks, or some of them, as torch exports them; those of an earlier call again."""
    code = "import onnxscript, torch; print(torch.__version__)"
    try:
        asked = subprocess.run([python, "-c", code], capture_output=True, text=True)
    except OSError as reason:
        raise NotHere(f"torch cannot be imported by {python}: {reason}") from reason
    if asked.returncode:
        said = (asked.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise NotHere(f"torch cannot be imported by {python}: {said}")
    version = asked.stdout.strip()
    digest = hashlib.sha256(b"".join(one.read_bytes() for one in (CHILD, NETWORKS)))
    digest.update(repr(names).encode())
    root = cache / f"torch-{version}-{digest.hexdigest()[:12]}"
    if not root.exists():
        _export(python, root, names)
    return Exports(version, root, json.loads((root / "exports.json").read_text()))


def _export(python: str, root: Path, names: tuple[str, ...]) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix="torch-", dir=root.parent))
    command = [python, str(CHILD), str(part), *names]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(part)
        raise RuntimeError(f"the exports of {python} ended: {done.stderr[-2000:]}")
    part.rename(root)


def page(found: Exports) -> Iterator[str]:
    """A table with a row for each network: what torch wrote, and where opshift brought it."""
    wishes = ("torch_dynamo", f"torch_dynamo{ASKED}", "torch_script", f"torch_script{ASKED}")
    yield f"## What torch {found.version} wrote"
    yield ""
    yield (
        f"| network | torch | torch, asked for {ASKED} | TorchScript | TorchScript, asked for"
        f" {ASKED} | opshift from torch to {ASKED} | opshift from TorchScript to {ASKED} |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name in [one.removeprefix("torch_dynamo_") for one in found.told]:
        if f"torch_dynamo_{name}" not in found.told:
            continue
        cells = [str(found.told[f"{wish}_{name}"].get("opset", "none")) for wish in wishes]
        cells += [_converted(found, f"{wish}_{name}") for wish in ("torch_dynamo", "torch_script")]
        yield f"| {name} | {' | '.join(cells)} |"


def _converted(found: Exports, name: str) -> str:
    """The opset of an export that opshift converted."""
    if "opset" not in found.told[name]:
        return "-"
    model = onnx.load(found.root / name / "model.onnx")
    try:
        result = opshift.convert_version(model, ASKED)
    except opshift.Refused as refused:
        return f"refused: {refused.refusals[0].why.name}"
    return str(next(one.version for one in result.opset_import if not one.domain))

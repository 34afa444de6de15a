# SPDX-License-Identifier: Apache-2.0
"""Finds out what the conversion of one model to one version is worth."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools.corpus.conversion_child import check, convert, execute
from tools.corpus.model import Model, ModelVerdict, Settings, Status
from tools.corpus.same_results import Arrays, difference
from tools.lib import children

REJECTIONS = ("InvalidModel", "BadTarget")
ENGINE_GAPS = ("NotImplemented", "MemoryError", "nobody can judge", "Refused")


def judge(model: Model, target: int, settings: Settings) -> ModelVerdict:
    """Convert one model to one version and find out what the result is worth."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        src = _with_its_data(model, Path(folder))
        dst = Path(folder, "converted.onnx")
        outcome = _child(settings, convert, settings.converter, str(src), str(dst), target)
        if not outcome.ok:
            status = Status.REJECTED if outcome.error in REJECTIONS else Status.CRASHED
            return ModelVerdict(model.id, target, status, str(outcome))
        if outcome.value:
            return ModelVerdict(model.id, target, Status.REFUSED, refusals=outcome.value)
        if told := _rejected_by_checker(model, dst, settings):
            return ModelVerdict(model.id, target, Status.INVALID, told, "checker")
        status, detail, engine = _verify(model, dst, settings)
        return ModelVerdict(model.id, target, status, detail, engine)


def _child(settings: Settings, task: Any, *args: Any) -> children.CallOutcome:
    return children.run(task, *args, seconds=settings.seconds, megabytes=settings.megabytes)


def _with_its_data(model: Model, folder: Path) -> Path:
    """External data is found beside a model, so the result has to lie where the data does."""
    others = [p for p in model.folder.iterdir() if p.suffix not in (".onnx", ".npz", ".json")]
    if not others:
        return model.path
    for path in (model.path, *others):
        shutil.copyfile(path, folder / path.name)
    return folder / model.path.name


def _rejected_by_checker(model: Model, converted: Path, settings: Settings) -> str:
    """What the checker says; where it rejects the original too, only its weaker form counts."""
    for full in (True, False):
        outcome = _child(settings, check, str(converted), full)
        if outcome.ok:
            return ""
        if _child(settings, check, str(model.path), full).ok:
            return str(outcome)
    return ""


Finding = tuple[Status, str, str]


def _verify(model: Model, converted: Path, settings: Settings) -> Finding:
    """Run the result on the first engine that can, and compare."""
    if not model.sets():
        return Status.UNVERIFIED, "no expected outputs", ""
    if model.run.get("deterministic") is False:
        return Status.UNVERIFIED, "the original is not deterministic", ""
    notes = []
    for engine in _engines(converted, settings.newest):
        for inputs, expected in model.sets():
            finding = _run_and_compare(model, converted, engine, inputs, expected, settings)
            if finding[0] is not Status.EQUAL:
                break
        if finding[0] is not Status.UNVERIFIED:
            return finding
        notes.append(f"{engine}: {finding[1]}")
    return Status.UNVERIFIED, "; ".join(notes), ""


def _engines(path: Path, newest: tuple[int, int]) -> Sequence[str]:
    """onnxruntime where it knows the model's versions; else our judge, then there and back."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    opset = max((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), default=1)
    if opset <= newest[0] and model.ir_version <= newest[1]:
        return ("onnxruntime", "judge")
    return ("judge", "round trip")


def _run_and_compare(
    model: Model, converted: Path, engine: str, inputs: Path, expected: Path, settings: Settings
) -> Finding:
    """Hold the result against what was expected and, if it differs, against the original here."""
    with np.load(expected) as arrays:
        wanted = {name: arrays[name] for name in arrays.files}
    slack = model.slack
    ours = _child(settings, execute, engine, str(converted), str(inputs))
    told = difference(ours.value, wanted, slack) if ours.ok else ""
    if ours.ok and not told:
        return Status.EQUAL, "", engine
    original = _child(settings, execute, engine, str(model.path), str(inputs))
    if ours.ok:
        return _explain(told, ours.value, original, wanted, slack, engine)
    gap = ours.status == "timeout" or any(words in str(ours) for words in ENGINE_GAPS)
    if gap or not original.ok:
        runs = " (the original runs here)" if original.ok else ""
        return Status.UNVERIFIED, f"{ours}{runs}", engine
    status = Status.CRASHED if ours.status == "crashed" else Status.INVALID
    return status, str(ours), engine


def _explain(
    told: str,
    ours: Arrays,
    original: children.CallOutcome,
    wanted: Arrays,
    slack: float,
    engine: str,
) -> Finding:
    """Tell a difference of engines from a difference of ours."""
    if not original.ok:
        return Status.WRONG, f"{told} (the original does not run here: {original})", engine
    if not difference(ours, original.value, slack):
        return Status.EQUAL, f"engine difference: {told}", engine
    off = difference(original.value, wanted, slack)
    return Status.WRONG, f"{told}" + (f" (the original here: {off})" if off else ""), engine

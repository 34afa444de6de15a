# SPDX-License-Identifier: Apache-2.0
"""Times models and their conversions by turns in onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import opshift

ROUNDS = 40  # the fastest of the rounds counts: what else the machine does only adds time
TRIALS = 5
Feed = Mapping[str, Any]


@dataclass(frozen=True)
class Speed:
    """The seconds of one run of a model as it came and of its conversion."""

    model: str
    target: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before


def speeds(folders: Sequence[Path], targets: Sequence[int], seconds: float) -> Iterator[Speed]:
    """Every model that onnxruntime runs, beside its conversions that changed and that it runs."""
    for folder in folders:
        feed = _feed(folder)
        model = onnx.load(folder / "model.onnx")
        before = _runner(model.SerializeToString(), feed)
        if before is None:
            continue
        after = {}
        for target in targets:
            run = _converted(model, target, feed)
            if run is not None:
                after[target] = run
        if after:
            best = _fastest([before, *after.values()], seconds)
            for target, lasted in zip(after, best[1:], strict=True):
                yield Speed(folder.name, target, best[0], lasted)


def _feed(folder: Path) -> Feed:
    path = folder / "inputs.npz"
    if not path.exists():
        return {}
    with np.load(path) as arrays:
        loaded = {name: arrays[name] for name in arrays.files}
    return {name: a.astype(object) if a.dtype.kind == "U" else a for name, a in loaded.items()}


def _converted(model: onnx.ModelProto, target: int, feed: Feed) -> Callable[[], object] | None:
    try:
        result = opshift.convert(model, target)
    except opshift.OpshiftError:
        return None
    if not any(step.rewritten for step in result.report.steps):
        return None  # the nodes are those of the source
    return _runner(result.model.SerializeToString(), feed)


def _runner(content: bytes, feed: Feed) -> Callable[[], object] | None:
    """One run in a session of its own; None if onnxruntime does not load or run the model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    errors = tuple(vars(ort.capi.onnxruntime_pybind11_state)[name] for name in _ERRORS)
    try:
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        session.run(None, feed)
    except (*errors, RuntimeError, ValueError):
        return None
    return lambda: session.run(None, feed)


_ERRORS = ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented", "RuntimeException")


def _fastest(runs: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """The time of one run of each, all of them by turns, from the fastest round."""
    counts = [_count(run, seconds / ROUNDS) for run in runs]
    best = [float("inf")] * len(runs)
    for _ in range(ROUNDS):
        for i, (run, count) in enumerate(zip(runs, counts, strict=True)):
            best[i] = min(best[i], _lasted(run, count) / count)
    return best


def _count(run: Callable[[], object], seconds: float) -> int:
    """How many runs fill that time; one interrupted run must not give too small a number."""
    lasted = min(_lasted(run, 1) for _ in range(TRIALS))
    return max(1, min(2000, int(seconds / max(lasted, 1e-7))))


def _lasted(run: Callable[[], object], count: int) -> float:
    """The time of this thread alone: other processes on the machine add none."""
    start = time.thread_time()
    for _ in range(count):
        run()
    return time.thread_time() - start

# SPDX-License-Identifier: Apache-2.0
"""Measures which version numbers a runtime reads: opsets and IR versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from opshift import versions
from opshift.child_task import Limits
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.testing.models import parsed
from opshift.verify.other_runtime import RAN, OtherRuntime

HIGHEST = {"": 30, versions.ML: 7, "ir": 15}  # higher than in any release of onnx
X = {"x": np.array([[-1.5, 2.0]], np.float32)}
GRAPHS = {
    "": "(float[1, 2] x) => (float[1, 2] y) { y = Relu(x) }",
    versions.ML: "(float[1, 2] x) => (float[1, 2] y)"
    " { y = ai.onnx.ml.Scaler<offset = [1.0], scale = [2.0]>(x) }",
}


@dataclass(frozen=True, slots=True)
class Stamps:
    """The lowest and highest opsets and the highest IR version; None if no limit was found."""

    lowest: int | None = None
    highest: int | None = None
    ml: int | None = None
    ir: int | None = None


def measure(runtime: OtherRuntime, limits: Limits) -> Stamps:
    """Loads a model at each version number; the highest number that loads becomes the limit."""
    read = _read(runtime, limits)
    opsets, mls, irs = (read[what] for what in ("", versions.ML, "ir"))
    return Stamps(
        min(opsets) if opsets and min(opsets) > 1 else None,
        _limit(opsets, HIGHEST[""]), _limit(mls, HIGHEST[versions.ML]),
        _limit(irs, HIGHEST["ir"]),
    )  # fmt: skip


def _limit(numbers: set[int], highest: int) -> int | None:
    return max(numbers) if numbers and max(numbers) < highest else None


def _read(runtime: OtherRuntime, limits: Limits) -> Mapping[str, set[int]]:
    """Returns the numbers at which a model runs."""
    models_to_run = list(_models())
    answers = runtime.run_models([(model, X) for _, _, model in models_to_run], limits)
    numbers: dict[str, set[int]] = {what: set() for what in HIGHEST}
    for (what, number, _), answer in zip(models_to_run, answers, strict=True):
        if answer.outcome == RAN:
            numbers[what].add(number)
    return numbers


def _models() -> Iterator[tuple[str, int, ModelProto]]:
    """Yields a model for each version number; its other version numbers are as low as possible."""
    for domain, graph in GRAPHS.items():
        for number in range(1, HIGHEST[domain] + 1):
            base_import = '"" : 9, ' if domain else ""
            header = f'<ir_version: 4, opset_import: [{base_import}"{domain}" : {number}]>'
            yield domain, number, parsed(f"{header} probe {graph}")
    for number in range(3, HIGHEST["ir"] + 1):
        header = f'<ir_version: {number}, opset_import: ["" : 9]>'
        yield "ir", number, parsed(f"{header} probe {GRAPHS['']}")

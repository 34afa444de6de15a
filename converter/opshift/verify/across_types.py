# SPDX-License-Identifier: Apache-2.0
"""Compares models of different element types, also with the first model computed in double."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opshift.convert.api import convert_file
from opshift.errors import OpshiftError
from opshift.records import dataclass
from opshift.verify.cases import InputSet
from opshift.verify.common_type import fitted
from opshift.verify.oracle.values import is_float
from opshift.verify.pair import Pair, answers
from opshift.verify.subject import Subject, opened
from opshift.verify.tolerance import BY_TYPE, EXACT
from opshift.verify.verification import DIFFERENT, EQUAL, Row

if TYPE_CHECKING:
    from opshift.verify.engine_runs import Results

# Two conversions that make all floating-point types double: small types to float, then float.
TO_DOUBLE = ({"bfloat16": "float", "float16": "float", "float8*": "float"}, {"float": "double"})


@dataclass(frozen=True, slots=True)
class Distances:
    """Notes on the distances of outputs from double, and the outputs that only rounding changes."""

    notes: tuple[str, ...]
    rounded: Mapping[str, str] = field(default_factory=dict)

    def judged(self, row: Row) -> Row:
        """Returns the comparison of an output, with outcome "equal" if only rounding changes it."""
        if row.outcome != DIFFERENT or row.output not in self.rounded:
            return row
        return replace(row, outcome=EQUAL, detail=f"{self.rounded[row.output]}: {row.detail}")


def distances(
    pair: Pair,
    engine: str,
    cases: Sequence[InputSet],
    both: tuple[Results, Results],
    names: Sequence[tuple[str, str]],
    folder: Path,
) -> Distances:
    """Measures how far the outputs of both models are from double, and from each other."""
    try:
        exact = _in_double(pair, folder)
    except OpshiftError as error:
        why = str(error).splitlines()[0]
        return Distances((f"the model was not computed in double: {why}",))
    fed = [InputSet(case.label, fitted(case.values, exact.model)) for case in cases]
    side, results = answers(pair, exact, engine, "", fed)
    largest: dict[str, list[float]] = {}
    for (expected, failed), (before, first), (after, second) in zip(results, *both, strict=True):
        if failed or first or second:
            continue
        for mine, other in names:
            values = (before[mine], after[other], expected.get(mine))
            if all(isinstance(value, np.ndarray) and is_float(value.dtype) for value in values):
                old, new, wide = (np.asarray(value).astype(np.float64) for value in values)
                pairs = ((old, wide), (new, wide), (old, new))
                three = [_distance(*two, wide) for two in pairs]
                before_this = largest.get(mine, [0.0, 0.0, 0.0])
                largest[mine] = [max(each) for each in zip(before_this, three, strict=True)]
    if not largest:
        return Distances(
            ("the model has no result in double, so the distance from double is not known",)
        )
    notes = (
        f"{name!r}, relative to its largest number: A is {source:.2g} from the result in double by"
        f" {side.engine}, B is {result:.2g} from it, and A and B are {apart:.2g} apart"
        for name, (source, result, apart) in largest.items()
    )
    rounded = {
        name: why for name, three in largest.items() if (why := _rounded(pair, name, three))
    }  # fmt: skip
    return Distances(tuple(notes), rounded)


def _rounded(pair: Pair, name: str, three: Sequence[float]) -> str:
    """Returns "A is nearer to double" (or B) if only rounding explains a difference; else ""."""
    source, result, apart = three
    before, after = (BY_TYPE.get(kind, EXACT).rtol for kind in pair.computed_in(name))
    nearer, far = ("A", result >= source) if before < after else ("B", result <= source)
    explained = far and apart <= max(before, after)
    return f"{nearer} is nearer to the result in double" if explained else ""


def _in_double(pair: Pair, folder: Path) -> Subject:
    """Returns the first model with all floating-point types changed to double."""
    source = os.fspath(pair.a.path)
    for number, types in enumerate(TO_DOUBLE):
        path = os.path.join(folder, f"double{number}.onnx")
        convert_file(source, path, types=types, external="one-file", check="none")
        source = path
    return opened(source, folder, "double", pair.adapters)


def _distance(first: Any, second: Any, exact: Any) -> float:
    """Returns the largest difference of two arrays, relative to the largest exact number."""
    if first.shape != second.shape or first.shape != exact.shape or not first.size:
        return 0.0
    largest = float(np.max(np.abs(exact), initial=0, where=np.isfinite(exact))) or 1.0
    apart = np.abs(first - second)
    return float(np.max(apart, initial=0, where=np.isfinite(apart))) / largest

# SPDX-License-Identifier: Apache-2.0
"""The work of each verb grows with the elements of a model and not with their square.

The suite counts calls of functions in small models. In depth, `OPSHIFT_GROWTH` is the number of
elements of the largest model, and the CPU time counts, which the C++ code of onnx shares:

    OPSHIFT_GROWTH=20000 pytest -s tests/laws/test_growth.py -k 'cpu_time and nested'
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import os
import sys
import time
from collections.abc import Callable
from types import FrameType

import opshift
import pytest
from growth_families import FAMILIES, LOWERED, TARGET
from onnx import ModelProto, checker
from opshift import child_task
from opshift.model.document import Document
from opshift.opsets import schemas

SIZES = (12, 24, 48)
# A search for constants that nests more than 24 times begins once more, at these sizes in each step.
LONGER = {"arithmetic of shapes": (36, 72, 144)}
FEWER = (5, 10, 20)  # elements that cost as much as a hundred others
MOST = (
    2.35  # twice the elements more: work that grows with n needs twice as much, with n * n 4 times
)
DEPTH = int(os.environ.get("OPSHIFT_GROWTH", "0"))
SURVEYED = "onnxruntime" if DEPTH else "opencv"  # 28 releases and 5
VERBS: dict[str, Callable[[ModelProto, int], object]] = {
    "convert": opshift.convert_version,
    "plan": opshift.plan,
    "check": lambda model, target: opshift.check(model),
    "targets": lambda model, target: opshift.survey(model, [SURVEYED]),
    "accepts": lambda model, target: opshift.accepts(model, "onnxruntime==1.10"),
    "lowest": lambda model, target: opshift.lowest_versions(model),
    "info": lambda model, target: opshift.info(model),
    "diff": lambda model, target: opshift.diff(model, twin(model)),
    "modernize": lambda model, target: opshift.convert_version(model, target, modernize=True),
    "types": lambda model, target: opshift.convert_version(
        model, target, types={"float": "float16"}
    ),
    "shapes": lambda model, target: opshift.convert_version(model, target, shape={"x": (2, 3)}),
}
INVALID = (
    "nodes in the wrong order", "nodes in a cycle", "nodes that block", "functions in a circle",
)  # fmt: skip
LARGEST_EXPONENT = 1.15
SHORT, PATIENCE = 5.0, 15.0  # seconds of CPU for a call that is repeated, and before larger models


@pytest.fixture(autouse=True)
def no_child_runs_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for large values starts a process for each type; other tests check it."""
    answer = child_task.ChildAnswer(error="not run")
    monkeypatch.setattr(child_task, "run", lambda *_, **__: answer)


def twin(model: ModelProto) -> ModelProto:
    """A copy of a model with another IR version."""
    copy = ModelProto.FromString(model.SerializeToString())
    copy.ir_version += 1
    return copy


def calls_in(act: Callable[[ModelProto], object], model: ModelProto) -> int:
    """The number of functions that Python calls, which does not depend on the machine."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        with contextlib.suppress(opshift.OpshiftError):
            act(model)
    finally:
        sys.setprofile(before)
    return count


def growth_of(
    act: Callable[[ModelProto], object],
    make: Callable[[int], ModelProto],
    sizes: tuple[int, int, int] = SIZES,
) -> float:
    """How many times more work the second step of the sizes adds than the first one."""
    for _ in range(2):  # the imports, and then what a first conversion stores for later ones
        calls_in(act, make(sizes[0] // 4))
    small, middle, large = (calls_in(act, make(size)) for size in sizes)
    # A few calls more, such as those of the first use of a cache, are not growth.
    return (large - middle) / max(middle - small, 10 * sizes[0])


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in LOWERED])
def test_work_is_linear(family: str, verb: str) -> None:
    sizes = LONGER.get(family, SIZES)
    assert growth_of(lambda model: VERBS[verb](model, TARGET), FAMILIES[family], sizes) < MOST


@pytest.mark.parametrize("family", LOWERED)
def test_work_of_a_lowered_model_is_linear(family: str) -> None:
    def convert(model: ModelProto) -> object:
        return opshift.convert_version(model, LOWERED[family])

    assert growth_of(convert, FAMILIES[family], FEWER) < MOST


@pytest.mark.parametrize("family", ["nodes with graphs", "nodes with loops"])
def test_a_change_of_types_passes_over_each_value_once(family: str) -> None:
    """Counts executed lines, because a loop without calls does not show in the number of calls."""

    def lines(model: ModelProto) -> int:
        count = 0

        def traced(frame: FrameType, event: str, _: object) -> object:
            nonlocal count
            count += event == "line"
            return traced if "requests" in frame.f_code.co_filename else None

        before = sys.gettrace()
        sys.settrace(traced)
        try:
            VERBS["types"](model, TARGET)
        finally:
            sys.settrace(before)
        return count

    small, middle, large = (lines(FAMILIES[family](size)) for size in SIZES)
    assert (large - middle) / (middle - small) < MOST


def test_each_function_is_looked_at_once_for_its_readers() -> None:
    def readers(model: ModelProto) -> None:
        document = Document(model)
        for root in document.roots:
            assert root in document.names.family(root)
            document.names.count((root.top, "a"), root)

    sizes = 100, 200, 400
    assert growth_of(readers, FAMILIES["functions beside each other"], sizes) < MOST


@pytest.mark.skipif(not DEPTH, reason="OPSHIFT_GROWTH is not set")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("family", FAMILIES)
def test_cpu_time_is_linear(family: str, verb: str) -> None:
    """Between models with a quarter of the elements and with all; a slow family ends earlier."""
    target = LOWERED.get(family, TARGET)
    seconds_of(VERBS[verb], FAMILIES[family](DEPTH >> 8), target)  # the imports and the records
    times: dict[int, float] = {}
    for size in (DEPTH >> i for i in range(8, -1, -2)):
        times[size] = seconds_of(VERBS[verb], FAMILIES[family](size), target)
        if times[size] > PATIENCE:
            break
    (small, before), (large, last) = [*itertools.pairwise(times.items())][-1]
    exponent = math.log(last / before) / math.log(large / small)
    row = "  ".join(f"{size:,}: {seconds:.2f} s" for size, seconds in times.items())
    print(f"{family:34} {verb:8} {exponent:5.2f}   {row}")
    assert exponent <= LARGEST_EXPONENT


def seconds_of(act: Callable[[ModelProto, int], object], model: ModelProto, target: int) -> float:
    """Returns the CPU time of a call that may be refused; the least of three short calls."""
    found = math.inf
    for _ in range(3):
        gc.collect()
        began = time.process_time()
        with contextlib.suppress(opshift.OpshiftError):
            act(model, target)
        found = min(found, time.process_time() - began)
        if found > SHORT:
            break
    return found


def test_work_that_is_not_linear_is_seen() -> None:
    def quadratic(model: ModelProto) -> None:
        names = [node.name for node in model.graph.node]
        for _ in names:
            for name in names:
                name.strip()

    assert growth_of(quadratic, FAMILIES["nodes in a chain"]) > MOST


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_legal_models(family: str) -> None:
    """Only a legal model shows the cost of every step."""
    made = FAMILIES[family](120)
    if family == "functions in a circle" and (schemas.latest("") or 0) < 23:
        pytest.skip("the checker of onnx 1.17 accepts a function that calls itself")
    if family in INVALID:
        with pytest.raises(checker.ValidationError):
            checker.check_model(made)
    else:
        checker.check_model(made, full_check=True)
    assert len(FAMILIES) >= 20

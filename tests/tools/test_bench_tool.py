# SPDX-License-Identifier: Apache-2.0
"""The workloads are legal models, and the table shows the measured numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

from tools.bench import bench_engines, workloads
from tools.bench import benchmark as bench_case
from tools.bench import run as bench
from tools.bench import table as bench_table
from tools.bench.benchmark import Benchmark, Goal, Measurement


@pytest.mark.parametrize(
    ("build", "opset"),
    [(workloads.transformer, opset) for opset in (7, 11, 13, 18, 21)]
    + [(workloads.layers, opset) for opset in (11, 21)]
    + [(workloads.quantized, opset) for opset in (13, 21)]
    + [(workloads.nested, opset) for opset in (11, 13)],
)
def test_workloads_are_legal(build: Callable[[int, int], Any], opset: int) -> None:
    onnx.checker.check_model(build(opset, 60), full_check=True)


def test_weights_lie_in_the_file_or_beside_it(tmp_path: Path) -> None:
    for workload, beside in (("W1", False), ("W2", True)):
        bench_engines.generate(
            Benchmark(workload, "", "file", 11, 21, 24), str(tmp_path / workload)
        )
        data = tmp_path / workload / "m.data"
        assert data.exists() is beside
        weights = data if beside else tmp_path / workload / "m.onnx"
        assert 20 < weights.stat().st_size / workloads.MIB < 28
        onnx.checker.check_model(tmp_path / workload / "m.onnx", full_check=True)


def test_real_models_of_the_wanted_size_are_copied(tmp_path: Path) -> None:
    for name, nodes, opset in (("small", 2, 13), ("large", 60, 13), ("at_target", 2, 18)):
        (tmp_path / "corpus" / name).mkdir(parents=True)
        model = workloads.layers(opset, nodes)
        onnx.save(model, tmp_path / "corpus" / name / "model.onnx")
    for least, most, count in ((1, 40, 1), (41, 100, 1), (1, 100, 2)):
        case = Benchmark(
            "R", "", "memory", 0, 18, least, corpus=str(tmp_path / "corpus"), most=most
        )
        bench_engines.generate(case, str(tmp_path / case.name))
        assert len(list((tmp_path / case.name).iterdir())) == count


def test_one_measurement(tmp_path: Path) -> None:
    """Each engine is measured in its own process."""
    case = Benchmark("W3", "few nodes", "memory", 13, 18, 100)
    _, by = bench.run_case(case, tmp_path, repeats=1, limit=60)
    for measured in by.values():
        assert measured.done
        assert measured.note == ""
        assert measured.peak_mb >= measured.base_mb > 0


@pytest.mark.parametrize("build", [workloads.transformer, workloads.layers, workloads.quantized])
def test_the_weights_of_a_workload_differ(build: Callable[[int, int], Any]) -> None:
    """With equal weights, an engine that caches values would be too fast."""
    tensors = [
        tensor
        for tensor in build(13, 60).graph.initializer
        if tensor.dims and len(tensor.raw_data) > 8
    ]
    assert len({tensor.raw_data for tensor in tensors}) == len(tensors)


def row(goal: Goal, size: int = 10, **by: Measurement) -> bench_case.Row:
    """A row of W3 with those measurements; cpp stands for C++."""
    case = Benchmark("W3", f"{size} nodes", "memory", 13, 18, size, goal)
    return case, {"C++" if name == "cpp" else name: measured for name, measured in by.items()}


DONE, SLOW = Measurement(1.0, 1.0, 50.0), Measurement(10.0, 10.0, 50.0)
BOUND = Measurement(3.0, 3.0, note="not finished in 3 s", bound=True)
FAILED = Measurement(note="Refused: no")


@pytest.mark.parametrize(
    ("goal", "by", "met"),
    [
        (Goal(cpu_of_cpp=0.25), {"opshift": DONE, "cpp": SLOW}, "yes"),
        (Goal(cpu_of_cpp=0.05), {"opshift": DONE, "cpp": SLOW}, "**no**"),
        (Goal(cpu_of_cpp=0.5), {"opshift": DONE, "cpp": BOUND}, "yes"),
        (Goal(cpu_of_cpp=0.25), {"opshift": DONE, "cpp": BOUND}, "open"),
        (Goal(cpu_of_cpp=0.25), {"opshift": DONE, "cpp": FAILED}, "open"),
        (Goal(cpu_of_cpp=0.25), {"opshift": FAILED, "cpp": SLOW}, "**no**"),
        (Goal(cpu_of_cpp=0.25), {"opshift": BOUND, "cpp": SLOW}, "**no**"),
        (Goal(within_two_cp=True), {"opshift": DONE, "cpp": SLOW, "cp": DONE}, "yes"),
        (Goal(within_two_cp=True), {"opshift": SLOW, "cpp": SLOW, "cp": DONE}, "**no**"),
        (Goal(peak_mb=40), {"opshift": DONE, "cpp": SLOW}, "**no**"),
        (Goal(), {"opshift": DONE, "cpp": SLOW}, "-"),
    ],
)
def test_targets(goal: Goal, by: dict[str, Measurement], met: str) -> None:
    case, engines = row(goal, **by)
    assert bench_table.verdict(case, engines)[1] == met


def test_the_table_marks_bounds_and_gathers_notes() -> None:
    rows = [row(Goal(), opshift=DONE, cpp=BOUND), row(Goal(), opshift=FAILED, cpp=BOUND)]
    lines = bench_table.table(rows).splitlines()
    assert "| > 3 | > 3 | - | - | < 0.333 |" in lines[2]
    assert "| failed | - | - |" in lines[3]
    message = "W3 10 nodes 13 → 18"
    assert lines[5] == f"* C++: not finished in 3 s ({message}; {message})"
    assert lines[6] == f"* opshift: Refused: no ({message})"


def test_growth_ignores_what_did_not_finish() -> None:
    rows = [
        row(Goal(), 10, opshift=DONE, cpp=DONE),
        row(Goal(), 50, opshift=FAILED, cpp=SLOW),
        row(Goal(), 100, opshift=SLOW, cpp=BOUND),
    ]
    line = bench_table.growth(rows).splitlines()[-1]
    assert line == "| 13 → 18 | 1.00 (10 to 100) | 1.43 (10 to 50) | ≤ 1.1 | yes |"

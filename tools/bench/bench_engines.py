# SPDX-License-Identifier: Apache-2.0
"""Defines the engines that are measured, each in a child process of its own."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.bench.benchmark import Benchmark, Measurement, short
from tools.bench.workloads import layers, nested, quantized, transformer, weighty

Work = Callable[[], Any]


def generate(case: Benchmark, folder: str) -> None:
    """Writes the models of a benchmark to a folder."""
    import onnx

    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    if case.corpus:
        _copy_real(case, where)
        return
    if case.workload == "W5":
        for i in range(case.size):
            build = nested if i % 5 == 4 else layers
            onnx.save(build(case.source, 1 + 7 * (i % 10)), where / f"m{i:03}.onnx")
        return
    builds: dict[str, Callable[[int, int], Any]] = {
        "W1": weighty,
        "W2": lambda opset, size: weighty(opset, size, str(where / "m.data")),
        "W3=": lambda opset, size: transformer(opset, size, equal=True),
        "W4": nested,
        "W7": quantized,
    }
    model = builds.get(case.workload, transformer)(case.source, case.size)
    (where / "m.onnx").write_bytes(model.SerializeToString())


def _copy_real(case: Benchmark, where: Path) -> None:
    """Copies the models of a corpus that have the right size and that both converters convert."""
    import onnx
    from onnx import version_converter
    from opshift import convert_version
    from opshift.model import walk

    for number, path in enumerate(sorted(Path(case.corpus).glob("*/model.onnx"))):
        model = onnx.load(path, load_external_data=False)
        old = {opset.version for opset in model.opset_import if not opset.domain} != {case.target}
        if old and case.size <= sum(1 for _ in walk.nodes(model)) <= case.most:
            with contextlib.suppress(Exception):  # the C++ converter raises errors of many kinds
                convert_version(model, case.target)
                version_converter.convert_version(model, case.target)
                onnx.save(model, where / f"m{number:03}.onnx")


def opshift_engine(case: Benchmark, folder: Path) -> Work:
    """Calls the public API with its default checks, as a user does."""
    from opshift import convert_file, convert_version

    if case.mode == "file":
        return lambda: convert_file(folder / "m.onnx", folder / "out.onnx", case.target)
    models = _loaded(folder)
    return lambda: [convert_version(model, case.target) for model in models]


def cpp_engine(case: Benchmark, folder: Path) -> Work:
    """Calls onnx.version_converter; for `steps`, step by step with the checker."""
    import onnx
    from onnx.version_converter import convert_version

    def file_to_file() -> None:
        model = onnx.load(folder / "m.onnx", load_external_data=False)
        onnx.save(convert_version(model, case.target), folder / "out.onnx")

    def steps(model: Any) -> Any:
        for version in range(case.source + 1, case.target + 1):
            model = convert_version(model, version)
            onnx.checker.check_model(model)
        return model

    if case.mode == "file":
        return file_to_file
    models = _loaded(folder)
    if case.mode == "steps":
        return lambda: [steps(model) for model in models]
    return lambda: [convert_version(model, case.target) for model in models]


def checks_engine(case: Benchmark, folder: Path) -> Work:
    """Runs onnx's checker on the source and its full check on the result, as a comparison."""
    import onnx
    from opshift import convert_version

    came = _loaded(folder)
    goes = [convert_version(model, case.target, check=False) for model in came]
    before = [model.SerializeToString() for model in came]
    after = [model.SerializeToString() for model in goes]

    def check() -> None:
        for text in before:
            onnx.checker.check_model(text)
        for text in after:
            onnx.checker.check_model(text, full_check=True)

    return check


def cp_engine(case: Benchmark, folder: Path) -> Work:
    """Copies the model's files with `cp`, as a comparison."""
    files = [str(path) for path in (folder / "m.onnx", folder / "m.data") if path.exists()]
    (folder / "copy").mkdir(exist_ok=True)
    return lambda: subprocess.run(["cp", *files, str(folder / "copy")], check=True)


ENGINES = {
    "opshift": opshift_engine,
    "C++": cpp_engine,
    "checks": checks_engine,
    "cp": cp_engine,
}


def _loaded(folder: Path) -> list[Any]:
    import onnx

    paths = sorted(folder.glob("m*.onnx"))
    return [onnx.load(path, load_external_data=False) for path in paths]


def measure(engine: str, case: Benchmark, folder: str, verify: bool) -> Measurement:
    """Runs one engine once, and measures only its work."""
    imports = _warm(engine)
    work = ENGINES[engine](case, Path(folder))
    os.sync()
    base = _reset_peak()
    wall, cpu = time.perf_counter(), _cpu()
    result = work()
    wall, cpu = time.perf_counter() - wall, _cpu() - cpu
    peak = _memory("VmHWM")
    converts = engine in ("opshift", "C++")
    note = _flaw(result, case, Path(folder)) if verify and converts else ""
    later = _cpu()
    if case.mode == "memory":
        work()
    return Measurement(cpu, wall, peak, imports, base, note, later=_cpu() - later)


def _warm(engine: str) -> float:
    """Imports the engine and converts a small model; returns the seconds of the imports."""
    start = time.perf_counter()
    if engine == "cp":
        return 0.0
    name = "onnx.version_converter" if engine == "C++" else "opshift"
    convert_version = importlib.import_module(name).convert_version
    imported = time.perf_counter() - start
    convert_version(transformer(13, 1), 18)
    return imported


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def _reset_peak() -> float:
    """Resets the peak of memory to the current resident size."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(key: str) -> float:
    match = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) / 1024 if match else 0.0


def _flaw(result: Any, case: Benchmark, folder: Path) -> str:
    """Returns the error of onnx's full checker about the first result, shortened."""
    import onnx

    if case.corpus and not result:
        return "the corpus has no such model"
    try:
        if case.mode == "file":
            onnx.checker.check_model(folder / "out.onnx", full_check=True)
            model = onnx.load(folder / "out.onnx", load_external_data=False)
        else:
            model = result[0]
            onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return f"invalid: {short(str(error))}"
    stamped = {i.version for i in model.opset_import if i.domain in ("", "ai.onnx")}
    return "" if stamped == {case.target} else f"stamped {sorted(stamped)}"

"""Measures opshift beside onnx.version_converter and cp on generated models, in one run.

    python tools/bench.py [--only W3 W4] [--scale small] [--repeats 3] [--write docs/performance.md]

Every figure is the median of runs in fresh child processes, one after the other. Imports and a
first tiny conversion happen before the clock starts. Peak memory is the high-water mark of the
resident set while the clock runs, the interpreter and its imports included.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import platform
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import children
from workloads import layers, nested, transformer, weighty

MARKS = BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
Work = Callable[[], Any]


@dataclass(frozen=True)
class Goal:
    """What a row has to reach; None is not asked for."""

    cpu_of_cpp: float | None = None
    within_two_cp: bool = False
    peak_mb: float | None = None


@dataclass(frozen=True)
class Case:
    """One row: how its models are made, what is done to them, what is to be reached."""

    workload: str
    title: str
    mode: str
    source: int
    target: int
    size: int
    goal: Goal = Goal()

    @property
    def name(self) -> str:
        """The name of the folder of its models, shared by the rows that start from the same."""
        return f"{self.workload}-{self.source}-{self.size}"


@dataclass(frozen=True)
class Measurement:
    """One engine on one case."""

    cpu: float = 0.0
    wall: float = 0.0
    peak_mb: float = 0.0
    imports: float = 0.0
    base_mb: float = 0.0
    note: str = ""
    bound: bool = False

    @property
    def done(self) -> bool:
        """Whether there is a time, if only a lower bound."""
        return self.cpu > 0


def generate(case: Case, folder: str) -> None:
    """Write the models of a case."""
    import onnx

    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    if case.workload == "W5":
        for i in range(case.size):
            build = nested if i % 5 == 4 else layers
            onnx.save(build(case.source, 1 + 7 * (i % 10)), where / f"m{i:03}.onnx")
        return
    builds: dict[str, Callable[[int, int], Any]] = {
        "W1": weighty,
        "W2": lambda opset, size: weighty(opset, size, str(where / "m.data")),
        "W4": nested,
    }
    model = builds.get(case.workload, transformer)(case.source, case.size)
    (where / "m.onnx").write_bytes(model.SerializeToString())


# ---------------------------------------------------------------- engines, in the child


def opshift_engine(case: Case, folder: Path) -> Work:
    """The public API as a user calls it, checks on."""
    from opshift import convert_file, convert_version

    if case.mode == "file":
        return lambda: convert_file(folder / "m.onnx", folder / "out.onnx", case.target)
    models = _loaded(folder)
    return lambda: [convert_version(model, case.target) for model in models]


def cpp_engine(case: Case, folder: Path) -> Work:
    """onnx.version_converter, which checks nothing; step by step with the checker for `steps`."""
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


def checks_engine(case: Case, folder: Path) -> Work:
    """Two calls of onnx's checker for each model: of what came, and in full of what goes."""
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


def cp_engine(case: Case, folder: Path) -> Work:
    """The plain copy of the model's files."""
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

    return [onnx.load(path) for path in sorted(folder.glob("m*.onnx"))]


def measure(engine: str, case: Case, folder: str, verify: bool) -> Measurement:
    """Run one engine once, with the clock around nothing but its work."""
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
    return Measurement(cpu, wall, peak, imports, base, note)


def _warm(engine: str) -> float:
    """Import what the engine needs and convert something small; the seconds that took."""
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
    """Let the high-water mark start from what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(key: str) -> float:
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def _flaw(result: Any, case: Case, folder: Path) -> str:
    """What the full checker says of the first result, shortly."""
    import onnx

    try:
        if case.mode == "file":
            onnx.checker.check_model(folder / "out.onnx", full_check=True)
            model = onnx.load(folder / "out.onnx", load_external_data=False)
        else:
            model = result[0]
            onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return f"invalid: {_short(str(error))}"
    stamped = {i.version for i in model.opset_import if i.domain in ("", "ai.onnx")}
    return "" if stamped == {case.target} else f"stamped {sorted(stamped)}"


def _short(text: str, limit: int = 200) -> str:
    line = " ".join(text.replace("|", "/").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


# ---------------------------------------------------------------- the run


def cases(small: bool) -> Iterator[Case]:
    """All rows; `small` is for a quick look and proves nothing."""
    part = 20 if small else 1
    w1, w2 = 1536 // part, 4096 // part
    goal = Goal(within_two_cp=True, peak_mb=100)
    yield Case("W1", f"{w1} MiB of weights in the file", "file", 11, 21, w1, goal)
    yield Case("W2", f"{w2} MiB of external data, kept", "file", 11, 21, w2)
    for source, target in ((11, 21), (13, 18), (21, 13)):
        for nodes in (10_000 // part, 50_000 // part, 200_000 // part):
            goal = Goal(cpu_of_cpp=0.25) if (source, target) == (13, 18) else Goal()
            yield Case("W3", f"{nodes:,} nodes", "memory", source, target, nodes, goal)
    for source, target in ((11, 21), (13, 18)):
        nodes, goal = 2000 // part, Goal(cpu_of_cpp=0.25)
        yield Case("W4", f"{nodes:,} nodes three deep", "memory", source, target, nodes, goal)
    count = 300 // part
    yield Case("W5", f"{count} small models", "memory", 11, 21, count, Goal(cpu_of_cpp=0.15))
    nodes = 10_000 // part
    yield Case("W6", f"{nodes:,} nodes, 21 steps", "steps", 7, 28, nodes, Goal(cpu_of_cpp=0.08))


Row = tuple[Case, dict[str, Measurement]]


def run_case(case: Case, folder: Path, repeats: int, limit: float) -> Row:
    """Generate, then let the engines take turns; an engine that is slow or fails gets one turn."""
    models = folder / case.name
    if not models.exists():
        made = children.run(generate, case, str(models), seconds=900, start="spawn")
        if not made.ok:
            raise SystemExit(f"{case.workload}: {made}\n{made.trace}")
    engines = ["opshift", "C++", "cp" if case.mode == "file" else "checks"]
    taken: dict[str, list[Measurement]] = {engine: [] for engine in engines}
    for turn in range(repeats):
        for engine in engines:
            if turn and not _worth_repeating(taken[engine][0], limit):
                continue
            taken[engine].append(_turn(engine, case, models, limit, verify=turn == 0))
    return case, {engine: _median(runs) for engine, runs in taken.items()}


def _worth_repeating(first: Measurement, limit: float) -> bool:
    return first.done and not first.bound and first.wall < limit / 4


def _turn(engine: str, case: Case, models: Path, limit: float, verify: bool) -> Measurement:
    for old in (models / "out.onnx", models / "copy"):
        subprocess.run(["rm", "-rf", str(old)], check=True)
    args = (engine, case, str(models), verify)
    outcome = children.run(measure, *args, seconds=limit, start="spawn")
    if outcome.ok:
        measured: Measurement = outcome.value
        return measured
    if outcome.status == "timeout":
        return Measurement(
            limit,
            limit,
            note=f"not finished in {limit:g} s, which is taken as its time",
            bound=True,
        )
    return Measurement(note=_short(str(outcome)))


def _median(runs: Sequence[Measurement]) -> Measurement:
    def middle(name: str) -> float:
        return float(statistics.median(getattr(run, name) for run in runs))

    return replace(
        runs[0],
        cpu=middle("cpu"),
        wall=middle("wall"),
        peak_mb=middle("peak_mb"),
        imports=middle("imports"),
        base_mb=middle("base_mb"),
    )


# ---------------------------------------------------------------- the table


def ratio(ours: Measurement, theirs: Measurement) -> float | None:
    """CPU of ours over theirs; an upper bound when theirs did not finish."""
    return ours.cpu / theirs.cpu if ours.done and not ours.bound and theirs.done else None


def verdict(case: Case, by: dict[str, Measurement]) -> tuple[str, str]:
    """The target of a row in words, and whether it is met: yes, no or open."""
    goal, ours = case.goal, by["opshift"]
    words, met = [], []
    if goal.within_two_cp:
        most = 2 * by["cp"].wall + 0.2
        words.append(f"wall ≤ 2 cp + 0.2 s = {most:.2f}")
        met.append(ours.wall <= most)
    if goal.peak_mb is not None:
        words.append(f"peak ≤ {goal.peak_mb:g} MiB")
        met.append(ours.peak_mb <= goal.peak_mb)
    if goal.cpu_of_cpp is not None:
        words.append(f"CPU ≤ {goal.cpu_of_cpp:g} of C++")
        share = ratio(ours, by["C++"])
        reached = share is not None and share <= goal.cpu_of_cpp
        unknown = share is None or by["C++"].bound
        if not reached and unknown and ours.done and not ours.bound:
            return ", ".join(words), "open"
        met.append(reached)
    if not words:
        return "-", "-"
    return ", ".join(words), "yes" if all(met) and ours.done and not ours.bound else "**no**"


COLUMNS = (
    "workload",
    "conversion",
    "opshift CPU s",
    "wall s",
    "peak MiB",
    "C++ CPU s",
    "wall s",
    "peak MiB",
    "cp wall s",
    "CPU / C++",
    "checks / C++",
    "target",
    "met",
)


def table(rows: Iterable[Row]) -> str:
    """The Markdown table, and the notes that its cells need."""
    lines = [_row(COLUMNS), _row(["---"] * len(COLUMNS))]
    notes: dict[str, list[str]] = {}
    for case, by in rows:
        ours, theirs, copy, checks = by["opshift"], by["C++"], by.get("cp"), by.get("checks")
        name = [f"{case.workload} {case.title}", f"{case.source} → {case.target}"]
        cells = [*_figures(ours), *_figures(theirs), f"{copy.wall:.2f}" if copy else "-"]
        cells += [_share(ours, theirs), _share(checks, theirs), *verdict(case, by)]
        lines.append(_row([*name, *cells]))
        for engine, measured in by.items():
            if measured.note:
                notes.setdefault(f"{engine}: {measured.note}", []).append(" ".join(name))
    told = [f"* {note} ({'; '.join(names)})" for note, names in notes.items()]
    return "\n".join([*lines, "", *told]).rstrip()


def _share(ours: Measurement | None, theirs: Measurement) -> str:
    share = None if ours is None else ratio(ours, theirs)
    return "-" if share is None else f"{'< ' if theirs.bound else ''}{share:.3f}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _figures(m: Measurement) -> list[str]:
    if m.bound:
        return [f"> {m.cpu:g}", f"> {m.wall:g}", "-"]
    return [f"{m.cpu:.2f}", f"{m.wall:.2f}", f"{m.peak_mb:.0f}"] if m.done else ["failed", "-", "-"]


def growth(rows: Iterable[Row]) -> str:
    """How CPU grows with the nodes of W3, as the exponent between its smallest and largest."""
    lines = [_row(["W3", "opshift", "C++", "target", "met"]), _row(["---"] * 5)]
    pairs: dict[tuple[int, int], list[Row]] = {}
    for case, by in rows:
        if case.workload == "W3":
            pairs.setdefault((case.source, case.target), []).append((case, by))
    for (source, target), group in pairs.items():
        ours, span = _exponent(group, "opshift")
        theirs, their_span = _exponent(group, "C++")
        met = "-" if ours is None else "yes" if ours <= 1.1 else "**no**"
        cells = [_exponent_cell(ours, span), _exponent_cell(theirs, their_span)]
        lines.append(_row([f"{source} → {target}", *cells, "≤ 1.1", met]))
    return "\n".join(["Exponent of growth of CPU with the number of nodes:", "", *lines])


def _exponent(group: Sequence[Row], engine: str) -> tuple[float | None, str]:
    seen = [(case.size, by[engine]) for case, by in group]
    points = [(size, m.cpu) for size, m in seen if m.done and not m.bound]
    if len(points) < 2:
        return None, ""
    (n0, t0), (n1, t1) = min(points), max(points)
    return math.log(t1 / t0) / math.log(n1 / n0), f"{n0:,} to {n1:,}"


def _exponent_cell(value: float | None, span: str) -> str:
    return "-" if value is None else f"{value:.2f} ({span})"


def imports_line(rows: Sequence[Row]) -> str:
    """What was done before the clock started."""
    parts = []
    for engine in ("opshift", "C++"):
        seen = [by[engine] for _, by in rows if by[engine].done and not by[engine].bound]
        if seen:
            seconds = statistics.median(m.imports for m in seen)
            resident = statistics.median(m.base_mb for m in seen)
            parts.append(f"{engine} {seconds:.2f} s, {resident:.0f} MiB resident")
    return f"Before the clock starts: imports of {'; '.join(parts) or 'nothing'} (inputs included)."


def machine(command: str) -> str:
    """The command, and what it ran on."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    versions = ", ".join(f"{name} {_version(name)}" for name in ("onnx", "protobuf", "numpy"))
    cpu = found[1] if found else platform.machine()
    return (
        f"`{command}`\n\n{os.cpu_count()} cores of {cpu}, {memory:.0f} GiB; Linux"
        f" {platform.release()}, Python {platform.python_version()}, {versions}."
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "?"


def write_between_marks(path: Path, text: str, marks: tuple[str, str] = MARKS) -> None:
    """Replace the generated part of a page, or start the page."""
    first, last = marks
    page = path.read_text() if path.exists() else f"# Performance\n\n{first}\n{last}\n"
    head, begin, rest = page.partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end:
        raise SystemExit(f"{path} has no {first} ... {last}")
    path.write_text(f"{head}{first}\n{text}\n{last}{tail}")


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    args = _parser().parse_args(argv)
    wanted = [c for c in cases(args.scale == "small") if not args.only or c.workload in args.only]
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=args.dir) as folder:
        for case in wanted:
            print(f"{case.workload} {case.title} {case.source} -> {case.target}", file=sys.stderr)
            rows.append(run_case(case, Path(folder), args.repeats, args.limit))
            if case.workload in ("W1", "W2"):
                subprocess.run(["rm", "-rf", str(Path(folder) / case.name)], check=True)
    given = sys.argv[1:] if argv is None else argv
    parts = [machine(shlex.join(["python", "tools/bench.py", *given])), table(rows)]
    if any(case.workload == "W3" for case, _ in rows):
        parts.append(growth(rows))
    text = "\n\n".join([*parts, imports_line(rows)])
    print(text)
    if args.write:
        write_between_marks(args.write, text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure opshift beside the C++ converter and cp.")
    add = parser.add_argument
    add("--only", nargs="+", default=[], metavar="W", help="workloads W1 to W6")
    add("--scale", choices=["small", "full"], default="full")
    add("--repeats", type=int, default=3)
    add("--limit", type=float, default=120.0, help="seconds one run may take")
    add("--dir", type=Path, help="where the models are written (6 GB)")
    add("--write", type=Path, metavar="FILE", help="replace the table in this page")
    return parser


if __name__ == "__main__":
    sys.exit(main())

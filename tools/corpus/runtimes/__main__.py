# SPDX-License-Identifier: Apache-2.0
"""Converts a corpus for runtimes, runs it there, and prints how many models are right.

    python -m tools.corpus runtimes [--ort 1.10.0 1.4.0 ...] [--runtimes openvino==2026.4.0 ...]
        [--at tvm==0.27=/tvm/bin/python ...] [--search] [--types FROM=TO ...]
        [--corpus FOLDER] [--only GLOB ...] [--json FILE [--resume]]

FOLDER has a folder for each model, with model.onnx, inputs.npz and expected.npz. A result is right
if its error is at most 1e-3 of the largest expected magnitude. A model is not expressible if its
conversion is refused, or if the release has no kernel for an operator or type of the result. With
`--types`, element types are also changed, and a model without expected outputs is right if it
loads. A runtime that cannot be installed is skipped with the reason. Run this tool after a change
to a target, or to an adapter that a target uses; the tests run a sample.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import onnx
import opshift

from tools.lib.program import described

from . import runtime_table
from .install import CACHE, PACKAGES, WEB, Installed, NotHere, install, numbers
from .runner import Runner

LATER = ("1.10.0", "1.17.3")  # if a file is right in these releases, the runtime is at fault
RELEASES = ("0.4.0", "1.2.0", "1.4.0", "1.7.0", "1.10.0", "1.14.1", "1.17.3")


def main() -> int:
    args = _parser().parse_args()
    results = runtime_table.Results()
    if args.json and args.json.exists():
        results.models = json.loads(args.json.read_text())
    folders = _chosen(args.corpus.iterdir(), args.only, numbers_needed=not args.types)
    here = dict(word.split("=/", 1) for word in args.at)
    for asked in [*args.ort, *args.runtimes, *here]:
        name, _, version = asked.rpartition("==")
        try:
            if asked in here:
                runtime = Installed(version, f"/{here[asked]}", "", name)
            else:
                runtime = install(version, args.cache, name or "onnxruntime")
        except NotHere as reason:
            print(f"passed over: {reason}", file=sys.stderr)
            results.passed_over[asked] = str(reason)
            continue
        measured = results.models.setdefault(asked, {})
        rest = [folder for folder in folders if not args.resume or folder.name not in measured]
        for name, outcomes in measure(runtime, args, rest):
            measured[name] = {**outcomes, "by": {"build": opshift.__version__}}
            if args.json:
                _save(results, args.json)
        print(runtime_table.row(asked, results), file=sys.stderr, flush=True)
    results.models = dict(sorted(results.models.items(), key=lambda item: _order(item[0])))
    print(runtime_table.table(results))
    parts = (runtime_table.matrix, runtime_table.failures, runtime_table.searched)
    print("\n".join(["", *(line for part in parts for line in part(results))]))
    return 0


def _chosen(folders: Iterable[Path], only: Collection[str], *, numbers_needed: bool) -> list[Path]:
    """Returns the folders with a model and, if needed, outputs, whose names match."""
    return [
        folder for folder in sorted(folders)
        if (folder / "model.onnx").exists()
        and (not numbers_needed or (folder / "expected.npz").exists())
        and (not only or any(fnmatch.fnmatch(folder.name, glob) for glob in only))
    ]  # fmt: skip


def _save(results: runtime_table.Results, path: Path) -> None:
    """Writes the outcomes in one step, so that an interrupted tool leaves no partial file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(results.models, indent=1, sort_keys=True))
    part.replace(path)


def _order(asked: str) -> tuple[str, tuple[int, ...]]:
    name, _, version = asked.rpartition("==")
    return name, numbers(version)


def measure(
    runtime: Installed, args: argparse.Namespace, folders: Collection[Path]
) -> Iterator[tuple[str, runtime_table.Measured]]:
    """Yields the outcomes of each source model and of its conversion."""
    runner = Runner(runtime)
    with tempfile.TemporaryDirectory(prefix="runtimes-") as scratch:
        tasks = [
            (str(f / "model.onnx"), f"{scratch}/{f.name}.onnx", runtime.target) for f in folders
        ]
        try:
            with ProcessPoolExecutor(args.workers) as pool:
                converted = pool.map(
                    partial(convert, types=dict(kind.split("=") for kind in args.types)), tasks
                )
                for folder, task, outcome in zip(folders, tasks, converted, strict=True):
                    measured = _judged(runner, folder, Path(task[1]), outcome)
                    if args.search:
                        measured["searched"] = _searched(runner, folder, Path(task[1]))
                    if runtime_table.worse(measured):
                        measured["later"] = _later(runtime, args.cache, folder, Path(task[1]))
                    yield folder.name, measured
        finally:
            runner.close()


def _judged(
    runner: Runner, folder: Path, result: Path, outcome: dict[str, str]
) -> runtime_table.Measured:
    original = folder / "model.onnx"
    before = {"answer": outcome.pop("as it came", "")} | runner.judge(original, folder)
    measured = {"before": before, "after": outcome}
    if result.exists():
        measured["after"] = outcome | runner.judge(result, folder)
    if runtime_table.worse(measured):
        measured["stamped"] = runner.judge(_stamped(original, result), folder)
    return measured


def _searched(runner: Runner, folder: Path, result: Path) -> runtime_table.Told:
    """Returns the outcome of `opshift convert --runtime` with this runtime."""
    path = result.with_suffix(".searched.onnx")
    source, runtime = str(folder / "model.onnx"), runner.runtime
    words = [source, "-o", str(path), "--for", runtime.target, "--runtime", runtime.program]
    done = subprocess.run(
        [sys.executable, "-m", "opshift", "convert", *words], capture_output=True, text=True
    )
    if not path.exists():
        return {"outcome": "failed", "why": " ".join(done.stderr.split())[:400]}
    return runner.judge(path, folder)


def _later(runtime: Installed, cache: Path, folder: Path, result: Path) -> dict[str, str]:
    """Returns the outcome in the first later onnxruntime that is right, or in the last one."""
    outcome = {"outcome": "not here", "why": "no later release"}
    for release in LATER:
        if runtime.name == "onnxruntime" and numbers(release) <= numbers(runtime.version):
            continue
        try:
            runner = Runner(install(release, cache))
        except NotHere as reason:
            outcome = {"outcome": "not here", "why": str(reason)}
            continue
        outcome = {**runner.judge(result, folder), "release": release}
        runner.close()
        if outcome["outcome"] == "right":
            break
    return outcome


def _stamped(original: Path, result: Path) -> Path:
    """Writes the source nodes with the version numbers of the result; returns the path."""
    model, read = onnx.load(original), onnx.load(result, load_external_data=False)
    model.ir_version = read.ir_version
    del model.opset_import[:]
    model.opset_import.extend(read.opset_import)
    path = result.with_suffix(".stamped.onnx")
    onnx.save(model, path)
    return path


def convert(task: tuple[str, str, str], types: Mapping[str, str] | None = None) -> dict[str, str]:
    """Writes the converted model; returns its outcome, or the reason if it failed."""
    source, result, target = task
    try:
        outcome = {"as it came": opshift.accepts(source, target).answer}
    except opshift.OpshiftError:
        outcome = {}
    return outcome | _converted(source, result, target, types or {})


def _converted(source: str, result: str, target: str, types: Mapping[str, str]) -> dict[str, str]:
    try:
        report = opshift.convert_file(source, result, target, external="inline", types=types)
    except opshift.Refused as refused:
        first = refused.refusals[0]
        return {"outcome": "refused", "why": str(first), "kind": first.why.name, "op": first.op}
    except opshift.OpshiftError as error:
        return {"outcome": "failed", "why": str(error)[:400], "kind": type(error).__name__}
    assert report.runtime is not None
    return {"outcome": "converted", "answer": report.runtime.answer}


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    default = os.environ.get("OPSHIFT_CORPUS")
    parser.add_argument("--ort", nargs="*", default=RELEASES, metavar="VERSION")
    parser.add_argument("--runtimes", nargs="*", default=[], metavar="NAME==VERSION",
                        help=f"others: {', '.join([*PACKAGES, WEB])}")  # fmt: skip
    parser.add_argument("--at", nargs="*", default=[], metavar="NAME==VERSION=PYTHON",
                        help="runtimes of other Pythons, each with its absolute path")  # fmt: skip
    parser.add_argument("--search", action="store_true",
                        help="also judge a result of convert --runtime")  # fmt: skip
    parser.add_argument("--types", nargs="*", default=[], metavar="FROM=TO",
                        help="changes of element types, as for convert")  # fmt: skip
    parser.add_argument("--corpus", type=Path, default=default, required=default is None)
    parser.add_argument("--only", nargs="*", default=[], metavar="GLOB")
    parser.add_argument("--cache", type=Path, default=CACHE, help="the folder for runtimes")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="the file of outcomes; existing ones are kept")
    parser.add_argument("--resume", action="store_true",
                        help="skip the models in the file of --json")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())

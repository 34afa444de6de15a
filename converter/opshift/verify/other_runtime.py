# SPDX-License-Identifier: Apache-2.0
"""Runs models in a runtime of another Python interpreter, for example on a device."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opshift import child_python
from opshift.child_task import Limits
from opshift.errors import BadTarget
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.verify.engine_runs import Results

GUEST = Path(__file__).with_name("guest.py")
RAN, NOT_RUN, NOT_LOADED = "ran", "not run", "not loaded"
ENDED, TOO_SLOW, NOT_SENT = "ended the process", "too slow", "not sent"
_LOG_TAIL = 4096


@dataclass(frozen=True, slots=True)
class RuntimeJob:
    """A model file, its signature, and the inputs of each case."""

    path: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cases: Sequence[Mapping[str, Any]]

    @staticmethod
    def of(
        model: ModelProto, path: os.PathLike[str], cases: Sequence[Mapping[str, Any]]
    ) -> RuntimeJob:
        """Creates the job of a model; inputs with an initializer are left out."""
        graph = model.graph
        constants = {tensor.name for tensor in graph.initializer}
        inputs = tuple(info.name for info in graph.input if info.name not in constants)
        outputs = tuple(info.name for info in graph.output)
        return RuntimeJob(os.path.abspath(path), inputs, outputs, cases)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a model in a runtime, and outputs or an error message for each case."""

    outcome: str
    results: Results

    @property
    def error(self) -> str:
        """The first error message of a case; empty if every case has outputs."""
        return next((error for _, error in self.results if error), "")


@dataclass(frozen=True, slots=True)
class OtherRuntime:
    """A runtime that another Python interpreter can import."""

    python: str
    name: str
    version: str

    @property
    def target(self) -> str:
        """The runtime in the form of the option `--for`."""
        return f"{self.name}=={self.version}" if self.version else self.name

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip() + f" of {self.python}"

    def run_models(
        self, models: Sequence[tuple[ModelProto, Mapping[str, Any]]], limits: Limits
    ) -> list[Answer]:
        """Runs models that are in memory, each with one set of inputs."""
        with tempfile.TemporaryDirectory(prefix="opshift-", ignore_cleanup_errors=True) as folder:
            jobs = []
            for number, (model, inputs) in enumerate(models):
                path = Path(folder, f"{number}.onnx")
                path.write_bytes(model.SerializeToString())
                jobs.append(RuntimeJob.of(model, path, [inputs]))
            return self.run(jobs, limits)

    def run(self, jobs: Sequence[RuntimeJob], limits: Limits) -> list[Answer]:
        """Runs models in turn; after a crash, the next models run in a new process."""
        with tempfile.TemporaryDirectory(prefix="opshift-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            failed = {
                number: (NOT_SENT, fault)
                for number, job in enumerate(jobs)
                if (fault := _write_inputs(folder, number, job))
            }
            sent = [number for number in range(len(jobs)) if number not in failed]
            _write_job(folder, self.name, {number: jobs[number] for number in sent}, limits)
            failed |= _run_all(self.python, folder, sent, limits)
            answers = {answer["number"]: answer for answer in _lines(folder) if "number" in answer}
            return [
                Answer(failed[number][0], [({}, failed[number][1])] * len(job.cases))
                if number in failed
                else _answer(answers[number], folder, job)
                for number, job in enumerate(jobs)
            ]


def find(python: str, requested: str = "", limits: Limits | None = None) -> OtherRuntime:
    """Returns the runtime `wanted`, or the first runtime that the Python interpreter can import."""
    if shutil.which(python) is None:
        raise BadTarget(
            f"there is no program {python!r}; give the path of a Python interpreter with a runtime"
        )
    with tempfile.TemporaryDirectory(prefix="opshift-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        limits = limits or Limits()
        _write_job(folder, requested, {}, limits)
        _, fault = _call(python, folder, 0, limits.seconds)
        here = next(iter(_lines(folder)), {"error": fault})
    if "error" in here:
        raise BadTarget(
            f"{python} cannot run models: {here['error']}; give a Python interpreter that has"
            f" {requested or 'a runtime'}"
        )
    return OtherRuntime(python, here["runtime"], here["version"])


def _write_job(folder: Path, runtime: str, jobs: Mapping[int, RuntimeJob], limits: Limits) -> None:
    models = [
        {
            "number": number, "path": job.path, "cases": len(job.cases),
            "inputs": job.inputs, "outputs": job.outputs,
        }
        for number, job in jobs.items()
    ]  # fmt: skip
    job = {"runtime": runtime, "models": models, **dataclasses.asdict(limits)}
    (folder / "job.json").write_text(json.dumps(job))


def _write_inputs(folder: Path, number: int, job: RuntimeJob) -> str:
    """Writes the inputs; returns the reason if this is impossible, or an empty text."""
    for at, case in enumerate(job.cases):
        for name, value in case.items():
            # The other Python may lack an extension type (isbuiltin is 2), such as float8.
            if not isinstance(value, np.ndarray) or value.dtype.isbuiltin == 2:
                return f"the input {name!r} has a type that cannot be sent to another Python"
        arrays = {k: v.astype(str) if v.dtype.kind == "O" else v for k, v in case.items()}
        np.savez(folder / f"in{number}_{at}.npz", **arrays)
    return ""


def _run_all(
    python: str, folder: Path, sent: Sequence[int], limits: Limits
) -> dict[int, tuple[str, str]]:
    """Runs all models; returns outcome and reason for each model that ended its process.

    A model counts as the cause only if it was the first model of its process.
    """
    failed: dict[int, tuple[str, str]] = {}
    done = 0
    while done < len(sent):
        outcome, reason = _call(python, folder, done, limits.seconds * (len(sent) - done + 1))
        answered = {answer["number"] for answer in _lines(folder) if "number" in answer}
        start = done
        while done < len(sent) and sent[done] in answered:
            done += 1
        if done == start:
            failed[sent[done]] = outcome, reason
            done += 1
    return failed


def _call(python: str, folder: Path, first: int, seconds: float) -> tuple[str, str]:
    """Runs guest.py from model `first` on; returns the reason if it ended before the last model."""
    program = os.path.abspath(shutil.which(python) or python)
    with (folder / "log").open("wb") as log:
        try:
            process = subprocess.Popen(
                child_python.other_command(program, str(GUEST), str(folder), str(first)),
                env=child_python.bare_environment(), cwd=folder, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except OSError as error:
            return ENDED, f"{python} cannot be started: {error.strerror}"
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = -_ALARM
        finally:
            _kill(process)
    if code == -_ALARM:
        return TOO_SLOW, f"not finished within the limit of {_limit(folder):g} s"
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    with (folder / "log").open("rb") as log_file:
        log_file.seek(max(0, log_file.seek(0, os.SEEK_END) - _LOG_TAIL))
        lines = log_file.read().decode(errors="replace").strip().splitlines()
    message = f"with the message: {lines[-1]}" if lines else "without a message"
    return ENDED, f"the process ended with {how} {message}"


_ALARM = int(getattr(signal, "SIGALRM", 14))


def _limit(folder: Path) -> float:
    seconds: float = json.loads((folder / "job.json").read_text())["seconds"]
    return seconds


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and the processes that it has started."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def _lines(folder: Path) -> list[dict[str, Any]]:
    """Returns the answers of all processes, without incomplete last lines."""
    written = (path.read_text().splitlines(keepends=True) for path in folder.glob("answers*.jsonl"))
    return [json.loads(line) for lines in written for line in lines if line.endswith("\n")]


def _answer(answer: Mapping[str, Any], folder: Path, job: RuntimeJob) -> Answer:
    if "error" in answer:
        return Answer(NOT_LOADED, [({}, answer["error"])] * len(job.cases))
    results = [
        _outputs(case, folder / f"out{answer['number']}_{at}.npz")
        for at, case in enumerate(answer["cases"])
    ]
    return Answer(NOT_RUN if any(error for _, error in results) else RAN, results)


def _outputs(answer: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], str]:
    if "error" in answer:
        return {}, answer["error"]
    with np.load(path) as arrays:
        return {name: _value(value, arrays) for name, value in answer["outputs"].items()}, ""


def _value(encoded: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    if "array" in encoded:
        array = arrays[encoded["array"]]
        return array.astype(object) if array.dtype.kind == "U" else array
    if "list" in encoded:
        return [_value(element, arrays) for element in encoded["list"]]
    return dict(encoded["map"]) if "map" in encoded else None

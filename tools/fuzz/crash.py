# SPDX-License-Identifier: Apache-2.0
"""Kills a conversion, or fails a call of it, at every system call that writes; counts what is left.

    python -m tools.fuzz crash [--only one-file] [--faults KILL EIO] [--sample 20 --seed 1]

In some scenarios another conversion writes the same result at the same time, without a fault.
`orders.py` decides the order of the steps of such runs; here it is left to the system.

Each scenario runs once under strace to count the calls that touch its folder. Then each of these
calls is hit once by each fault, in a process of its own, and the folder is looked at: it holds the
old result, the new result, or a mixture. The same command then runs without a fault and has to end
in the new result with nothing left over. Needs strace (a Debian package) and Linux; exit code 1
when something was mixed or left over.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, parser

CALLS = (
    "openat", "write", "pwrite64", "writev", "copy_file_range", "sendfile", "fsync", "fdatasync",
    "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat",
    "rmdir", "ftruncate", "fallocate", "chmod", "fchmod", "fchmodat", "chown", "fchown",
    "fchownat", "setxattr", "fsetxattr", "flock",
)  # fmt: skip
FAULTS = ("KILL", "ENOSPC", "EIO", "EDQUOT", "EINTR")
SIZE = 3000
TEXT = f"""<ir_version: 7, opset_import: ["": 12]> g (float[{SIZE}] x) => (float[{SIZE}] y)
{{ h = Add(x, w) y = Softmax<axis = 0>(h) }}"""


@dataclass(frozen=True)
class Scenario:
    """What is there before, what is done, and which models are looked at afterwards."""

    name: str
    words: tuple[str, ...]
    results: tuple[str, ...] = ("out.onnx",)
    location: str = ""
    there: bool = False
    rival: tuple[str, ...] = ()  # what another process does at the same time

    def prepare(self, folder: Path) -> None:
        save(folder / "in.onnx", self.location, 64, 1)
        if self.there and self.words[0] != "batch":
            save(folder / "out.onnx", "out.onnx.data" if self.location else "", 128, 7)
        for number in range(3) if self.words[0] == "batch" else ():
            save(folder / "zoo" / f"m{number}.onnx", self.location, 64, number)
            if self.there:
                save(folder / "done" / f"m{number}.onnx", f"m{number}.onnx.data", 128, number + 7)

    def run(self, folder: Path) -> int:
        """Does it in this process; the exit code."""
        os.chdir(folder)
        return self._done(folder, self.words)

    def run_rival(self, folder: Path) -> int:
        """Does the same as a rival; the exit code."""
        os.chdir(folder)
        return self._done(folder, self.rival)

    def _done(self, folder: Path, given: Sequence[str]) -> int:
        from opshift.model.bytes import leftovers

        leftovers._swept.clear()  # it would be empty in a process that was not forked
        words = [str(folder / word) if "/" in word else word for word in given]
        if words[0] == "batch":
            from opshift.zoo import migrate

            external = words[1]
            summary = migrate(folder / "zoo", folder / "done", 17, external=external, engine=Here())
            return int(summary.failures > 0)
        from opshift.cli import main

        try:
            main(words, standalone_mode=False)
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 3
        return 0


class Here:
    """An engine that works in this process, where every call is counted."""

    def run(self, fn: Callable[..., Any], items: Sequence[Any]) -> Iterator[Any]:
        return map(fn, items)


IN, OUT = "./in.onnx", "./out.onnx"
ONE = ("--external-data", "one-file")
BATCH = tuple(f"done/m{number}.onnx" for number in range(3))
SCENARIOS = (
    Scenario("new file", ("convert", IN, "-o", OUT, "--to", "17")),
    Scenario("over a file", ("convert", IN, "-o", OUT, "--to", "17"), there=True),
    Scenario("one-file", ("convert", IN, "-o", OUT, "--to", "17", *ONE), location="w.bin"),
    Scenario("one-file over a pair", ("convert", IN, "-o", OUT, "--to", "17", *ONE),
             location="w.bin", there=True),
    Scenario("in place", ("convert", IN, "--in-place", "--to", "17"), ("in.onnx",)),
    Scenario("in place, a pair", ("convert", IN, "--in-place", "--to", "17", *ONE), ("in.onnx",),
             location="in.onnx.data"),
    Scenario("in place, pair to one", ("convert", IN, "--in-place", "--to", "17",
             "--external-data", "inline"), ("in.onnx",), location="in.onnx.data"),
    Scenario("--ir in place", ("convert", IN, "--in-place", "--ir", "8"), ("in.onnx",)),
    Scenario("--ir in place, a pair", ("convert", IN, "--in-place", "--ir", "8", *ONE),
             ("in.onnx",), location="in.onnx.data"),
    Scenario("one-file beside a rival", ("convert", IN, "-o", OUT, "--to", "17", *ONE),
             location="w.bin", there=True, rival=("convert", IN, "-o", OUT, "--to", "18", *ONE)),
    Scenario("in place beside a rival", ("convert", IN, "--in-place", "--to", "17", *ONE),
             ("in.onnx",), location="in.onnx.data",
             rival=("convert", IN, "--in-place", "--to", "18", "--external-data", "inline")),
    Scenario("batch", ("batch", "copy"), BATCH, location="w.bin"),
    Scenario("batch, one-file over pairs", ("batch", "one-file"), BATCH, location="w.bin",
             there=True),
)  # fmt: skip


def save(path: Path, location: str, offset: int, seed: int) -> None:
    """A model of one weight, which is in it or in a file beside it."""
    path.parent.mkdir(exist_ok=True)
    made, data = parser.parse_model(TEXT), np.random.RandomState(seed).rand(SIZE).astype("<f4")
    tensor = made.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[SIZE])
    if location:
        if path.parent.name == "zoo":
            location = f"{path.name}.bin"
        tensor.data_location = TensorProto.EXTERNAL
        where = {"location": location, "offset": offset, "length": data.nbytes}
        for key, value in where.items():
            tensor.external_data.add(key=key, value=str(value))
        (path.parent / location).write_bytes(bytes(offset) + data.tobytes())
    else:
        tensor.raw_data = data.tobytes()
    path.write_bytes(made.SerializeToString())


def look(folder: Path, results: Sequence[str]) -> tuple[object, ...]:
    """What each result is to a reader: absent, a model with its weights, or broken."""
    return tuple(_look(folder / name) for name in results)


def _look(path: Path) -> object:
    if not path.exists():
        return None
    try:
        model = onnx.load(path)
        weights = numpy_helper.to_array(model.graph.initializer[0]).tobytes()
    except Exception as error:
        return f"broken: {error}"
    return model.opset_import[0].version, model.ir_version, weights


def left_over(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def needless(folder: Path) -> set[str]:
    """The files below a folder that are neither a model nor named by one."""
    files = {path for path in folder.rglob("*") if path.is_file()}
    needed = {path for path in files if path.suffix == ".onnx"}
    for model in list(needed):
        for tensor in onnx.load(model, load_external_data=False).graph.initializer:
            needed |= {model.parent / e.value for e in tensor.external_data if e.key == "location"}
    return {str(path.relative_to(folder)) for path in files - needed}


def traced(scenario: Scenario, folder: Path, *inject: str) -> tuple[int, str]:
    """The exit code of a process that does it under strace, and the log of its calls.

    The rival starts when calls begin to be counted, and has ended at the return.
    """
    log = folder.parent / "log"
    log.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            quiet = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(quiet, fd)
            os.kill(os.getpid(), signal.SIGSTOP)
            code = scenario.run(folder)
        except BaseException:
            code = 8
        finally:
            os._exit(code)
    os.waitpid(pid, os.WUNTRACED)
    command = ["strace", "-f", "-y", "-qq", "-s", "0", "-o", log, "-p", pid]
    command += ["-e", "trace=" + ",".join(CALLS), *(w for i in inject for w in ("-e", i))]
    tracer = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
    while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
        if tracer.poll() is not None:
            os.kill(pid, signal.SIGKILL)
            raise SystemExit("strace cannot attach to a process; is it permitted here?")
        time.sleep(0.002)
    os.kill(pid, signal.SIGCONT)
    rival = forked(scenario.run_rival, folder) if scenario.rival else 0
    code = ended(pid)
    if rival:
        ended(rival)
    tracer.wait()
    return code, log.read_text(errors="replace")


def points(log: str, folder: Path) -> Iterator[tuple[str, int]]:
    """The calls that write below a folder: the name of each, and how many of it came before."""
    seen: Counter[str] = Counter()
    for line in log.splitlines():
        if not (match := re.match(r"(?:\d+ +)?(\w+)\(", line)):
            continue
        name = match[1]
        seen[name] += 1
        if str(folder) in line and (name != "openat" or re.search("O_(CREAT|WRONLY|RDWR)", line)):
            yield name, seen[name]


def injected(fault: str, name: str, number: int) -> str:
    how = "signal=KILL" if fault == "KILL" else f"error={fault}"
    return f"inject={name}:{how}:when={number}"


def fresh(scenario: Scenario, scratch: Path) -> Path:
    """The folder as it is before, always under the same name."""
    folder = scratch / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    scenario.prepare(folder)
    return folder


def torn(scenario: Scenario, scratch: Path, args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The fault and the outcome of each injection."""
    folder = fresh(scenario, scratch)
    before = look(folder, scenario.results)
    others = sequences(scenario, scratch) if scenario.rival else []
    folder = fresh(scenario, scratch)
    unread = needless(folder)
    code, log = traced(replace(scenario, rival=()), folder)
    if code:
        raise SystemExit(f"{scenario.name}: exit code {code} without a fault")
    after, files = look(folder, scenario.results), left_over(folder)
    every = [(f, name, at) for name, at in points(log, folder) for f in args.faults]
    chosen = random.Random(args.seed).sample(every, min(args.sample, len(every)))
    for fault, name, number in chosen:
        folder = fresh(scenario, scratch)
        code, _ = traced(scenario, folder, injected(fault, name, number))
        found = look(folder, scenario.results)
        known = all(now in (old, new) for now, old, new in zip(found, before, after, strict=True))
        outcome = "new" if found == after else "old" if found == before else "between"
        if not known and found not in others:
            outcome = "MIXED"
        elif code == 0 and found not in (after, *others):
            outcome = "LIED"
        elif again(scenario, folder) or look(folder, scenario.results) not in (after, *others):
            outcome = "STUCK"
        elif extra := needless(folder) - unread if others else left_over(folder) - files:
            outcome = f"LEFT {sorted(extra)}"
        if outcome.isupper() or outcome.startswith("LEFT"):
            print(f"  {scenario.name}: {fault} at {name} {number}: {outcome}", flush=True)
        yield fault, outcome.split()[0]


def sequences(scenario: Scenario, scratch: Path) -> list[tuple[object, ...]]:
    """The results of a rival, alone and before and after the conversion."""
    found = []
    for acts in ((scenario.run_rival,), (scenario.run_rival, scenario.run),
                 (scenario.run, scenario.run_rival)):  # fmt: skip
        folder = fresh(scenario, scratch)
        if any(ended(forked(act, folder)) for act in acts):
            raise SystemExit(f"{scenario.name}: a conversion fails without a fault")
        found.append(look(folder, scenario.results))
    return found


def forked(act: Callable[[Path], int], folder: Path) -> int:
    """A process that does something without a fault and prints nothing."""
    pid = os.fork()
    if pid == 0:
        code = 9
        with contextlib.suppress(BaseException):
            quiet = os.open(os.devnull, os.O_RDWR)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            code = act(folder)
        os._exit(code)
    return pid


def ended(pid: int) -> int:
    """The exit code of a child, after its end."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def again(scenario: Scenario, folder: Path) -> int:
    """The exit code of the same command without a fault."""
    return ended(forked(scenario.run, folder))


def warm(scratch: Path) -> None:
    """Imports all that a conversion needs, before the first fork."""
    for scenario in SCENARIOS[0], SCENARIOS[7], SCENARIOS[-1]:
        folder = fresh(scenario, scratch)
        with contextlib.redirect_stdout(open(os.devnull, "w")):
            scenario.run(folder)
        os.chdir(scratch)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit code says whether a result was mixed or something was left over."""
    args = _parser().parse_args(argv)
    if shutil.which("strace") is None:
        raise SystemExit("strace is not installed: apt-get install strace")
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="crash-") as name:
        scratch = Path(name).resolve()
        warm(scratch)
        print(
            f"{'scenario':24}{'fault':8}{'points':>7}{'old':>6}{'between':>9}{'new':>6}{'mixed':>7}"
        )
        for scenario in SCENARIOS:
            if args.only and args.only not in scenario.name:
                continue
            rows: dict[str, Counter[str]] = {fault: Counter() for fault in args.faults}
            for fault, outcome in torn(scenario, scratch, args):
                rows[fault][outcome] += 1
                total[outcome] += 1
            for fault, row in rows.items():
                bad = sum(row[kind] for kind in row if kind.isupper())
                print(f"{scenario.name:24}{fault:8}{row.total():>7}{row['old']:>6}"
                      f"{row['between']:>9}{row['new']:>6}{bad:>7}", flush=True)  # fmt: skip
    bad = sum(total[kind] for kind in total if kind.isupper())
    print(f"{total.total()} injections, {bad} mixed, lied about, stuck or with something left over")
    return int(bad > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", help="scenarios whose name holds this")
    parser.add_argument("--faults", nargs="+", default=FAULTS, choices=FAULTS)
    parser.add_argument("--sample", type=int, default=sys.maxsize, help="injections per scenario")
    parser.add_argument("--seed", type=int, default=1)
    return parser


if __name__ == "__main__":
    sys.exit(main())

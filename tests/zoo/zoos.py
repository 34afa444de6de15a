# SPDX-License-Identifier: Apache-2.0
"""Zoos of small models, and tasks that crash in every way; workers import this module, too."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import onnx.parser
from onnx import ModelProto
from opshift.zoo.outcome import Fate, Outcome

SOFTMAX = "(float[2,3] x) => (float[2,3] y) { y = Softmax(x) }"
ERF = "(double[2] x) => (double[2] y) { y = Erf(x) }"


def model(text: str = SOFTMAX, opset: int = 12, name: str = "g") -> ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {name} {text}')


def zoo(folder: Path, count: int) -> Path:
    """Writes this number of models, each with its own name inside."""
    data = model(name="g0000").SerializeToString()
    for i in range(count):
        path = folder / f"{i % 10}" / f"m{i:04}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.replace(b"g0000", f"g{i:04}".encode()))
    return folder


def await_result(driver: subprocess.Popen[str], dst: Path) -> None:
    """Waits until a run has written its first result, without using the processor."""
    while not list(dst.glob("*/*.onnx")):
        assert driver.poll() is None
        time.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Order:
    """The task of a worker."""

    name: str
    deed: str = "work"
    path: str = ""
    size: int = 0


def obey(order: Order) -> Outcome:
    DEEDS[order.deed](order)
    return Outcome(order.name, Fate.OK, detail=str(os.getpid()))


def segfault(order: Order) -> None:
    os.write(2, b"about to fall\n")
    os.kill(os.getpid(), signal.SIGSEGV)


def fall_once(order: Order) -> None:
    if not os.path.exists(order.path):
        Path(order.path).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def hang_once(order: Order) -> None:
    if not os.path.exists(order.path):
        Path(order.path).touch()
        time.sleep(1000)


def hang_with_the_interpreter(order: Order) -> None:
    ctypes.PyDLL(None).sleep(1000)  # holds the lock of the interpreter, as native code may


def hang_without_alarm(order: Order) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    time.sleep(1000)


def ask_for_too_much(order: Order) -> None:
    bytearray(64 << 30)


def grow_where_the_kernel_does_not_count(order: Order) -> None:
    import mmap
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    block = mmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, len(block), 4096):
        block[at] = 1
    time.sleep(1000)


def object_to_it(order: Order) -> None:
    raise RuntimeError("a slip")


def leave(order: Order) -> None:
    os._exit(7)


def kill_the_server(order: Order) -> None:
    os.kill(os.getppid(), signal.SIGKILL)


def sleep(order: Order) -> None:
    Path(order.path).write_text(str(os.getpid()))
    time.sleep(1000)


def work(order: Order) -> None:
    pass


DEEDS = {
    deed.__name__: deed
    for deed in (
        segfault,
        fall_once,
        hang_once,
        hang_with_the_interpreter,
        hang_without_alarm,
        ask_for_too_much,
        grow_where_the_kernel_does_not_count,
        object_to_it,
        leave,
        kill_the_server,
        sleep,
        work,
    )
}

# SPDX-License-Identifier: Apache-2.0
"""Starts child processes that call the C++ code of onnx, and exchanges messages with them."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import IO, Any

from opshift import child_python
from opshift.protos import library
from opshift.protos.onnx_calls import OnnxEnded

MEGABYTE_SECONDS = 2.0  # additional processor time for each megabyte of a model
WALL = 10  # on a busy machine, a process may get a tenth of the processor
MOST_IDLE = 4  # the most idle child processes
_CHILD = "opshift.opsets.onnx_child"  # this module also registers the schemas of installed packages
_idle: list[Child] = []
_NONSENSE = (  # raised if the child has ended, or if its answer is malformed
    OSError, EOFError, ValueError, LookupError, TypeError, struct.error, MemoryError, OverflowError,
)  # fmt: skip


def ask(name: str, arguments: Iterable[Any], most: float) -> Any:
    """Returns the answer of a child process to a call; raises the child's error, or OnnxEnded."""
    child = _idle_child() or Child()
    try:
        kind, value = child.ask(name, arguments, most)
    except BaseException:
        child.close()
        raise
    if len(_idle) < MOST_IDLE:
        _idle.append(child)
    else:
        child.close()
    if kind:
        raise _ERRORS.get(kind, RuntimeError)(value)
    return value


def _idle_child() -> Child | None:
    """Returns an idle child process that this process has started, or None."""
    while _idle:
        child = _idle.pop()
        if child.owner == os.getpid() and child.process.poll() is None:
            return child
    return None


@atexit.register
def close() -> None:
    """Ends the idle child processes."""
    while _idle:
        _idle.pop().close()


class Child:
    """A child process that makes one call after another."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            child_python.command(_CHILD),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal must not reach the child
        )

    def ask(self, name: str, arguments: Iterable[Any], most: float) -> Any:
        """Returns the answer to a call; raises OnnxEnded if the child ends without an answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        parts = packed([name, list(arguments)])
        seconds = most + MEGABYTE_SECONDS * sum(map(len, parts)) / (1 << 20)
        try:
            with _watched(self.process, seconds * WALL):
                write(self.process.stdin, [str(seconds).encode(), *parts])
                return unpacked(read(self.process.stdout))
        except _NONSENSE:
            raise self._end(name, seconds) from None

    def _end(self, name: str, seconds: float) -> OnnxEnded:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        self.close()
        code = self.process.returncode
        if -code in {
            getattr(signal, name_of_signal, 0)
            for name_of_signal in ("SIGXCPU", "SIGALRM", "SIGKILL")
        }:
            message = f"{_TASKS[name]} of onnx did not finish within {seconds:.0f} s"
            return OnnxEnded(message, seconds)
        why = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return OnnxEnded(f"{_TASKS[name]} of onnx crashed its process ({why})")

    def close(self) -> None:
        """Ends the child process, but only in the process that has started it."""
        if self.owner != os.getpid():
            return
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def _watched(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """Kills a process after this number of seconds on Windows, which has no kernel limit."""
    if sys.platform != "win32":
        yield
        return
    watch = threading.Timer(seconds, process.kill)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


_TASKS = {
    "infer_shapes": "the inference", "infer_node_outputs": "the inference",
    "check_model": "the checker", "check_node": "the checker", "parse_model": "the parser",
    "print_model": "the printer",
}  # fmt: skip


_ERRORS: dict[str, type[Exception]] = {
    one.__name__: one
    for one in (
        library.shape_inference.InferenceError, library.checker.ValidationError, ValueError,
        IndexError, TypeError, MemoryError, library.defs.SchemaError,
    )
}  # fmt: skip


# ---------------------------------------------------------------- messages

# A message is a JSON text, followed by the bytes to which it refers. Thus even a child process that
# a malicious model controls cannot send Python objects to this process.


def packed(value: Any) -> list[bytes]:
    """Serializes a value as the parts of a message."""
    parts: list[bytes] = []

    def put(part: bytes) -> dict[str, int]:
        parts.append(part)
        return {"bytes": len(parts)}

    text = json.dumps(value, default=put).encode()
    return [text, *parts]


def unpacked(parts: list[bytes]) -> Any:
    """Deserializes the value of a message."""
    return json.loads(parts[0], object_hook=lambda reference: parts[reference["bytes"]])


def write(pipe: IO[bytes], parts: list[bytes]) -> None:
    """Sends a message."""
    sizes = struct.pack(f">Q{len(parts)}Q", len(parts), *map(len, parts))
    pipe.write(b"".join([sizes, *parts]))
    pipe.flush()


def read(pipe: IO[bytes]) -> list[bytes]:
    """Receives a message; raises EOFError if the other process has ended."""
    (count,) = struct.unpack(">Q", _exactly(pipe, 8))
    sizes = struct.unpack(f">{count}Q", _exactly(pipe, 8 * count))
    return [_exactly(pipe, size) for size in sizes]


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data

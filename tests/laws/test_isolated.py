# SPDX-License-Identifier: Apache-2.0
"""In the isolated mode no file of any content ends or hangs the process that opens it."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import opshift
from onnx import ModelProto, TensorProto, helper
from opshift.isolation_default import VARIABLE
from opshift.look import accepts, info
from opshift.protos import isolation
from text_models import model

from tools.fuzz import case, seeds

CHANGED = int(os.environ.get("OPSHIFT_PROPERTIES", "8"))
LIMIT = 400  # seconds of the process that opens all files
VERBS: dict[str, Callable[[Path], Any]] = {
    "convert": lambda path: opshift.convert(path, 13),
    "convert_file": lambda path: opshift.convert_file(path, path.with_name("out.onnx"), 13),
    "plan": lambda path: opshift.plan(path, 13),
    "lowest": opshift.lowest_versions,
    "check": opshift.check,
    "diff": lambda path: opshift.diff(path, path),
    "accepts": lambda path: accepts.accepts(path, "onnxruntime==1.10"),
    "info": info.info,
}
HEAD = '<ir_version: 7, opset_import: ["": 12]> g '
TEXTS = {
    "a hanging equation": '(float[2,3] x) => (float[a] y) { y = Einsum<equation="i.j->i">(x) }',
    "too large a window": "(float[1,3,4,4] x) => (float[] y) <int64[1] s = {0}, int64[1] e = {-1}, int64[1] a = {3}> { v = MaxPool<kernel_shape=[100,100]>(x) y = Slice(v, s, e, a) }",
    "a negative number": "(float[9] x) => (float[] y) <int64[1] k = {-5}, int64[1] s = {0}, int64[1] e = {-1}> { v, i = TopK(x, k) y = Slice(v, s, e) }",
    "a window behind a Slice": "(float[1,1,9,9] x) => (float[] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {3}> { v = Slice(x, s, e, a) w = AveragePool<kernel_shape=[1,7]>(v) y = Slice(w, s, e, a) }",
    "an axis out of range": "(float[2,3] x) => (float[] y) { y = Softmax<axis=1000000000>(x) }",
    "a huge result": "(float[1] x) => (float[] y) <int64[3] s = {999999, 999999, 99999}> { y = Expand(x, s) }",
}  # fmt: skip
DEEP = {
    "text.onnxtxt": HEAD + "() => () { y = If(x) <then_branch = g " * 20_000,
    "types.onnxtxt": HEAD + "(" + "optional(" * 60_000,
    "json.onnxjson": '{"graph": ' + '{"node": [{"attribute": [{"g": ' * 20_000,
    "form.textproto": "graph { node { attribute { g { " * 20_000,
}


def nested(levels: int) -> bytes:
    """Returns an If in an If in an If."""
    graph = helper.make_graph([], "g", [], [helper.make_tensor_value_info("y", 1, [2])])
    data = graph.SerializeToString()
    for _ in range(levels):
        around = b"".join(_field(at, part) for at, part in ((1, b"c"), (2, b"y"), (4, b"If")))
        branch = _field(1, b"then_branch") + _field(6, data) + b"\xa0\x01\x05"
        data = _field(1, around + _field(5, branch)) + _field(2, b"g")
    return b"\x08\x07" + _field(7, data) + _field(8, b"\x0a\x00\x10\x0c")


def _field(number: int, data: bytes) -> bytes:
    size, length = len(data), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def contents() -> Iterator[tuple[str, bytes]]:
    """Returns files with faults of onnx, with deep and broken content, and with random changes."""
    for name, text in TEXTS.items():
        yield f"{name}.onnx", model(text, 13).SerializeToString()
        yield f"{name}.onnxtxt", (HEAD.replace("12]", "13]") + text).encode()
    yield from ((name, text.encode()) for name, text in DEEP.items())
    yield from ((f"{levels} levels.onnx", nested(levels)) for levels in (20, 90, 3000))
    good = model("(float[2,3] x) => (float[2,3] y) { y = Neg(x) }").SerializeToString()
    rng = random.Random(5)
    broken = {"empty": b"", "short": good[:-9], "zeros": bytes(9999), "twice": good * 2,
              "noise": rng.randbytes(9999), "behind": good + rng.randbytes(99)}  # fmt: skip
    for form in ("onnx", "onnxtxt", "onnxjson", "textproto"):
        yield from ((f"{name}.{form}", data) for name, data in broken.items())
    huge = ModelProto.FromString(good)
    huge.graph.initializer.append(TensorProto(name="w", data_type=1, dims=[1 << 40, 1 << 40]))
    yield "huge.onnx", huge.SerializeToString()
    pool = seeds.pool(("frozen", "adapters"))
    yield from ((f"{n}.onnx", case.make(pool, n).model) for n in range(CHANGED))


def main(folder: Path) -> None:
    """Opens each file of a folder with each command, and prints a last line at the end."""
    isolation.SECONDS = 1.0
    for path in sorted(folder.iterdir()):
        for verb, act in VERBS.items():
            print(json.dumps([path.name, verb]), flush=True)
            try:
                answer = str(act(path))
            except opshift.OpshiftError as error:
                answer = str(error)
            assert answer, "an answer is a text"
            path.with_name("out.onnx").unlink(missing_ok=True)
    print("alive")


def test_no_content_of_a_file_ends_or_hangs_its_reader(tmp_path: Path) -> None:
    for name, data in contents():
        (tmp_path / name).write_bytes(data)
    done = subprocess.run(
        [sys.executable, __file__, tmp_path],
        env={**os.environ, VARIABLE: "always", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=False, timeout=LIMIT + 20 * CHANGED,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[-1:] == ["alive"], (done.returncode, lines[-1:], done.stderr[-2000:])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

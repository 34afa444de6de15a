# SPDX-License-Identifier: Apache-2.0
"""What happens to a model of a corpus in a child process: converted, checked, run."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tools.corpus.model import BlockerText
from tools.corpus.same_results import Arrays


def convert(converter: str, src: str, dst: str, target: int) -> tuple[BlockerText, ...]:
    """Write the converted model, or return what stood in the way."""
    if converter == "opshift":
        from opshift import convert_file
        from opshift.errors import Refused

        try:
            convert_file(src, dst, target)
        except Refused as refused:
            return tuple(_refusal(node) for node in refused.refusals)
    elif converter == "onnx":
        return _convert_with_onnx(src, dst, target)
    else:
        module, _, name = converter.partition(":")
        return getattr(importlib.import_module(module), name)(src, dst, target) or ()
    return ()


def _refusal(node: Any) -> BlockerText:
    op = f"{node.domain}.{node.op}" if node.domain not in ("", "ai.onnx") else node.op
    return BlockerText(node.why.name, op, tuple(node.boundary), node.node, node.detail)


def _convert_with_onnx(src: str, dst: str, target: int) -> tuple[BlockerText, ...]:
    """The C++ converter, for comparison; its errors are text, and all count as refusals."""
    import onnx
    import onnx.version_converter

    try:
        model = onnx.version_converter.convert_version(onnx.load(src), target)
    except Exception as error:
        return (BlockerText(type(error).__name__, "?", (0, target), "", str(error)),)
    onnx.save(model, dst)
    return ()


def check(path: str, full: bool) -> None:
    """Raise what the checker says."""
    import onnx

    onnx.checker.check_model(path, full_check=full)


def execute(engine: str, path: str, inputs: str) -> Arrays:
    """Run a model from file to arrays."""
    with np.load(inputs) as arrays:
        feed = {name: arrays[name] for name in arrays.files}
    feed = {name: a.astype(object) if a.dtype.kind == "U" else a for name, a in feed.items()}
    return dict(flat(ENGINES[engine](path, feed)))


def _by_runtime(path: str, feed: Arrays) -> dict[str, Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def _by_judge(path: str, feed: Arrays) -> dict[str, Any]:
    """Node by node, each on the engine that is trusted for its version."""
    import onnx
    from opshift.verify import oracle

    model = onnx.load(path)
    names = [output.name for output in model.graph.output]
    return dict(zip(names, oracle.evaluate(model, feed), strict=True))


def _by_round_trip(path: str, feed: Arrays) -> dict[str, Any]:
    """Brought to what onnxruntime loads, and run there: shows that there and back is the same."""
    from opshift import convert_file

    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        near = str(Path(folder, "near.onnx"))
        convert_file(path, near, newest_of_runtime()[0])
        return _by_runtime(near, feed)


ENGINES = {"onnxruntime": _by_runtime, "judge": _by_judge, "round trip": _by_round_trip}


def flat(outputs: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Maps and sequences as arrays of their own, tensors as they are."""
    for name, value in outputs.items():
        maps = [value] if isinstance(value, dict) else value
        if isinstance(maps, list) and maps and isinstance(maps[0], dict):
            keys = [list(m.keys()) for m in maps]
            values = [list(m.values()) for m in maps]
            single = isinstance(value, dict)
            yield f"{name}#keys", np.asarray(keys[0] if single else keys)
            yield f"{name}#values", np.asarray(values[0] if single else values)
        elif isinstance(value, list):
            yield from ((f"{name}#{i}", np.asarray(item)) for i, item in enumerate(value))
        elif value is not None:
            yield name, np.asarray(value)


def newest_of_runtime() -> tuple[int, int]:
    """The highest opset and IR version that the installed onnxruntime loads."""
    import onnx
    import onnxruntime as ort
    from onnx import parser

    def loads(opset: int, ir: int) -> bool:
        text = f'<ir_version: {ir}, opset_import: ["": {opset}]> g (float[1] x) => (float[1] y)'
        model = parser.parse_model(text + " { y = Relu(x) }")
        try:
            ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        except Exception:
            return False
        return True

    irs = (ir for ir in range(int(onnx.IR_VERSION), 7, -1) if loads(17, ir))
    opsets = (v for v in range(onnx.defs.onnx_opset_version(), 17, -1) if loads(v, 8))
    return next(opsets, 17), next(irs, 8)

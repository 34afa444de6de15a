# SPDX-License-Identifier: Apache-2.0
"""Runs a model with one engine in this process."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

CHILD = "opshift.verify.isolated_task"  # the module that runs an engine in a child process
LACKS = "is not registered in this onnxruntime"
Seen = Callable[[str, Any], None]
Results = list[tuple[dict[str, Any], str]]
"""For each set of inputs: the outputs by name, and an error message that is empty on success."""


def opshift(
    path: str, cases: Sequence[Mapping[str, Any]], seed: int, seen: Seen | None = None
) -> Results:
    """Runs a model in our own evaluator, which loads one weight at a time.

    `seen` is called with the name and the value of each output of a node.
    """
    from opshift.model import weights
    from opshift.model.bytes import source
    from opshift.verify import oracle

    model, large_tensors = weights.carve_file(source.opened(path))
    weights.fill_nested(model, large_tensors)
    names = [info.name for info in model.graph.output]

    def evaluate(inputs: Mapping[str, Any]) -> list[Any]:
        return oracle.evaluate(model, inputs, seed=seed, seen=seen, load=large_tensors.load)

    return _each(evaluate, names, cases)


def onnxruntime(path: str, cases: Sequence[Mapping[str, Any]], seed: int) -> Results:
    """Runs a model in onnxruntime without optimizations and with one thread."""
    from opshift.verify import extra

    ort = extra.onnxruntime()
    ort.set_seed(seed)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    # onnxruntime may write into the arrays of inputs, which other runs read too.
    return _each(lambda inputs: session.run(None, copy.deepcopy(dict(inputs))), names, cases)


def _each(evaluate: Any, names: Sequence[str], cases: Sequence[Mapping[str, Any]]) -> Results:
    results: Results = []
    for inputs in cases:
        try:
            values = [_plain(value) for value in evaluate(inputs)]
            results.append((dict(zip(names, values, strict=True)), ""))
        except Exception as error:
            results.append(({}, sentence(error)))
    return results


def _plain(value: Any) -> Any:
    """Converts a value to a form that all engines share: strings become object arrays."""
    import numpy as np

    if isinstance(value, dict):
        return {_python_scalar(key): _python_scalar(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None:
        return None
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def _python_scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


_UNREGISTERED = (
    (r"Fatal error: ([\w.]*):(\w+)\(.*\) is not a registered function/op", "operator"),
    (r"No Op registered for ()(\w+) with domain_version", "operator"),
    (r"Could not find an implementation for ()(\w+\(\d+\)) node", "kernel for these types:"),
)


def sentence(error: BaseException) -> str:
    """Returns the first line of an error, or the name of an operator that onnxruntime lacks."""
    text = next(iter(str(error).strip().splitlines()), "no message")
    for pattern, what in _UNREGISTERED:
        if match := re.search(pattern, text):
            domain, op = match.groups()
            return f"{what} {f'{domain}.' if domain else ''}{op} {LACKS}"
    return f"{type(error).__name__}: {text}"[:500]


def here(engine: str, path: str, cases: Sequence[Mapping[str, Any]], seed: int) -> Results:
    """Runs a model in this process, for a caller that limits its own memory and time."""
    try:
        results: Results = ENGINES[engine](path, cases, seed)
        return results
    except MemoryError:
        raise
    except Exception as error:
        return [({}, sentence(error))] * len(cases)


ENGINES: dict[str, Callable[..., Results]] = {"opshift": opshift, "onnxruntime": onnxruntime}

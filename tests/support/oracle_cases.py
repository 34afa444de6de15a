# SPDX-License-Identifier: Apache-2.0
"""The models for which kernels of the oracle are compared with other engines."""

from __future__ import annotations

import fnmatch
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import official_nodes
from onnx import ModelProto, defs
from opshift import testing
from opshift.opsets import schemas
from opshift.testing.input_sets import SETS, input_sets
from opshift.verify import engine_choice, oracle, randomness
from opshift.verify.oracle.engines import RUNTIME_OPSETS, as_written
from opshift.verify.oracle.kernel_registry import Kernel, find
from opshift.verify.tolerance import StatedTolerance
from opshift.zoo.outcome import Fate, Outcome

from tools.conformance.node_tests import official

Run = Callable[[Mapping[str, Any]], list[Any]]
RUNTIME, REFERENCE, DATA = "onnxruntime", "reference", "data"
JUDGES = (RUNTIME, REFERENCE, DATA)
NO_ANSWER = "the kernel has no answer"


@dataclass(frozen=True, slots=True, eq=False)
class NodeCase:
    """A model of one node that a kernel computes; `expected` are the official outputs."""

    name: str
    key: tuple[str, str]
    since: int
    model: bytes
    given: dict[str, Any] = field(repr=False)
    expected: tuple[Any, ...] | None = None
    rtol: float = 0.0
    atol: float = 0.0
    runtime: bool = True

    @property
    def kernel(self) -> Kernel:
        found = find(*self.key, self.since)
        assert found is not None
        return found

    @property
    def size(self) -> int:
        return len(self.model)


def cases(only: Sequence[str] = (), data: bool = True) -> Iterator[NodeCase]:
    """The examples of our adapters, and with `data` the official tests, of one node of a kernel.

    `only` are patterns of the names of operators.
    """
    if data:
        yield from _official(only)
    yield from _examples(only)


def _named(op: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatch.fnmatch(op, pattern) for pattern in only)


def _official(only: Sequence[str]) -> Iterator[NodeCase]:
    official_nodes.collected()
    for test in official([]):
        model = ModelProto.FromString(test.model)
        inputs = dict(zip((i.name for i in model.graph.input), test.data[0], strict=False))
        if (kernel := _kernel_of(model)) is not None and _named(kernel[0][1], only):
            key, since = kernel
            text = _lowered(model, since).SerializeToString()
            yield NodeCase(test.name, key, since, text, inputs, test.data[1], test.rtol, test.atol)


def _examples(only: Sequence[str]) -> Iterator[NodeCase]:
    for number, (adapter, example) in enumerate(testing.examples("opshift_adapters")):
        if example.invalid is not None or not any(_named(op, only) for op in adapter.ops):
            continue
        try:
            model = testing.example_model(adapter, example)
        except Exception:  # the installed onnx is older than the example
            continue
        if (kernel := _kernel_of(model)) is not None and _named(kernel[0][1], only):
            key, since = kernel
            name = f"{number} {adapter.source.removeprefix('opshift_adapters.')}: {example.title}"
            text = _lowered(model, since).SerializeToString()
            yield NodeCase(name, key, since, text, dict(example.inputs))


def _kernel_of(model: ModelProto) -> tuple[tuple[str, str], int] | None:
    """The operator of the only node, and its version, if a kernel computes it."""
    if len(model.graph.node) != 1 or model.functions or randomness.drawn(model):
        return None
    node = model.graph.node[0]
    imports = {schemas.normal(opset.domain): opset.version for opset in model.opset_import}
    key = schemas.normal(node.domain), node.op_type
    try:
        schema = defs.get_schema(key[1], imports.get(key[0], 1), key[0])
    except defs.SchemaError:
        return None
    since = int(schema.since_version)
    return (key, since) if not schema.deprecated and find(*key, since) else None


def _lowered(model: ModelProto, since: int) -> ModelProto:
    """The model at the newest opset that onnxruntime has, if the operator is the same there."""
    for entry in model.opset_import:
        if not schemas.normal(entry.domain) and since <= RUNTIME_OPSETS[""] < entry.version:
            entry.version = RUNTIME_OPSETS[""]
    model.ir_version = min(model.ir_version, 11)
    return model


def examine(case: NodeCase) -> Outcome:
    """For each set of inputs, returns the difference from each engine; empty if there is none."""
    model = ModelProto.FromString(case.model)
    runs = {RUNTIME: _runtime(model) if case.runtime else None, REFERENCE: _reference(model)}
    outcomes: dict[str, dict[str, str]] = {}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, feeds in input_sets(model, case.given, SETS):
            mine = _answer(lambda fed: list(oracle.evaluate(model, fed)), feeds)
            texts = {}
            for judge, run in runs.items():
                answer = _answer(run, feeds) if run is not None else None
                if answer is not None:
                    texts[judge] = _difference(answer, mine)
            if case.expected is not None and name == "given":
                expected = list(case.expected)
                texts[DATA] = _difference(expected, mine, case.rtol, case.atol)
            if texts:
                outcomes[name] = texts
    return Outcome(case.name, Fate.OK, detail=json.dumps(outcomes))


def _runtime(model: ModelProto) -> Run | None:
    if engine_choice.objection(model, engine_choice.RUNTIME):
        return None
    try:
        session = as_written(model)
    except Exception:  # it has no kernel for the node
        return None
    names = {input_.name for input_ in session.get_inputs()}
    return lambda feeds: list(session.run(None, {k: v for k, v in feeds.items() if k in names}))


def _reference(model: ModelProto) -> Run | None:
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(model)
    except Exception:  # it has no implementation
        return None
    return lambda feeds: list(evaluator.run(None, dict(feeds)))


def _answer(run: Run, feeds: Mapping[str, Any]) -> list[Any] | None:
    """Returns the outputs of an engine, or None if it rejects the inputs."""
    try:
        return run({name: _copied(value) for name, value in feeds.items()})
    except Exception:
        return None


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _difference(
    expected: list[Any], mine: list[Any] | None, rtol: float = 0.0, atol: float = 0.0
) -> str:
    if mine is None:
        return NO_ANSWER
    for number, (mine_, other) in enumerate(zip(expected, mine, strict=False)):
        usual = StatedTolerance().at(other)
        limits = {"rtol": max(usual.rtol, rtol), "atol": max(usual.atol, atol), "ulp": usual.ulp}
        try:
            text = oracle.compare([_plain(mine_)], [_plain(other)], **limits)
        except Exception as error:  # a value of a kind that no kernel gives
            text = f"{type(error).__name__}: {error}"
        if text:
            return f"output {number}{text.removeprefix('output 0')}"
    return ""


def _plain(value: Any) -> Any:
    """Returns a tensor of strings in the form that kernels return."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "US":
        return value.astype(object)
    return value

# SPDX-License-Identifier: Apache-2.0
"""Compares two models on many sets of inputs, in onnxruntime or in our evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from opshift.model import imports
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.testing.input_sets import OPEN, SETS, input_sets
from opshift.testing.models import Evaluate
from opshift.verify import engine_choice, oracle, randomness
from opshift.verify.oracle.engines import as_written
from opshift.verify.oracle.values import is_float
from opshift.verify.tolerance import StatedTolerance

LACKS_A_KERNEL = "NOT_IMPLEMENTED"
Run = Callable[[Mapping[str, Any]], list[Any]]


def compared(
    before: ModelProto, after: ModelProto, inputs: Mapping[str, Any],
    sets: Sequence[str] = SETS, evaluate: Evaluate | None = None,
    *, rtol: float = 0.0, atol: float = 0.0, runtime: bool = True,
) -> Iterator[tuple[str, str | None]]:  # fmt: skip
    """Yields the name of each set of inputs, first with None, then with "" or a difference.

    None means that the models will run, and "" that the original has run. A set for which the
    original has no result is skipped. With `runtime=False`, onnxruntime is not used.
    """
    judges = _judges(before, after, inputs, evaluate, runtime)
    if judges is None:
        return
    names = [info.name for info in before.graph.output]
    policy = _Policy(rtol, atol, frozenset(randomness.drawn(before)), names)
    for name, feeds in input_sets(before, inputs, sets):
        yield name, None
        with np.errstate(all="ignore"):
            expected = _answer(judges[0], feeds)
            if expected is None or (name == "repeated" and not _fit(before, expected)):
                continue
            yield name, ""
            try:
                difference = policy.difference(expected, judges[1](feeds), name)
            except Exception as error:
                difference = f"the result does not run: {str(error)[:160]!r}"
        if difference:
            yield name, difference


# ---- engines ----


def _answer(run: Run, feeds: Mapping[str, Any]) -> list[Any] | None:
    """Returns the results of a model; None if the model fails on these inputs."""
    try:
        return run(feeds)
    except Exception:
        return None


def _fit(model: ModelProto, values: Sequence[Any]) -> bool:
    """Returns whether values have the declared output shapes, on which conversions rely."""
    for info, value in zip(model.graph.output, values, strict=True):
        kind = info.type.tensor_type
        if kind.HasField("shape") and isinstance(value, np.ndarray):
            dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
            if len(dims) != value.ndim:
                return False
            if any(size not in (None, real) for size, real in zip(dims, value.shape, strict=True)):
                return False
    return True


def _judges(
    before: ModelProto, after: ModelProto, inputs: Mapping[str, Any],
    evaluate: Evaluate | None, runtime: bool,
) -> tuple[Run, Run] | None:  # fmt: skip
    """Returns an engine for both models: from the caller, onnxruntime, our evaluator, or None."""
    pair = before, after
    if evaluate is not None:
        return _by(evaluate, before), _by(evaluate, after)
    ours = _by(oracle.evaluate, before), _by(oracle.evaluate, after)
    trusted = not oracle.doubtful(*pair)
    plain = dict(input_sets(before, inputs, ("given",)))["given"]
    if runtime and not any(
        engine_choice.objection(model, engine_choice.RUNTIME) or _newer(model) for model in pair
    ):
        first = _session(before)
        if first is not None and _answer(first, plain) is not None:
            try:
                return first, _loaded(after)
            except Exception as error:
                lacks = LACKS_A_KERNEL in str(error)
                if not lacks or not trusted or _answer(ours[0], plain) is None:
                    return first, _unable(str(error))
    return ours if trusted else None


def _unable(message: str) -> Run:
    def run(feeds: Mapping[str, Any]) -> list[Any]:
        raise RuntimeError(f"onnxruntime does not load the result: {message}")

    return run


def _by(evaluate: Evaluate, model: ModelProto) -> Run:
    return lambda feeds: list(evaluate(model, feeds))


def _newer(model: ModelProto) -> bool:
    """Returns whether the opset is newer than the installed onnxruntime."""
    return imports.versions(model).get("", 0) > engine_choice.highest_of_runtime()


def _session(model: ModelProto) -> Run | None:
    """Loads a model in onnxruntime without optimizations; returns None if this fails."""
    try:
        return _loaded(model)
    except Exception:
        return None


def _loaded(model: ModelProto) -> Run:
    """Loads a model in onnxruntime without optimizations."""
    session = as_written(model)
    names = {info.name for info in session.get_inputs()}

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        copies = {name: deepcopy(value) for name, value in feeds.items() if name in names}
        # BatchNormalization in a subgraph overwrites its inputs
        return list(session.run(None, copies))

    return run


# ---- tolerances ----


@dataclass(frozen=True, slots=True)
class _Policy:
    """The tolerances of decision 0005 for the outputs of one model."""

    rtol: float
    atol: float
    drawn: frozenset[str]
    names: Sequence[str]

    def difference(self, expected: list[Any], actual: list[Any], name: str) -> str:
        """Describes the difference of two results; empty if they are equal."""
        for output, expected_value, actual_value in zip(self.names, expected, actual, strict=True):
            if output in self.drawn:
                text: str | None = randomness.unlike(expected_value, actual_value)
            else:
                text = self._differs(expected_value, actual_value, name)
            if text:
                return f"{output}: {text.removeprefix('output 0').removeprefix(': ')}"
        return ""

    def _differs(self, expected: Any, actual: Any, name: str) -> str | None:
        arrays = isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray)
        if (
            name != "given"
            and arrays
            and expected.shape == actual.shape
            and expected.dtype == actual.dtype
        ):
            if name in OPEN and expected.dtype.kind in "iuO":
                return None  # no specification defines the integer or position
            if is_float(expected.dtype):
                # infinite and NaN elements may become any number
                actual = np.where(np.isfinite(expected), actual, expected)
        usual = StatedTolerance().at(expected)
        return oracle.compare(
            [expected], [actual], rtol=max(usual.rtol, self.rtol), atol=max(usual.atol, self.atol),
            ulp=usual.ulp,
        )  # fmt: skip

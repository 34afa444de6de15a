# SPDX-License-Identifier: Apache-2.0
"""Runs a model to find the largest values, because a narrower type may overflow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping

from opshift import child_task
from opshift.child_task import Limits
from opshift.convert.state import State
from opshift.errors import InvalidModel
from opshift.model import weights
from opshift.model.bytes.source import Identity
from opshift.model.names import Owned
from opshift.records import dataclass

# bytes above which nodes run one by one, because a runtime loads all weights at once
LARGE = 1 << 28
# imported by name in a child process, because `verify` is on a higher floor
RUNNER = "opshift.verify.isolated_task"


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """The largest magnitude of each value and the kind of inputs used, or why none are known."""

    largest: Mapping[str, float]
    inputs: str
    unknown: str = ""


# the result for the last file, because a plan converts the same file many times
_last: dict[object, Magnitudes] = {}


def magnitudes(state: State, values: Iterable[Owned]) -> Magnitudes:
    """Returns the magnitudes of values on the request's inputs, or on generated inputs."""
    if not state.options.checks:
        return Magnitudes({}, "", "the request asks for no checks")
    values, main = list(values), state.document.main
    names = sorted(name for scope, name in values if scope is main and name in main.producers)
    inside = any(scope is not main for scope, _ in values)
    inputs = os.fspath(state.options.inputs or "")
    files = [stamp for _, stamp in state.weights.needed()]
    if inputs and os.path.exists(inputs):
        files.append(Identity.of(os.stat(inputs)))
    key = (state.skeleton.SerializeToString(deterministic=True), tuple(names), inputs, *files)
    result = _last.get(key) if state.weights.file is not None else None
    if result is None:
        result = _run(state, names, inside, inputs)
        _last.clear()
        _last[key] = result
    return result


def _run(state: State, names: list[str], inside: bool, inputs: str) -> Magnitudes:
    """Runs the model in a child process, so that a crash does not end this process."""
    large = state.weights.size_with(state.skeleton) > LARGE
    with tempfile.TemporaryDirectory(prefix="opshift-") as folder:
        path = (_unchanged_source(state) if large else "") or os.path.join(folder, "model.onnx")
        if not large:
            weights.splice_to_run(state.skeleton, state.weights, path)
        elif os.path.dirname(path) == folder:
            # the child process reads the weights one by one from a data file
            weights.splice(state.skeleton, state.weights, path, external="one-file")
        done = child_task.run(
            RUNNER, "magnitudes", path, folder, names, inside, large, inputs, limits=Limits()
        )
    largest, failed = done.value or ({}, "")
    failed = done.error or failed
    if failed and inputs:
        raise InvalidModel(f"the model does not run on {inputs!r}: {failed}", "BAD_INPUTS")
    return Magnitudes(largest, "the given inputs" if inputs else "generated inputs", failed)


def _unchanged_source(state: State) -> str:
    """Returns the path of the source file if the model is unchanged, so that no copy is needed."""
    file = state.weights.file
    if file is None or file.piped or state.weights.moved:
        return ""
    return os.path.abspath(file.path) if weights.carve_file(file)[0] == state.skeleton else ""

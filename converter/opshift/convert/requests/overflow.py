# SPDX-License-Identifier: Apache-2.0
"""Finds how large the values of a model become on inputs: a narrower type may not hold them."""

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

LARGE = 1 << 28  # bytes of a model that runs node by node, because a runtime holds all its weights
RUNNER = "opshift.verify.isolated_task"  # a child imports it; this room is below that of running


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """The largest magnitudes by name, and the kind of inputs, or why nothing is known."""

    largest: Mapping[str, float]
    inputs: str
    unknown: str = ""


_last: dict[object, Magnitudes] = {}  # of the last file, which a plan converts many times


def magnitudes(state: State, values: Iterable[Owned]) -> Magnitudes:
    """How large values become on the inputs of the request, or else on generated ones."""
    if not state.options.checks:
        return Magnitudes({}, "", "the request asks for no checks")
    values, main = list(values), state.document.main
    names = sorted(name for scope, name in values if scope is main and name in main.producers)
    inside = any(scope is not main for scope, _ in values)
    inputs = os.fspath(state.options.inputs or "")
    files = [seen for _, seen in state.weights.needed()]
    if inputs and os.path.exists(inputs):
        files.append(Identity.of(os.stat(inputs)))
    key = (state.skeleton.SerializeToString(deterministic=True), tuple(names), inputs, *files)
    found = _last.get(key) if state.weights.file is not None else None
    if found is None:
        found = _run(state, names, inside, inputs)
        _last.clear()
        _last[key] = found
    return found


def _run(state: State, names: list[str], inside: bool, inputs: str) -> Magnitudes:
    """Runs the model in a child process, which may end without harm."""
    large = state.weights.size_with(state.skeleton) > LARGE
    with tempfile.TemporaryDirectory(prefix="opshift-") as folder:
        path = (_unchanged_source(state) if large else "") or os.path.join(folder, "model.onnx")
        if not large:
            weights.splice_to_run(state.skeleton, state.weights, path)
        elif os.path.dirname(path) == folder:
            # The child reads one weight after another from a file of data.
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
    """The path of the source, if nothing has changed yet, so that no weight is copied."""
    file = state.weights.file
    if file is None or file.piped or state.weights.moved:
        return ""
    return os.path.abspath(file.path) if weights.carve_file(file)[0] == state.skeleton else ""

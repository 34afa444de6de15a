# SPDX-License-Identifier: Apache-2.0
"""A shape with which a model runs is not refused: random sizes for the inputs of examples."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import PER_OPERATOR, SEED, wanted
from onnx import ModelProto, save
from opshift import BadTarget, InvalidModel, convert
from opshift.author import registry
from opshift.testing.case_files import examples_of
from opshift.testing.example_models import example_model, too_new
from opshift.verify import oracle

pytest.importorskip("onnxruntime", "1.23")

RUN = """
import json, sys
import numpy as np, onnxruntime
onnxruntime.set_default_logger_severity(4)
for line in open(sys.argv[1]):
    at, path, data = json.loads(line)
    print(at, flush=True)
    try:
        feeds = dict(np.load(data))
        onnxruntime.InferenceSession(path).run(None, feeds)
    except Exception:
        continue
    print("runs", at, flush=True)
"""
# onnxruntime computes these with other functions than the text of the operator: it broadcasts
# heads, batches, scales and biases that must be equal, takes a threshold from a list, and reads
# two rows of a larger matrix.
READ_LOOSELY = {"AffineGrid", "Attention", "GroupNormalization", "NonMaxSuppression"}
EXAMPLES = 60 * PER_OPERATOR


def drawn() -> Iterator[tuple[ModelProto, dict[str, Any]]]:
    """Models of examples in a random order, with free sizes, and the given inputs."""
    rng = random.Random(SEED if wanted else 0)
    declared = [(a, e) for a in registry.default().adapters() for e in examples_of(a)]
    rng.shuffle(declared)
    for adapter, example in declared:
        if example.invalid is not None or too_new(adapter, example):
            continue
        model = example_model(adapter, example)
        try:
            values = oracle.make_inputs(model, overrides=dict(example.inputs))
        except oracle.OracleError:
            continue
        defaults = {tensor.name for tensor in model.graph.initializer}
        values = {name: one for name, one in values.items() if name not in defaults}
        tensors = all(isinstance(value, np.ndarray) for value in values.values())
        if tensors and not READ_LOOSELY & {node.op_type for node in model.graph.node}:
            yield freed(model, values), values


def freed(model: ModelProto, values: dict[str, Any]) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        shape = info.type.tensor_type.shape
        if info.name in values:
            shape.SetInParent()
            del shape.dim[:]
            for axis in range(values[info.name].ndim):
                shape.dim.add().dim_param = f"{info.name}_{axis}"
    for info in copy.graph.output:
        info.type.tensor_type.ClearField("shape")
    return copy


def other_sizes(rng: random.Random, values: dict[str, Any]) -> dict[str, Any] | None:
    """The inputs with another size along one axis."""
    # The length of a list of axes or sizes is a rank, and no size.
    known = {
        n: one for n, one in values.items() if one.size and (one.ndim > 1 or one.dtype.kind == "f")
    }
    axes = [(name, axis) for name, one in known.items() for axis in range(one.ndim)]
    if not axes:
        return None
    name, axis = rng.choice(axes)
    shape = list(values[name].shape)
    shape[axis] = rng.choice([1, 2, shape[axis] + 1, shape[axis] * 2, max(1, shape[axis] - 1)])
    return {**values, name: np.resize(values[name], shape).astype(values[name].dtype)}


def test_no_shape_with_which_onnxruntime_runs_the_model_is_refused(tmp_path):
    rng, asked, refused = random.Random(SEED if wanted else 1), 0, dict[int, str]()
    lines = []
    for model, given in drawn():
        values = other_sizes(rng, given)
        if values is None:
            continue
        asked += 1
        try:
            convert(model, shape={name: one.shape for name, one in values.items()}, check="none")
        except (BadTarget, InvalidModel) as error:
            refused[asked] = f"{error}\n{model.graph}"
            path, data = tmp_path / f"{asked}.onnx", tmp_path / f"{asked}.npz"
            fixed = sized(model, values)
            save(fixed, path)
            np.savez(data, **values)
            lines.append(json.dumps((asked, str(path), str(data))))
        if asked == EXAMPLES:
            break
    assert len(refused) > asked // 20
    assert [refused[at] for at in run(lines, tmp_path)] == []


def sized(model: ModelProto, values: dict[str, Any]) -> ModelProto:
    """The model with the sizes: onnxruntime applies inference to them when it loads it."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        for dim, size in zip(info.type.tensor_type.shape.dim, values[info.name].shape, strict=True):
            dim.dim_value = size
    return copy


def run(lines: list[str], folder: Path) -> list[int]:
    """Returns the models that run; a child runs them, because some crash the process."""
    found: list[int] = []
    while lines:
        (folder / "models").write_text("\n".join(lines))
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(folder / "models")], capture_output=True, text=True
        )
        told = done.stdout.split("\n")
        found += [int(text.split()[1]) for text in told if text.startswith("runs ")]
        if done.returncode == 0:
            return found
        begun = [one for one in told if one.isdigit()]
        lines = lines[len(begun) :] if begun else []
    return found

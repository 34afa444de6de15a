# SPDX-License-Identifier: Apache-2.0
"""Law: an inferred length is equal to the computed length.

The inputs of official node tests lose some declared lengths, or become constants.
The lengths that are inferred then are compared with the published outputs.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import official_nodes
from onnx import ModelProto, TypeProto, numpy_helper
from opshift.author import registry
from opshift.author.inference import infer_all

SEED = 20261122
SAMPLE = int(os.environ.get("OPSHIFT_INFERRED", "60"))
ALWAYS = "attention"  # the operator that onnx's inference is known to misjudge


@functools.cache
def node_tests() -> list[Any]:
    """Returns the official node tests without the variants of function bodies."""
    cases = [case for case in official_nodes.collected() if "_expanded" not in case.name]
    return sorted(cases, key=lambda case: str(case.name))


def sample() -> list[tuple[Any, int]]:
    """Node tests, each with a seed; those of a misjudged operator several times."""
    known = [(case, seed) for case in node_tests() if ALWAYS in case.name for seed in range(3)]
    rng, tests = random.Random(SEED), node_tests()
    return known + [(rng.choice(tests), rng.randrange(1 << 30)) for _ in range(SAMPLE)]


def made_vague(case: Any, rng: random.Random) -> ModelProto:
    """Returns a node test with fewer declared lengths of inputs, and no types of outputs."""
    model = ModelProto.FromString(case.model.SerializeToString())
    for value, array in list(zip(model.graph.input, case.data_sets[0][0], strict=True)):
        if not is_tensor(value.type, array):
            continue
        if rng.random() < 0.4:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), value.name))
            model.graph.input.remove(value)
        else:
            _forget(value.type.tensor_type, value.name, rng)
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return model


def _forget(tensor: TypeProto.Tensor, name: str, rng: random.Random) -> None:
    if rng.random() < 0.25:
        tensor.ClearField("shape")
    for i, dim in enumerate(tensor.shape.dim if tensor.HasField("shape") else ()):
        if rng.random() < 0.5:
            dim.Clear()
            dim.dim_param = rng.choice(("", f"{name}_{i}"))


def is_tensor(kind: TypeProto, array: object) -> bool:
    """Whether a value is a tensor whose elements numpy has."""
    plain = isinstance(array, (np.ndarray, np.generic)) and array.dtype.kind in "biuf"
    return kind.HasField("tensor_type") and plain


def wrong_lengths(
    case: Any, model: ModelProto, types: Mapping[str, TypeProto | None]
) -> Iterator[str]:
    """The inferred shapes of outputs that the published outputs do not have."""
    for value, array in zip(model.graph.output, case.data_sets[0][1], strict=True):
        kind = types.get(value.name)
        if kind is None or not is_tensor(kind, array) or not kind.tensor_type.HasField("shape"):
            continue
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.tensor_type.shape.dim]
        shape = np.asarray(array).shape
        if len(dims) != len(shape) or any(
            told not in (-1, own) for told, own in zip(dims, shape, strict=True)
        ):
            yield f"{value.name} has the shape {shape}, and inference tells {dims}"


def test_an_inferred_length_is_the_computed_one() -> None:
    """A wrong length would be written into a result as a constant."""
    told = 0
    for case, seed in sample():
        model = made_vague(case, random.Random(seed))
        types = infer_all(model, registry.default()).types
        assert not list(wrong_lengths(case, model, types)), (case.name, seed)
        told += any(types.values())
    assert told > SAMPLE // 2, "inference tells too little for the law to mean anything"

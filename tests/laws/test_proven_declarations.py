# SPDX-License-Identifier: Apache-2.0
"""Law: no declaration is proven that inference of the whole model contradicts."""

from __future__ import annotations

import os
import random

from onnx import ModelProto
from opshift.author import agreement, registry, safe_inference
from opshift.author.declared import computed
from opshift.author.facts import Facts
from opshift.model import weights
from opshift.model.document import Document
from stale import is_plain, made_stale

import examples

SAMPLE = int(os.environ.get("OPSHIFT_PROPERTIES", "400"))
SEED = 20261129


def declared(case: examples.Case, rng: random.Random) -> ModelProto:
    """The model of an example with the types that onnx infers; a length of some is another one."""
    model = examples.model_of(case)
    found = made_stale(model, rng)[0] if rng.random() < 0.3 else model
    try:
        found = safe_inference.infer(found, registry.default(), data_prop=rng.random() < 0.5)
    except safe_inference.COMPLAINTS:
        return model
    for value in found.graph.value_info:
        dims = value.type.tensor_type.shape.dim
        if is_plain(value) and dims and rng.random() < 0.2:
            rng.choice(dims).dim_value = rng.randrange(1, 5)
        elif is_plain(value) and rng.random() < 0.05:
            dims.add().dim_value = 1
    return found


def verdict(model: ModelProto) -> tuple[bool, list[str]]:
    """Whether the declarations of a model are proven, and those that inference contradicts."""
    skeleton, large_tensors = weights.carve_model(model)
    facts = Facts(Document(skeleton), large_tensors, registry.default(), lambda: skeleton)
    values = list(computed(skeleton.graph, nested=False))
    proven = agreement.is_proven(skeleton.SerializeToString(), values, facts.adapters)
    assert facts.inferred  # so that the next line does not ask for a proof
    return proven, facts.correct()


def test_a_proven_declaration_is_not_contradicted():
    cases = [
        case for case in examples.cases() if not (examples.too_new(case) or case.example.invalid)
    ]
    rng, proofs, faults = random.Random(SEED), 0, 0
    for case in rng.sample(cases, min(SAMPLE, len(cases))):
        model = declared(case, rng)
        proven, wrong = verdict(model)
        proofs, faults = proofs + (proven and len(model.graph.value_info) > 0), faults + bool(wrong)
        assert not (proven and wrong), (case, wrong)
    assert proofs > 5
    assert faults > 20

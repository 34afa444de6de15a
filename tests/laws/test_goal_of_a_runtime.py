# SPDX-License-Identifier: Apache-2.0
"""Law: a result lacks a kernel in a release only if it lacks one at each opset that is allowed."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator

import pytest
from newest_onnx import IS_OLDER
from opshift import InvalidModel, Refused, convert_version
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.convert.runtime import kernel_lacks
from opshift.convert.runtime.support import ComparedModel, support_of
from opshift.model.document import Document
from opshift.model.imports import versions
from opshift.model.weights import Weights
from opshift.opsets import targets
from opshift.protos import ModelProto
from opshift.testing.example_models import example_model
from opshift.testing.surveys import subjects

SEED, SAMPLE = 20261128, int(os.environ.get("OPSHIFT_GOALS", "40"))
PACKAGE = "opshift_adapters"


def releases() -> list[targets.RuntimeRelease]:
    """The releases of onnxruntime whose kernels were measured."""
    named = (row for row in targets.table() if row.name == "onnxruntime" and not row.provider)
    return [row for row in named if row.kernels]


def cases() -> Iterator[tuple[str, ModelProto, targets.RuntimeRelease]]:
    """Examples of the adapters, each with a release, in a random order."""
    rng = random.Random(SEED)
    chosen = list(itertools.product(subjects(PACKAGE), releases()))
    rng.shuffle(chosen)
    for one, row in chosen:
        yield f"{one.name} for {row.shown}", example_model(one.adapter, one.example), row


def facts_of(model: ModelProto) -> Facts:
    return Facts(Document(model), Weights(), registry.default(), lambda: model)


def better(model: ModelProto, row: targets.RuntimeRelease) -> list[int]:
    """The opsets at which the release runs the model, if its result lacks a kernel."""
    try:
        result = convert_version(model, row.shown, keep_unrunnable=True)
    except (Refused, InvalidModel):
        return []
    facts = facts_of(result)
    if not kernel_lacks.without_kernel(facts, row):
        return []
    own = versions(result)
    allowed = range(row.floors.get("", 1), row.imports[""] + 1)
    return [opset for opset in allowed if opset != own.get("") and _runs(model, row, opset)]


def _runs(model: ModelProto, row: targets.RuntimeRelease, opset: int) -> bool:
    try:
        converted = convert_version(model, opset, ir_version=row.ir)
    except (Refused, InvalidModel):
        return False
    return not support_of(ComparedModel.of(facts_of(converted)), row).reasons


@pytest.mark.skipif(IS_OLDER, reason="the installed onnx is older")
def test_a_result_without_a_kernel_has_none_at_any_allowed_opset() -> None:
    sample = itertools.islice(cases(), SAMPLE)
    assert not {title: found for title, *case in sample if (found := better(*case))}

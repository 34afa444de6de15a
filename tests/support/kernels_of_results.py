# SPDX-License-Identifier: Apache-2.0
"""Finds written nodes for whose element types no release of onnxruntime has a kernel.

Each example, also with other element types and with unknown sizes and ranks, is converted over its
boundary and to the lower opsets that change an operator of the result before, down to 7, the lowest
that onnxruntime reads: between them, the result has the same nodes. The table of kernels
covers every node of an operator that the source does not have. An operator that stays may have a
type for which its older version has no kernel. Examples whose own nodes have no kernel are left
out, and so is bfloat16, in which onnxruntime computes nothing on the CPU.
`tests/adapters/kernels.toml` gives the reasons for the findings that stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from opshift import InvalidModel, Refused, convert_version
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.convert.legal import checker
from opshift.convert.request import AnyTarget
from opshift.convert.runtime import kernel_lacks
from opshift.model.document import Document
from opshift.model.imports import versions
from opshift.model.weights import Weights
from opshift.opsets import schemas, targets
from opshift.protos import ModelProto
from opshift.testing.example_models import example_model, example_target
from opshift.testing.surveys import ListedExample, pattern, reasons
from opshift.testing.variants import variants

PACKAGE = "opshift_adapters"
REASONS = Path(__file__).parents[1] / "adapters" / "kernels.toml"
LOWEST = 7  # onnxruntime reads no lower opset
NOT_COMPUTED = "bfloat16"


def findings(chosen: Iterable[ListedExample]) -> Iterator[str]:
    """A line for each operator without a kernel, of each example and variant."""
    for subject in chosen:
        for name, model in _models(subject):
            lacked = {key for key, _ in without_kernel(model)}
            if lacked or NOT_COMPUTED in str(model.graph.input):
                continue
            for target, after in _results(subject, model):
                for line in _lacking(model, after):
                    yield f"{subject.name} [{name}] to {target}: {line}"


def _models(subject: ListedExample) -> Iterator[tuple[str, ModelProto]]:
    model, adapters = example_model(subject.adapter, subject.example), registry.default()
    yield "as it is", model

    def wanted(name: str) -> bool:
        typed = name.startswith("of ") and not name.endswith(NOT_COMPUTED)
        return typed or name.startswith("unknown ")

    for name, variant in variants(model, subject.adapter.domain, subject.adapter.ops, wanted):
        if checker.whole(variant, adapters, full=True) is None:
            yield name, variant


def _results(subject: ListedExample, model: ModelProto) -> Iterator[tuple[AnyTarget, ModelProto]]:
    """The results at the target of an example, and at lower opsets."""
    target = example_target(subject.adapter, subject.example)
    reached = target.get("", 0) if isinstance(target, dict) else 0
    opset = min(reached or 1000, versions(model).get("", 0))
    before = model
    while target:  # each result is converted further, so that a boundary is passed once
        after = _converted(before, target)
        if after is not None and versions(after).get("", 0) >= LOWEST:
            yield target, after
            before = after if versions(after).get("", 0) == opset else before
        opset = _last_change(before, opset) - 1
        target = opset if opset >= LOWEST else None


def _converted(model: ModelProto, target: AnyTarget) -> ModelProto | None:
    try:
        return convert_version(model, target)
    except (InvalidModel, Refused):
        return None


def _last_change(model: ModelProto, opset: int) -> int:
    """The highest opset, up to this one, that changed an operator of a model."""
    keys = {key for root in _document(model).roots for key in root.index if not key[0]}
    schemas_of_keys = (schemas.schema(*key, opset) for key in keys)
    return max((schema.since for schema in schemas_of_keys if schema is not None), default=0)


def _lacking(before: ModelProto, after: ModelProto) -> list[str]:
    """The operators of the result that its source does not have, and that have no kernel."""
    had = {key for root in _document(before).roots for key in root.index}
    lacked = [(key, types) for key, types in without_kernel(after) if key not in had]
    return sorted({f"{op} of {', '.join(types)}" for (_, op), types in lacked})


def without_kernel(model: ModelProto) -> list[tuple[tuple[str, str], tuple[str, ...]]]:
    """The operators of a model for whose types no release has a kernel, with these types."""
    facts = Facts(_document(model), Weights(), registry.default(), lambda: model)
    pairs = kernel_lacks.without_kernel(facts, targets.some_release())
    return [(key, types) for _, key, types, _ in pairs]


def _document(model: ModelProto) -> Document:
    return Document(model, "opshift_")


def unexplained(lines: Iterable[str]) -> list[str]:
    """The lines of which no part is among the known ones."""
    patterns = [pattern(part) for part in reasons(REASONS)]
    return [line for line in lines if not any(part.search(line) for part in patterns)]

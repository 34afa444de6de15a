# SPDX-License-Identifier: Apache-2.0
"""The checker's objections but for those to what runtimes load and a conversion deals with."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.author.registry import Registry
from opshift.convert.legal import checker
from opshift.model import repair
from opshift.opsets import schemas
from opshift.protos import FunctionProto, GraphProto, ModelProto

_DEALT_WITH = (
    "Field 'shape' of 'type' is required",
    "Field 'type' of 'value_info' is required",
    "is not compatible with the version imported by model",
)


def objection(view: bytes | ModelProto, adapters: Registry, *, full: bool) -> str | None:
    """Like `checker.whole`, for inputs and outputs without a shape, and outputs without a type.

    Functions may import other versions than the model, because each is converted from its own.
    """
    error = checker.whole(view, adapters, full=full)
    if error is None or not any(words in error for words in _DEALT_WITH):
        return error
    for part in _parts(view):
        if (error := checker.whole(part, adapters, full=False)) is not None:
            return error
    return checker.types(view, adapters) if full else None


def _parts(view: bytes | ModelProto) -> Iterator[ModelProto]:
    """The model with a shape for each input and output, and functions of other versions alone."""
    model = ModelProto()
    model.MergeFromString(view if isinstance(view, bytes) else view.SerializeToString())
    typed = [value for value in model.graph.input if value.HasField("type")]
    for value in (*typed, *model.graph.output):
        if repair.is_vague(value.type):
            value.type.tensor_type.elem_type = value.type.tensor_type.elem_type or 1
            value.type.tensor_type.shape.SetInParent()
    versions = _versions(model)
    apart = [f for f in model.functions if not _versions(f).items() <= versions.items()]
    for function in apart:
        alone = GraphProto(name=function.name or repair.UNNAMED)
        yield ModelProto(
            ir_version=model.ir_version,
            opset_import=function.opset_import,
            functions=[function],
            graph=alone,
        )
        model.functions.remove(function)
    yield model


def _versions(owner: ModelProto | FunctionProto) -> dict[str, int]:
    return {schemas.normal(entry.domain): entry.version for entry in owner.opset_import}

# SPDX-License-Identifier: Apache-2.0
"""Calls the checker of onnx with messages or with their bytes."""

from __future__ import annotations

from opshift.protos import ModelProto, isolation, library, unknown_sizes

LARGEST = (1 << 31) - 1  # the largest message in bytes that every release of onnx reads
LARGEST_VERSION = library.LARGEST_VERSION
held_versions = library.held_versions
CheckerContext = library.checker.CheckerContext
LexicalScopeContext = library.checker.LexicalScopeContext
ValidationError = library.checker.ValidationError

check_tensor = library.checker.check_tensor
check_value_info = library.checker.check_value_info


def check_node(data: bytes, context: CheckerContext, names: LexicalScopeContext) -> None:
    """Raises a ValidationError if the checker rejects the node."""
    if isolation.uses_child():
        imports = list(context.opset_imports.items())
        isolation.call("check_node", data, context.ir_version, imports)
    else:
        library.checker.check_node(data, context, names)


def check_model(model: ModelProto | bytes, *, full_check: bool = False) -> None:
    """Raises a ValidationError if the checker rejects the model."""
    data = model if isinstance(model, bytes) else model.SerializeToString()
    if len(data) > LARGEST:
        raise ValueError(f"a model of {len(data)} bytes is too large for the checker")
    isolation.call("check_model", unknown_sizes.unknown(data), full_check)

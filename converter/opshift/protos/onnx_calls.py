# SPDX-License-Identifier: Apache-2.0
"""Defines the calls into the C++ code of onnx that read a model; they take and return bytes.

The module `isolation` makes each call in this process or in a child process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from opshift.protos import IR_VERSION, library

Named: TypeAlias = Sequence[tuple[str, Any]]  # the items of a dictionary


class OnnxEnded(RuntimeError):  # noqa: N818 - the name states what happened
    """The C++ code of onnx crashed its process, or did not finish within its time."""

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


def infer_shapes(data: bytes, check_type: bool, strict_mode: bool, data_prop: bool) -> bytes:
    inferred: bytes = library.shape_inference.infer_shapes(data, check_type, strict_mode, data_prop)
    return inferred


def infer_node_outputs(
    operator: tuple[str, str, int], node: bytes, types: Named, data: Named, imports: Named
) -> list[tuple[str, bytes]]:
    """Returns the output types of a node, by the schema of an operator."""
    outputs = _schema(*operator)._infer_node_outputs(
        node, dict(types), dict(data), {}, library.held_versions(dict(imports)), IR_VERSION
    )
    return list(outputs.items())


@functools.cache
def _schema(domain: str, op: str, since: int) -> Any:  # the type stubs of onnx lack the method
    return library.defs.get_schema(op, since, domain)


def check_model(data: bytes, full_check: bool) -> None:
    library.checker.check_model(data, full_check, False, False)


def check_node(data: bytes, ir_version: int, imports: Named) -> None:
    library.checker.check_node(
        data,
        _context(ir_version, tuple(map(tuple, imports))),
        library.checker.LexicalScopeContext(),
    )


@functools.lru_cache(64)
def _context(ir_version: int, imports: tuple[tuple[str, int], ...]) -> Any:
    context = library.checker.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = dict(imports)
    return context


def parse_model(text: str) -> bytes:
    """Parses a model in ONNX's text format."""
    try:
        read, message, data = library.parser.parse_model(text)
    except IndexError as error:  # the error only names the C++ function that parses numbers
        raise ValueError(f"a number is outside the range of its type ({error})") from None
    if not read:
        raise ValueError(
            message.decode(errors="replace") if isinstance(message, bytes) else message
        )
    return bytes(data)


def print_model(data: bytes) -> str:
    """Prints a model in ONNX's text format."""
    return str(library.printer.model_to_text(data))


CALLS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        infer_shapes, infer_node_outputs, check_model, check_node, parse_model, print_model
    )
}  # fmt: skip

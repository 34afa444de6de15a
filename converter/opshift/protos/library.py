# SPDX-License-Identifier: Apache-2.0
"""The C library of onnx: its checker, inference, parser and schemas, without the package onnx."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.protos import loading

loading.load(loading.LIBRARY)

from onnx.onnx_cpp2py_export import checker, defs, parser, printer, shape_inference  # noqa: E402

LARGEST_VERSION = (1 << 31) - 1

__all__ = ["checker", "defs", "held_versions", "parser", "printer", "shape_inference"]


def held_versions(imports: Mapping[str, int]) -> dict[str, int]:
    """The versions of imports, each as near as the library can hold one."""
    return {domain: max(0, min(at, LARGEST_VERSION)) for domain, at in imports.items()}

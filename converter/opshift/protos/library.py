# SPDX-License-Identifier: Apache-2.0
"""Provides the C library of onnx (checker, inference, parser, schemas) without the package."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.protos import loading

loading.load(loading.LIBRARY)

from onnx.onnx_cpp2py_export import checker, defs, parser, printer, shape_inference  # noqa: E402

LARGEST_VERSION = (1 << 31) - 1

__all__ = ["checker", "defs", "held_versions", "parser", "printer", "shape_inference"]


def held_versions(imports: Mapping[str, int]) -> dict[str, int]:
    """Limits the versions of imports to the range that the C library can store."""
    return {domain: max(0, min(at, LARGEST_VERSION)) for domain, at in imports.items()}

# SPDX-License-Identifier: Apache-2.0
"""The C library of onnx: its checker, its inference and its schemas, without the package onnx."""

from __future__ import annotations

from opshift.protos import loading

loading.load(loading.LIBRARY)

from onnx.onnx_cpp2py_export import checker, defs, shape_inference  # noqa: E402

__all__ = ["checker", "defs", "shape_inference"]

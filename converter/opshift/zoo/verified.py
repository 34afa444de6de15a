# SPDX-License-Identifier: Apache-2.0
"""Verifies in the worker that a result computes the same as its source model."""

from __future__ import annotations

import os

from opshift.convert.request import Request
from opshift.verify import extra
from opshift.verify.model_pair import has_results, verify
from opshift.verify.verification import EQUAL, LIKE
from opshift.zoo import files
from opshift.zoo.files import ConvertedModel
from opshift.zoo.layout import Layout


def runtime() -> str:
    """Returns the runtime that verifies results, with its version; raises MissingExtra."""
    return f"onnxruntime {extra.onnxruntime().__version__}"


def objection(
    made: ConvertedModel, folder: str, external: str, values: list[str], request: Request
) -> tuple[str, str]:
    """Returns an outcome and a sentence if a result differs from its source; else empty texts."""
    if not (values or has_results(made.skeleton)):
        return "no answer", "the model has no outputs to compare"
    os.makedirs(folder)
    path = os.path.join(folder, os.path.basename(made.of.path))
    files.spliced(made, path, external, Layout())
    verification = verify(
        made.of.path, path, request.inputs,
        isolated=False, values=values, in_double=bool(request.types),
    )  # fmt: skip
    if verification.equal:
        return "", ""
    row = next(row for row in verification.rows if row.outcome not in (EQUAL, LIKE))
    if row.output:
        cause = f"; {' '.join(str(verification.cause).split())}" if verification.cause else ""
        return row.outcome, f"output {row.output!r} differs: {row.detail}{cause}"
    return row.outcome, row.detail

# SPDX-License-Identifier: Apache-2.0
"""Tests in the worker whether a result is equal to its model."""

from __future__ import annotations

import os

from opshift.convert.request import Request
from opshift.verify import extra
from opshift.verify.model_pair import verify
from opshift.verify.verification import EQUAL, LIKE
from opshift.zoo import files
from opshift.zoo.files import ConvertedModel
from opshift.zoo.layout import Layout


def runtime() -> str:
    """The runtime for verification with its version; raises MissingExtra if it is missing."""
    return f"onnxruntime {extra.onnxruntime().__version__}"


def objection(
    made: ConvertedModel, folder: str, external: str, values: list[str], request: Request
) -> tuple[str, str]:
    """Why a result, or a value inside, was not shown to be equal: a word and a sentence, or ""."""
    os.makedirs(folder)
    path = os.path.join(folder, os.path.basename(made.of.path))
    files.spliced(made, path, external, Layout())
    found = verify(
        made.of.path, path, request.inputs,
        isolated=False, values=values, in_double=bool(request.types),
    )  # fmt: skip
    if found.equal:
        return "", ""
    row = next((row for row in found.rows if row.outcome not in (EQUAL, LIKE)), None)
    if row is None:
        return "no answer", "it has no outputs to compare"
    if row.output:
        cause = f"; {' '.join(str(found.cause).split())}" if found.cause else ""
        return row.outcome, f"output {row.output!r} differs: {row.detail}{cause}"
    return row.outcome, row.detail

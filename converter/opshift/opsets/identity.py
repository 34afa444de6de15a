# SPDX-License-Identifier: Apache-2.0
"""Normalizes the name of a domain, and rejects two versions of one domain."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.errors import InvalidModel


def normal(domain: str) -> str:
    """Returns the domain, with `ai.onnx` as the empty string."""
    return "" if domain == "ai.onnx" else domain


def require_one_version(domain: str, versions: Iterable[int], where: str) -> None:
    """Raises InvalidModel if a model or a function imports several versions of a domain."""
    different = sorted({*versions})
    if len(different) > 1:
        raise InvalidModel(
            f"{where} imports domain {domain or 'ai.onnx'!r} at several versions "
            f"({', '.join(map(str, different))}); keep one opset_import of it"
        )


def span_around(version: int, begins: Iterable[int], newest: int) -> tuple[int, int]:
    """Returns the first and the last version around `version` between which nothing begins."""
    first, last = 1, newest
    for begin in begins:
        if begin <= version:
            first = max(first, begin)
        else:
            last = min(last, begin - 1)
    return first, last

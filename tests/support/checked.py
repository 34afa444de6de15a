# SPDX-License-Identifier: Apache-2.0
"""The findings of single rules about a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from onnx import ModelProto
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.convert.legal.findings import Checked
from opshift.model import weights
from opshift.model.document import Document


def checked(proto: ModelProto) -> Checked:
    """Returns a model in the form that the rules read."""
    skeleton, large_tensors = weights.carve_model(proto)
    document, adapters = Document(skeleton), registry.default()
    return Checked(
        document,
        adapters,
        Facts(document, large_tensors, adapters, lambda: skeleton),
        large_tensors,
    )


def texts(findings: Iterable[Any]) -> list[str]:
    """Returns the messages of findings, which may contain names."""
    return [finding if isinstance(finding, str) else finding[1] for finding in findings]


def assert_finds(rule: Callable[[Any], Iterable[Any]], subject: Any, *patterns: str) -> None:
    """Requires one finding for each pattern, in this order, and no other."""
    messages = texts(rule(subject))
    assert len(messages) == len(patterns), messages
    for text, pattern in zip(messages, patterns, strict=True):
        assert re.search(pattern, text), (pattern, text)

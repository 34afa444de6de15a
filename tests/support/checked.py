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
    """A model as the rules look at it."""
    skeleton, large_tensors = weights.carve_model(proto)
    document, known = Document(skeleton), registry.default()
    return Checked(
        document, known, Facts(document, large_tensors, known, lambda: skeleton), large_tensors
    )


def texts(found: Iterable[Any]) -> list[str]:
    """The sentences of findings, which may have names."""
    return [one if isinstance(one, str) else one[1] for one in found]


def assert_finds(rule: Callable[[Any], Iterable[Any]], subject: Any, *patterns: str) -> None:
    """Requires one finding for each pattern, in this order, and no other."""
    found = texts(rule(subject))
    assert len(found) == len(patterns), found
    for text, pattern in zip(found, patterns, strict=True):
        assert re.search(pattern, text), (pattern, text)

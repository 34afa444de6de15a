# SPDX-License-Identifier: Apache-2.0
"""Finds operators by a word of their descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from opshift.opsets import schemas

SHORTEST = 5  # letters; a shorter word is in too many descriptions
FLEXIBLE = 2  # letters at the end that differ between forms, as in `multiply` and `multiplication`


def described_by(word: str, domain: str, operators: Iterable[str], count: int = 3) -> list[str]:
    """Returns operators whose description has the word in its first sentence; early words first."""
    if len(word) < SHORTEST:
        return []
    stem = re.compile(rf"\b{re.escape(word[: max(SHORTEST, len(word) - FLEXIBLE)])}", re.IGNORECASE)
    matches = []
    for op in operators:
        sentence = _first_sentence(domain, op)
        if match := stem.search(sentence):
            matches.append((match.start(), len(sentence), op))
    return [op for *_, op in sorted(matches)[:count]]


def _first_sentence(domain: str, op: str) -> str:
    if not (history := schemas.history(domain, op)):  # the installed onnx lacks the operator
        return ""
    text, _ = schemas.prose(domain, op, history[-1].since)
    return re.split(r"\.\s|\n\n", text.strip(), maxsplit=1)[0]

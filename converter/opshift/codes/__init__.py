# SPDX-License-Identifier: Apache-2.0
"""The codes of refusals, errors and assumptions: one page for each, from which messages quote."""

from __future__ import annotations

import functools
import pkgutil

from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class CodeText:
    """What a code means. The file `CODE.md` is the only source of these texts."""

    code: str
    sentence: str
    meaning: str
    cure: str
    text: str


@functools.cache
def names() -> tuple[str, ...]:
    """Every code that has a page, in alphabetical order."""
    from importlib.resources import files

    found = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(name[: -len(".md")] for name in found if name.endswith(".md")))


@functools.cache
def page(code: str) -> CodeText:
    """The page of a code; KeyError for a code that does not exist."""
    if code not in names():
        raise KeyError(code)
    text = (pkgutil.get_data(__name__, f"{code}.md") or b"").decode()
    head, meaning, cure = (part.strip() for part in text.split("\n## "))
    sentence = _body(head)
    return CodeText(code, sentence, _body(meaning), _body(cure), text)


def _body(section: str) -> str:
    """The paragraph below a heading, on one line."""
    return " ".join(section.partition("\n")[2].split())

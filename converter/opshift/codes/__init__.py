# SPDX-License-Identifier: Apache-2.0
"""The codes of errors and assumptions, a page for each, and of `refusals`; messages quote them."""

from __future__ import annotations

import functools
import pkgutil

from opshift import terms
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class CodeText:
    """The text of a code, from its file `CODE.md` or from `refusals`."""

    code: str
    sentence: str
    meaning: str
    cure: str
    text: str


@functools.cache
def names() -> tuple[str, ...]:
    """Every code that has a page, in alphabetical order."""
    from importlib.resources import files

    from opshift.codes.refusals import Why

    found = (entry.name for entry in files(__name__).iterdir())
    written = [name[: -len(".md")] for name in found if name.endswith(".md")]
    return tuple(sorted([*written, *Why.__members__]))


def page(code: str) -> CodeText:
    """The page of a code in the terms of the caller; KeyError for a code that does not exist."""
    return _page(code, terms.caller())


@functools.cache
def _page(code: str, caller: terms.Caller) -> CodeText:
    if code not in names():
        raise KeyError(code)
    text = terms.spelled(_text(code))
    head, meaning, cure = (part.strip() for part in text.split("\n## "))
    sentence = _body(head)
    return CodeText(code, sentence, _body(meaning), _body(cure), text)


def _text(code: str) -> str:
    from opshift.codes.refusals import Why

    if code in Why.__members__:
        return f"# {code}\n\n{Why[code].value}"
    return (pkgutil.get_data(__name__, f"{code}.md") or b"").decode()


def _body(section: str) -> str:
    """The paragraph below a heading, on one line."""
    return " ".join(section.partition("\n")[2].split())

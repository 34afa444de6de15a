# SPDX-License-Identifier: Apache-2.0
"""Splits the page of a code into its parts."""

from __future__ import annotations

import functools

from opshift import terms
from opshift.json_form import Form
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class CodeText(Form):
    """The page of a code, from its file `CODE.md` or from `refusals`."""

    PART = "page"

    code: str
    """The code."""
    sentence: str
    """The code in a sentence."""
    meaning: str
    """The meaning of the code."""
    cure: str
    """The action to take."""
    text: str
    """The whole page as Markdown."""


def parsed(code: str, text: str) -> CodeText:
    """Returns the parts of a page, with options in the spelling of the caller."""
    return _parsed(code, terms.spelled(text))


@functools.cache
def _parsed(code: str, text: str) -> CodeText:
    head, meaning, cure = (part.strip() for part in text.split("\n## "))
    return CodeText(code, _body(head), _body(meaning), _body(cure), text)


def of_reason(code: str, value: str) -> CodeText:
    """Returns the page of a reason for a refusal; its heading is the code of the reason."""
    return parsed(code, f"# {code}\n\n{value}")


def _body(section: str) -> str:
    """Returns the paragraph below a heading, on one line."""
    return " ".join(section.partition("\n")[2].split())

# SPDX-License-Identifier: Apache-2.0
"""Turns text into HTML: escaped by `text.markup`, with positions where a line may break."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from opshift.text import Line, Role, markup

TIMES = "\N{MULTIPLICATION SIGN}"
SHORT = 22  # the most letters of a name that is not broken
WHOLE = 16  # the most letters of a text that is not wrapped
LONGEST = 26  # the most letters that fit on a narrow screen
# A line breaks after a separator of path parts first, and inside a part only if necessary.
_SEPARATED = [re.compile(rf"(?<=[{one}])(?=.)") for one in (r"/\\|,;", r".=", r":_\-")]
_BUILD = re.compile(r"(?=\+g)")  # before the commit of a development version

_CODE = re.compile(r"`([^`]+)`")
CLASSES = {
    Role.PLAIN: "",
    Role.GOOD: "good",
    Role.CAUTION: "caution",
    Role.BAD: "bad",
    Role.FAINT: "soft",
}


def words(text: object) -> str:
    """Returns HTML that wraps at spaces, and inside long names only after separators.

    Text between backticks becomes code.
    """
    plain, *alternating = _CODE.split(str(text))
    html = _words(plain)
    if not alternating and " " in plain and len(plain) <= WHOLE:
        return f"<span class=whole>{html}</span>"
    for code, following in zip(alternating[::2], alternating[1::2], strict=True):
        html += f"<code>{_words(code)}</code>{_words(following)}"
    return html


def _words(text: str) -> str:
    pieces = [
        "<wbr>".join(_word(part) for piece in _BUILD.split(word) for part in _parts(piece))
        for word in text.split(" ")
    ]
    return " ".join(pieces).replace(f" {TIMES}", f"&nbsp;{TIMES}").replace(" →", "&nbsp;→")


def _parts(word: str, depth: int = 0) -> list[str]:
    """Splits a long name into parts; a short name, such as a date or a version, stays whole."""
    if len(word) <= SHORT or depth == len(_SEPARATED):
        return [word]
    return [piece for part in _SEPARATED[depth].split(word) for piece in _parts(part, depth + 1)]


def _word(word: str) -> str:
    """Returns the HTML of one word; a very long word is cut and gets a tooltip."""
    if len(word) <= LONGEST:
        return markup(word)
    return f'<span class="long" title="{markup(word)}">{markup(word)}</span>'


def marked(cell: Line | str) -> str:
    """Returns the HTML of a cell, in the colour of its role if it is a line."""
    if isinstance(cell, str):
        return words(cell)
    name = CLASSES[cell.role]
    return f'<span class="{name}">{words(cell.text)}</span>' if name else words(cell.text)


def repeated(names: Iterable[str], most: int | None = None) -> str:
    """Lists each name once, with a count after a name that occurs several times."""
    counts = Counter(names).most_common()
    parts = [name if n == 1 else f"{name} {TIMES}{n}" for name, n in counts[:most]]
    omitted = len(counts) - len(parts)
    return ", ".join([*parts, f"{omitted} more"] if omitted else parts) or "nothing"


def shortened(text: str, letters: int) -> str:
    """Shortens a name to its last parts that fit; one long word is cut at its end."""
    if len(text) <= letters:
        return text
    starts = [match.end() for match in re.finditer(r"[/.:]", text[:-1])]
    fits = next((at for at in starts if 4 < len(text) - at < letters), None)
    if fits is not None:
        return f"…{text[fits:]}"
    last = text[starts[-1] :] if starts else text
    return f"{last[: letters - 1]}…"

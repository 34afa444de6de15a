# SPDX-License-Identifier: Apache-2.0
"""Formats outcomes as coloured lines, and escapes them for a terminal or a page.

Names in a model may hold any characters, and lines contain these names unescaped. The functions of
this module escape lines, so that the returned text has no control characters except its own line
ends.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from opshift.json_form import Form


class Role(enum.Enum):
    """The meaning of a line, such as an error, with the ANSI code of its colour on a terminal."""

    PLAIN = ""
    GOOD = "32;1"
    CAUTION = "33;1"
    BAD = "31;1"
    FAINT = "2"


class Line(NamedTuple):
    """One line of an outcome; a line with `more` is shown only with -v."""

    text: str
    role: Role = Role.PLAIN
    more: bool = False


def printable(text: str) -> str:
    """Escapes control characters, line ends and characters that change the text direction."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def columns(text: str) -> int:
    """Returns the width of a text in terminal columns; a wide character has two columns."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def cut(text: str, width: int) -> str:
    """Cuts off the end of a text that is wider than this many columns, and adds dots."""
    if columns(text) <= width:
        return text
    while text and columns(text) > width - 3:
        text = text[:-1]
    return f"{text}..."


def folded(text: str, width: int) -> str:
    """Breaks a long text between words into lines; the later lines have a deeper indent."""
    if not width or columns(text) <= width:
        return text
    import textwrap

    indent = " " * (len(text) - len(text.lstrip(" ")) + 4)
    return textwrap.fill(
        text, max(width, 40), subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def plain(lines: Iterable[Line], *, more: bool = False, width: int = 0) -> str:
    """Joins lines without colours, folded at a width if one is given."""
    return "\n".join(folded(printable(line.text), width) for line in lines if more or not line.more)


def coloured(lines: Iterable[Line], *, more: bool = False, width: int = 0) -> str:
    """Joins lines with terminal colours, folded at a width if one is given."""
    return "\n".join(
        f"\x1b[{line.role.value}m{folded(printable(line.text), width)}\x1b[0m"
        if line.role.value
        else folded(printable(line.text), width)
        for line in lines
        if more or not line.more
    )


_STYLES = {
    Role.GOOD: "#1a7f37",
    Role.CAUTION: "#9a6700",
    Role.BAD: "#cf222e",
    Role.FAINT: "#6e7781",
}


def markup(text: str) -> str:
    """Escapes text for HTML; all text of a page passes through this function."""
    import html

    return html.escape(printable(text))


def notebook(lines: Iterable[Line]) -> str:
    """Returns lines as HTML for notebooks."""
    rows = []
    for line in lines:
        text = markup(line.text)
        colour = _STYLES.get(line.role)
        rows.append(f'<span style="color:{colour}">{text}</span>' if colour else text)
    return "<pre>" + "\n".join(rows) + "</pre>"


class Shown(Form):
    """An outcome that shells, notebooks and files show as lines; the first line is the answer."""

    __slots__ = ()

    def lines(self) -> Iterator[Line]:
        """Yields the answer, then the action to take, then the details."""
        raise NotImplementedError

    def __str__(self) -> str:
        return plain(self.lines())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {printable(next(self.lines()).text)}>"

    def _repr_html_(self) -> str:
        return notebook(self.lines())


def table(header: Iterable[str], rows: Iterable[Iterable[str]], indent: str = "") -> Iterator[Line]:
    """Yields the rows of a table whose columns are aligned with spaces."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for number, row in enumerate(cells):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        role = Role.PLAIN if number else Role.FAINT
        yield Line(indent + "  ".join(padded).rstrip(), role)


def show_versions(imports: Mapping[str, int]) -> str:
    """Returns versions as text, such as `opset 13` or `opset 13, ai.onnx.ml 3, IR 8`."""
    return ", ".join(f"{domain or 'opset'} {v}" for domain, v in sorted(imports.items()))


def qualified(domain: str, op: str) -> str:
    """Returns an operator with its domain, such as `com.acme.Gated`; omits the default domain."""
    return f"{domain}.{op}" if domain else op


def shortened(names: Sequence[str], most: int, things: str = "") -> str:
    """Returns the first names and the number of the others, as in `a, b and 3 more values`."""
    rest = f" and {len(names) - most} more {things}".rstrip() if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def counted(number: int, thing: str, things: str = "") -> str:
    """Returns a number with the singular or plural of a noun, such as `1 node` or `3 nodes`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def size(octets: int) -> str:
    """Returns a size in bytes with three digits and a decimal unit, such as `534 KB`."""
    value, unit = float(octets), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.3g} {unit}"


def cause_of(error: OSError) -> str:
    """Returns the file and the reason of an error of the operating system, without its number."""
    if not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def suggestion(
    word: str, candidates: Sequence[str], count: int = 3, key: Callable[[str], str] = str
) -> str:
    """Returns `; did you mean X?` with similar candidates; empty if no candidate is similar.

    `key` returns the part of a candidate that is compared, in which case and dashes do not count.
    """
    import difflib

    def compared(text: str) -> str:
        return key(text).lower().lstrip("-")

    by_key = {compared(candidate): candidate for candidate in candidates}
    near = difflib.get_close_matches(compared(word), by_key, n=count, cutoff=0.65)
    return f"; did you mean {', '.join(by_key[one] for one in near)}?" if near else ""


def is_utf8(text: bytes) -> bool:
    """Returns whether bytes are a text in UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True

# SPDX-License-Identifier: Apache-2.0
"""Shows outcomes as lines with roles, and escapes them once, for a terminal or a page.

Names in a model may hold anything. They are put into lines as they are. The text that this module
returns holds no control character except the ends of its own lines.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Role(enum.Enum):
    """The role of a line, with its colour on a terminal."""

    PLAIN = ""
    GOOD = "32;1"
    CAUTION = "33;1"
    BAD = "31;1"
    FAINT = "2"


class Line(NamedTuple):
    """One line of an outcome; only -v shows the lines of `more`."""

    text: str
    role: Role = Role.PLAIN
    more: bool = False


def printable(text: str) -> str:
    """Text with every control character escaped, line ends and changes of direction included."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def columns(text: str) -> int:
    """The width of a text in columns of a terminal; a wide letter has two columns."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def cut(text: str, width: int) -> str:
    """Text without its end, if a line of this width has no room for it."""
    if columns(text) <= width:
        return text
    while text and columns(text) > width - 3:
        text = text[:-1]
    return f"{text}..."


def folded(text: str, width: int) -> str:
    """Text whose lines end between words; the later lines are indented further than the first."""
    if not width or columns(text) <= width:
        return text
    import textwrap

    indent = " " * (len(text) - len(text.lstrip(" ")) + 4)
    return textwrap.fill(
        text, max(width, 40), subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def plain(lines: Iterable[Line], *, more: bool = False, width: int = 0) -> str:
    """Lines without colours, folded at a width if one is given."""
    return "\n".join(folded(printable(line.text), width) for line in lines if more or not line.more)


def coloured(lines: Iterable[Line], *, more: bool = False, width: int = 0) -> str:
    """Lines with the colours of a terminal, folded at a width if one is given."""
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
    """Text as escaped HTML: all text of a page passes through here."""
    import html

    return html.escape(printable(text))


def notebook(lines: Iterable[Line]) -> str:
    """Lines as a piece of HTML, for notebooks."""
    rows = []
    for line in lines:
        text = markup(line.text)
        colour = _STYLES.get(line.role)
        rows.append(f'<span style="color:{colour}">{text}</span>' if colour else text)
    return "<pre>" + "\n".join(rows) + "</pre>"


class Shown:
    """An outcome with lines, the verdict first, for shells, notebooks and files."""

    __slots__ = ()

    def lines(self) -> Iterator[Line]:
        """The verdict, then the remedy, then the detail."""
        raise NotImplementedError

    def __str__(self) -> str:
        return plain(self.lines())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {printable(next(self.lines()).text)}>"

    def _repr_html_(self) -> str:
        return notebook(self.lines())


def table(header: Iterable[str], rows: Iterable[Iterable[str]], indent: str = "") -> Iterator[Line]:
    """Columns lined up with spaces."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for number, row in enumerate(cells):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        role = Role.PLAIN if number else Role.FAINT
        yield Line(indent + "  ".join(padded).rstrip(), role)


def show_versions(imports: Mapping[str, int]) -> str:
    """`opset 13`, or `opset 13, ai.onnx.ml 3, IR 8`."""
    return ", ".join(f"{domain or 'opset'} {v}" for domain, v in sorted(imports.items()))


def qualified(domain: str, op: str) -> str:
    """`Relu`, or `com.acme.Gated`: an operator with its domain, except the default domain."""
    return f"{domain}.{op}" if domain else op


def shortened(names: Sequence[str], most: int, things: str = "") -> str:
    """`a, b and 3 more values`: the first names of a list, and how many others there are."""
    rest = f" and {len(names) - most} more {things}".rstrip() if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def counted(number: int, thing: str, things: str = "") -> str:
    """`1 node`, `3 nodes`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def size(octets: int) -> str:
    """`534 KB`: three digits and a unit of a thousand."""
    value, unit = float(octets), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.3g} {unit}"


def suggestion(word: str, known: Sequence[str], count: int = 3) -> str:
    """`; did you mean X?`, or an empty text if no known word is similar."""
    import difflib

    lowered = {one.lower().lstrip("-"): one for one in known}
    near = difflib.get_close_matches(word.lower().lstrip("-"), lowered, n=count)
    return f"; did you mean {', '.join(lowered[one] for one in near)}?" if near else ""

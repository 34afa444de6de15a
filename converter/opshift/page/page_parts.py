# SPDX-License-Identifier: Apache-2.0
"""Defines the blocks of a page: tables, notes, pairs of drawings, and releases of runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from opshift.page.drawing import Drawing
from opshift.page.markup import CLASSES, marked, words
from opshift.records import dataclass
from opshift.text import Line, Role, counted, markup

Cell: TypeAlias = "Line | str"
SHOWN = 200  # the most names of a list


class Block(Protocol):
    """A block of a section."""

    def html(self) -> str:
        """Returns the block as HTML."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header; the columns in `numbers` are aligned to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: frozenset[int] = frozenset()

    def html(self) -> str:
        """Returns an HTML table; a narrow screen shows each row as a card with labels."""
        head = "".join(
            f"<th{self._kind(i)} scope=col>{words(name)}" for i, name in enumerate(self.header)
        )
        return (
            f"<table class=rows><thead><tr>{head}</thead>"
            f"<tbody>{''.join(map(self._row, self.rows))}</tbody></table>"
        )

    def _row(self, row: Sequence[Cell]) -> str:
        cells = zip(self.header, row, strict=True)
        return "<tr>" + "".join(
            f'<td{self._kind(i)} data-name="{markup(name)}"><span>{marked(cell)}</span>'
            for i, (name, cell) in enumerate(cells)
        )

    def _kind(self, column: int) -> str:
        return " class=number" if column in self.numbers else ""


@dataclass(frozen=True, slots=True)
class Notes:
    """A list of sentences, each on its own line."""

    lines: Sequence[Line]

    def html(self) -> str:
        """Returns an HTML list, in which each line has the colour of its role."""
        rows = (f'<li class="{CLASSES[line.role]}">{words(line.text)}' for line in self.lines)
        return f"<ul class=notes>{''.join(rows)}</ul>"


@dataclass(frozen=True, slots=True)
class NameList:
    """A long list of names that can be expanded."""

    title: str
    names: Sequence[str]

    def html(self) -> str:
        """Returns the HTML of the list, which is collapsed if it is long."""
        more = len(self.names) - SHOWN
        listed = "".join(f"<li>{words(name)}" for name in self.names[:SHOWN])
        listed += f"<li>and {more:,} more" if more > 0 else ""
        shown = " open" if len(self.names) <= 3 else ""
        return f"<details{shown}><summary>{words(self.title)}</summary><ul>{listed}</ul></details>"


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """One kind of rewriting: drawings before and after, and the nodes that it rewrote."""

    title: str
    note: str
    before: Drawing
    after: Drawing
    places: NameList

    def html(self) -> str:
        """Returns the HTML of both drawings, side by side if the screen is wide enough."""
        sides = "".join(
            f"<figure><figcaption>{name}</figcaption>{drawing.svg()}</figure>"
            for name, drawing in (("Before", self.before), ("After", self.after))
        )
        note = f"<p class=soft>{words(self.note)}</p>" if self.note else ""
        return (
            f"<article class=pair><h3>{words(self.title)}</h3>{note}"
            f"<div class=sides>{sides}</div>{self.places.html()}</article>"
        )


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """One release of a runtime: whether it runs the model before and after the conversion."""

    runtime: str
    name: str
    before: str
    after: str
    why: str = ""

    @property
    def state(self) -> str:
        """The CSS class of the release, by whether it runs the model before and after."""
        if "not known" in (self.before, self.after):
            return "unknown"
        return {("yes", "yes"): "both", ("no", "yes"): "gained", ("yes", "no"): "lost"}.get(
            (self.before, self.after), "neither"
        )


STATES = {
    "both": "before and after",
    "gained": "only after",
    "lost": "only before",
    "neither": "neither",
    "unknown": "not known",
}
_ROLES = {"gained": Role.GOOD, "lost": Role.BAD}


@dataclass(frozen=True, slots=True)
class Releases:
    """The releases of every runtime, as a row of coloured labels for each runtime."""

    releases: Sequence[ReleaseAnswer]

    def html(self) -> str:
        """Returns the HTML: a row for each runtime, and a legend of the colours."""
        rows: dict[str, list[ReleaseAnswer]] = {}
        for release in self.releases:
            rows.setdefault(release.runtime, []).append(release)
        body = "".join(
            f"<dt>{words(runtime)}<dd>{''.join(map(_chip, listed))}"
            for runtime, listed in rows.items()
        )
        met = {release.state for release in self.releases}
        key = "".join(
            f'<span class="chip {state}">{text}</span>'
            for state, text in STATES.items()
            if state in met
        )
        return f"<p class=key>{key}</p><dl class=releases>{body}</dl>"


def _chip(release: ReleaseAnswer) -> str:
    tooltip = f"{STATES[release.state]}{': ' + release.why if release.why else ''}"
    name = release.name or "any release"
    return f'<span class="chip {release.state}" title="{markup(tooltip)}">{words(name)}</span>'


@dataclass(frozen=True, slots=True)
class Folded:
    """A block that is collapsed until a reader opens it."""

    title: str
    block: Block

    def html(self) -> str:
        """Returns the HTML: the title, which opens the block, and the block."""
        return f"<details><summary>{words(self.title)}</summary>{self.block.html()}</details>"


def reasons(releases: Sequence[ReleaseAnswer]) -> Folded:
    """Returns a table of the reasons why releases cannot run the model, before or after."""
    rows = [
        (
            f"{release.runtime} {release.name}".strip(),
            Line(STATES[release.state], _ROLES.get(release.state, Role.FAINT)),
            release.why,
        )
        for release in releases
        if release.why
    ]
    table = Table(("Runtime", "Runs the model", "First reason against it"), rows)
    return Folded(f"Reasons of {counted(len(rows), 'release')}", table)

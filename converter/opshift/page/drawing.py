# SPDX-License-Identifier: Apache-2.0
"""Draws a small graph as SVG: boxes in rows by their depth, connected by wires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TypeAlias

from opshift.page.markup import shortened
from opshift.records import dataclass
from opshift.text import counted, markup

BOLD, THIN, MONO = 8.3, 6.9, 7.3  # widths of a letter in pixels, by font
WIDEST, LABEL = 24, 18  # the most letters of a line in a box, and of the label of a value
PAD, LINE = 10, 16  # padding inside a box, height of a line
GAP, BETWEEN = 16, 34  # gaps between the boxes of a row, and between rows
ROOM = 430.0  # the most width of a row before it is split
LINES, BOXES = 5, 24  # the most lines of a box, and the most boxes before only counts are drawn

End: TypeAlias = tuple[bool, int]  # (true for a box or false for an input, its number)


ADDED, REMOVED = "+", "\N{MINUS SIGN}"  # marks of items that are in only one of two drawings
_MARKS = {"": "", ADDED: " added", REMOVED: " removed"}


@dataclass(frozen=True, slots=True)
class Box:
    """A node: its operator, its attributes and its constants, such as `axis` and `1`.

    `inputs` lists the constants in `holds` that are inputs of the node. `sign` marks a node that
    the other drawing of a pair lacks. `signs` marks the attributes and constants that the other
    drawing lacks.
    """

    op: str
    holds: tuple[tuple[str, str], ...] = ()
    inputs: frozenset[str] = frozenset()
    sign: str = ""
    signs: tuple[str, ...] = ()

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The attributes and constants of the node, one per line, each with its mark."""
        signs = self.signs or ("",) * len(self.holds)
        lines = [
            (f"{name} = {value}" if value else name, sign)
            for (name, value), sign in zip(self.holds, signs, strict=True)
        ]
        # marked lines come first, so that they are always visible
        lines.sort(key=lambda line: not line[1])
        more = len(lines) - LINES
        return lines if more <= 1 else [*lines[:LINES], (f"and {more} more", "")]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph as boxes, with the inputs and outputs of the graph."""

    boxes: tuple[Box, ...] = ()
    inputs: tuple[str, ...] = ()
    wires: tuple[tuple[End, int], ...] = ()  # (source, box that reads it)
    outputs: tuple[tuple[str, int], ...] = ()  # (name, box that computes it)

    def svg(self) -> str:
        """Returns the drawing as SVG; a large graph becomes one box that counts each operator."""
        if not self.boxes:
            return "<p class=soft>No node is left.</p>"
        return _Layout(self if len(self.boxes) <= BOXES else self._counted()).svg()

    def _counted(self) -> Drawing:
        counts = Counter(box.op for box in self.boxes).most_common()
        ends = tuple((name, 0) for name, _ in self.outputs)
        wires = tuple(((False, i), 0) for i in range(len(self.inputs)))
        kinds = [Box(counted(len(self.boxes), "node"), tuple((op, f"{n}") for op, n in counts))]
        return Drawing(tuple(kinds), self.inputs, wires, ends)


@dataclass(slots=True)
class _Item:
    """A box or the label of a value, with its position."""

    title: str
    lines: list[tuple[str, str]]
    label: bool
    sign: str = ""
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0

    def __post_init__(self) -> None:
        letters = [(THIN if self.label else BOLD) * len(self.shown)]
        letters += [MONO * min(len(_signed(*line)), WIDEST) for line in self.lines]
        self.width = max([*letters, 24.0]) + 2 * PAD
        self.height = 24.0 if self.label else 28.0 + LINE * len(self.lines)

    @property
    def shown(self) -> str:
        """The title, shortened to the available space."""
        room = LABEL if self.label else WIDEST
        return _signed(shortened(self.title, room - 2 * bool(self.sign)), self.sign)

    def svg(self) -> str:
        """Returns the shape with its text as SVG."""
        kind, radius = ("value", 12) if self.label else ("box", 6)
        middle = self.x + self.width / 2
        tooltip = " | ".join(
            [_signed(self.title, self.sign), *(_signed(*pair) for pair in self.lines)]
        )
        parts = [
            f'<g class="{kind}{_MARKS[self.sign]}"><title>{markup(tooltip)}</title>'
            f'<rect x="{self.x:.1f}" y="{self.y:.1f}" width="{self.width:.1f}"'
            f' height="{self.height:.1f}" rx="{radius}"/>',
            f'<text class="op" x="{middle:.1f}" y="{self.y + (16 if self.label else 18):.1f}">'
            f"{markup(self.shown)}</text>",
        ]
        for number, (line, sign) in enumerate(self.lines, 1):
            y = self.y + 18 + LINE * number
            text = markup(_signed(shortened(line, WIDEST - 2 * bool(sign)), sign))
            mark = f' class="{_MARKS[sign].strip()}"' if sign else ""
            parts.append(f'<text{mark} x="{middle:.1f}" y="{y:.1f}">{text}</text>')
        return "".join(parts) + "</g>"


def _signed(text: str, sign: str) -> str:
    """Adds a mark to a text, as in `+ axis = 1`."""
    return f"{sign} {text}" if sign else text


@dataclass(slots=True)
class _Layout:
    """Positions all items: inputs at the top, boxes by their depth, outputs at the bottom."""

    drawing: Drawing
    items: list[_Item] = field(default_factory=list)
    wires: list[tuple[int, int]] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    width: float = 0.0

    def __post_init__(self) -> None:
        drawing, first = self.drawing, len(self.drawing.inputs)
        last = first + len(drawing.boxes)
        self.items = [_Item(name, [], label=True) for name in drawing.inputs]
        self.items += [_Item(box.op, box.lines, False, box.sign) for box in drawing.boxes]
        self.items += [_Item(name, [], label=True) for name, _ in drawing.outputs]
        self.wires = [(n + first * is_box, to + first) for (is_box, n), to in drawing.wires]
        self.wires += [(box + first, last + i) for i, (_, box) in enumerate(drawing.outputs)]
        self.rows = [part for row in self._ranked(last) for part in self._split(row)]
        self._place()

    def _ranked(self, last: int) -> list[list[int]]:
        """Groups the items in rows; an input is in the row above the first box that reads it."""
        depths = [0] * len(self.items)
        first = len(self.drawing.inputs)
        for _ in self.items:  # a graph has no cycle, so this number of rounds is sufficient
            moved = False
            for start, to in self.wires:
                if depths[to] <= depths[start]:
                    depths[to], moved = depths[start] + 1, True
            if not moved:
                break
        for number in range(first):
            reading = [depths[to] for start, to in self.wires if start == number]
            depths[number] = min(reading, default=1) - 1
        bottom = max(depths[:last], default=0) + 1
        depths[last:] = [bottom] * (len(depths) - last)
        rows: list[list[int]] = [[] for _ in range(bottom + 1)]
        for number, depth in enumerate(depths):
            rows[depth].append(number)
        return [self._ordered(row) for row in rows if row]

    def _ordered(self, row: list[int]) -> list[int]:
        """Sorts a row by the positions of its inputs, so that few wires cross."""
        sources: dict[int, list[int]] = {}
        for start, to in self.wires:
            sources.setdefault(to, []).append(start)
        return sorted(row, key=lambda n: (sum(sources.get(n, [n])) / len(sources.get(n, [n])), n))

    def _split(self, row: Sequence[int]) -> Iterator[list[int]]:
        """Splits a row that is too wide into several rows."""
        part, width = list[int](), 0.0
        for number in row:
            wide = self.items[number].width + GAP
            if part and width + wide > ROOM:
                yield part
                part, width = [], 0.0
            part.append(number)
            width += wide
        yield part

    def _place(self) -> None:
        widths = [sum(self.items[n].width for n in row) + GAP * (len(row) - 1) for row in self.rows]
        self.width, y = max(widths) + 2, 1.0
        for row, wide in zip(self.rows, widths, strict=True):
            x = (self.width - wide) / 2
            for number in row:
                self.items[number].x, self.items[number].y = x, y
                x += self.items[number].width + GAP
            y += max(self.items[n].height for n in row) + BETWEEN

    def svg(self) -> str:
        """Returns the SVG, in which wires come first, so that boxes cover them."""
        tall = max(item.y + item.height for item in self.items) + 1
        operators = ", ".join(box.op for box in self.drawing.boxes)
        return (
            f'<svg class="draw" viewBox="0 0 {self.width:.0f} {tall:.0f}" width="{self.width:.0f}"'
            f' role="img" aria-label="{markup(operators)}">'
            + "".join(self._drawn_wires())
            + "".join(item.svg() for item in self.items)
            + "</svg>"
        )

    def _drawn_wires(self) -> Iterator[str]:
        outgoing: dict[int, list[int]] = {}
        incoming: dict[int, list[int]] = {}
        for number, (start, to) in enumerate(self.wires):
            outgoing.setdefault(start, []).append(number)
            incoming.setdefault(to, []).append(number)
        for number, (start, to) in enumerate(self.wires):
            source, end = self.items[start], self.items[to]
            x1, x2 = source.x + source.width / 2, _port(end, incoming[to], number)
            y1, y2 = source.y + source.height, end.y
            bend = max((y2 - y1) / 2, 14)
            yield (
                f'<path class="wire" d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f}'
                f' {y2 - bend:.1f} {x2:.1f} {y2 - 5:.1f}"/>'
                f'<path class="tip" d="M{x2 - 3.5:.1f} {y2 - 6:.1f}h7l-3.5 5.5z"/>'
            )


def _port(item: _Item, wires: list[int], wire: int) -> float:
    """Returns the x position at which a wire ends at the top of an item, next to other wires."""
    return item.x + item.width * (wires.index(wire) + 1) / (len(wires) + 1)

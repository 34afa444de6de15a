# SPDX-License-Identifier: Apache-2.0
"""Marks the items that only one of two drawings has, and describes the change in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from opshift.page.drawing import ADDED, REMOVED, Box, Drawing
from opshift.page.markup import repeated
from opshift.text import shortened

VARIES = "varies"  # stands for a value that differs between the nodes of one form
MOST = 3  # the most changes in a title
Pairs = list[tuple[int, int]]


def marked(before: Drawing, after: Drawing) -> tuple[Drawing, Drawing]:
    """Returns both drawings with a mark at each box or value that the other drawing lacks."""
    pairs = _pairs(before.boxes, after.boxes)
    counterparts = [{i: after.boxes[j] for i, j in pairs}, {j: before.boxes[i] for i, j in pairs}]
    left, right = (
        tuple(_marked(box, other.get(i), sign) for i, box in enumerate(drawing.boxes))
        for drawing, other, sign in zip(
            (before, after), counterparts, (REMOVED, ADDED), strict=True
        )
    )
    return replace(before, boxes=left), replace(after, boxes=right)


def title(before: Drawing, after: Drawing) -> str:
    """Describes the change, as `Gemm: zero C added`, or lists the operators before and after."""
    pairs = _pairs(before.boxes, after.boxes)
    if not pairs:
        sides = (repeated((box.op for box in side.boxes), 4) for side in (before, after))
        return " \N{RIGHTWARDS ARROW} ".join(sides)
    changes = [text for i, j in pairs for text in _changes(before.boxes[i], after.boxes[j])]
    kept_before, kept_after = {i for i, _ in pairs}, {j for _, j in pairs}
    for drawing, kept, verb in ((before, kept_before, "removed"), (after, kept_after, "added")):
        if names := [box.op for i, box in enumerate(drawing.boxes) if i not in kept]:
            changes.append(f"{repeated(names, 4)} {verb}")
    stays = repeated((before.boxes[i].op for i, _ in pairs), 4)
    texts = list(dict.fromkeys(changes)) or ["other inputs"]
    return f"{stays}: {shortened(texts, MOST, 'changes')}"


def _pairs(before: Sequence[Box], after: Sequence[Box]) -> Pairs:
    """Pairs the boxes of equal operators in both drawings, in order."""
    waiting: dict[str, list[int]] = {}
    for number, box in enumerate(after):
        waiting.setdefault(box.op, []).append(number)
    return [(i, waiting[box.op].pop(0)) for i, box in enumerate(before) if waiting.get(box.op)]


def _marked(box: Box, other: Box | None, sign: str) -> Box:
    if other is None:
        return replace(box, sign=sign)
    stays = _held(box) & _held(other)
    signs = tuple("" if (name, value, name in box.inputs) in stays else sign
                  for name, value in box.holds)  # fmt: skip
    return replace(box, signs=signs)


def _held(box: Box) -> set[tuple[str, str, bool]]:
    """Returns the content of a node: name, value, and whether it is an input."""
    return {(name, value, name in box.inputs) for name, value in box.holds}


def _changes(before: Box, after: Box) -> Iterator[str]:
    """Yields the changes of an operator in words."""
    old, new = dict(before.holds), dict(after.holds)
    for name, value in new.items():
        if name not in old:
            yield f"{_described(after, name, value)} added"
        elif (name in before.inputs) != (name in after.inputs):
            yield f"{name} became {'an input' if name in after.inputs else 'an attribute'}"
        elif old[name] != value:
            varies = VARIES in (old[name], value)
            yield f"{name} changed" + ("" if varies else f" from {old[name]} to {value}")
    for name, value in old.items():
        if name not in new:
            yield f"{_described(before, name, value)} removed"


def _described(box: Box, name: str, value: str) -> str:
    """Describes a constant or an attribute, as `zero C` or `axis 1`."""
    numbers = value.replace("[", "").replace("]", "").split(", ")
    if name in box.inputs and all(number in ("0", "0.0", "-0.0") for number in numbers):
        return f"zero {name}"
    return name if value in ("", VARIES) else f"{name} {value}"

# SPDX-License-Identifier: Apache-2.0
"""Draws a Sankey diagram as SVG: bands from opset to opset, as wide as their number of models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from opshift.text import counted, markup

WIDTH, LEFT, RIGHT, BAR, GAP, TALL = 500, 130, 340, 10, 20, 300  # GAP leaves room for a label

Flow = tuple[str, str, str]  # (opset before, opset after, CSS class)


def draw(flows: Mapping[Flow, int]) -> str:
    """Returns the diagram as SVG; a click on a band or a bar filters the list of models."""
    if not flows:
        return "<p class=soft>No models.</p>"
    scale = TALL / sum(flows.values())
    before, after = _stack(flows, 0, scale), _stack(flows, 1, scale)
    bars = [_bar(LEFT, name, *place, end=True) for name, place in before.items()]
    bars += [_bar(RIGHT, name, *place, end=False) for name, place in after.items()]
    parts = []
    left, right = ({name: y for name, (y, _, _) in side.items()} for side in (before, after))
    for (start, to, kind), count in sorted(flows.items(), key=lambda item: _order(item[0])):
        wide = count * scale
        band = _band(left[start] + wide / 2, right[to] + wide / 2, wide)
        title = f"{_label(start)} → {_label(to)}: {counted(count, 'model')}"
        press = _press(before=start, after=to)
        parts.append(
            f'<path class="flow {kind}" {band} {press}><title>{markup(title)}</title></path>'
        )
        left[start] += wide
        right[to] += wide
    tall = TALL + GAP * (max(len(before), len(after)) + 1)
    return (
        f'<svg class="sankey" viewBox="0 0 {WIDTH} {tall}" width="{WIDTH}" role="group"'
        f' aria-label="Opsets before and after">{"".join([*parts, *bars])}</svg>'
    )


def _press(**filters: str) -> str:
    """Returns the attributes that make an element filter the list of models on a click."""
    return f'tabindex="0" role="button" data-filter="{markup(json.dumps(filters))}"'


def _label(name: str) -> str:
    return f"opset {name}" if name.isdecimal() else name


def _stack(
    flows: Mapping[Flow, int], side: int, scale: float
) -> dict[str, tuple[float, float, int]]:
    """Returns (top, height, models) for each bar of one side."""
    totals: Counter[str] = Counter()
    for flow, count in flows.items():
        totals[flow[side]] += count
    places, y = {}, float(GAP)
    for name in sorted(totals, key=_rank):
        places[name] = (y, totals[name] * scale, totals[name])
        y += totals[name] * scale + GAP
    return places


def _rank(name: str) -> tuple[bool, int, str]:
    """Returns a sort key: opsets by number, then other names by text."""
    return not name.isdecimal(), int(name) if name.isdecimal() else 0, name


def _order(flow: Flow) -> tuple[tuple[bool, int, str], ...]:
    return _rank(flow[0]), _rank(flow[1]), _rank(flow[2])


def _bar(x: float, name: str, y: float, height: float, count: int, *, end: bool) -> str:
    label = markup(f"{_label(name)} ({count:,})")
    at, anchor = (x - 8, "end") if end else (x + BAR + 8, "start")
    press = _press(before=name) if end else _press(after=name)
    return (
        f'<g class="bar" {press}><rect x="{x}" y="{y:.1f}" width="{BAR}"'
        f' height="{max(height, 1):.1f}"/><text x="{at}" y="{y + height / 2 + 4:.1f}"'
        f' text-anchor="{anchor}">{label}</text></g>'
    )


def _band(start: float, to: float, wide: float) -> str:
    left, right, middle = LEFT + BAR, RIGHT, (LEFT + BAR + RIGHT) / 2
    path = f"M{left} {start:.1f}C{middle} {start:.1f} {middle} {to:.1f} {right} {to:.1f}"
    return f'd="{path}" stroke-width="{max(wide, 1):.1f}"'

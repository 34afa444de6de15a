"""A Sankey diagram as SVG: bands from what was to what is, as wide as there are models."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping

WIDTH, LEFT, RIGHT, BAR, GAP, TALL = 720, 120, 580, 12, 16, 320  # a gap holds a label

Flow = tuple[str, str, str]  # (before, after, kind)


def draw(flows: Mapping[Flow, int]) -> str:
    """The diagram; `kind` becomes the class of a band."""
    if not flows:
        return '<p class="soft">No models.</p>'
    scale = TALL / sum(flows.values())
    before, after = _stack(flows, 0, scale), _stack(flows, 1, scale)
    parts = [_bar(LEFT, name, *place, end=True) for name, place in before.items()]
    parts += [_bar(RIGHT, name, *place, end=False) for name, place in after.items()]
    left, right = ({name: y for name, (y, _, _) in side.items()} for side in (before, after))
    for (start, to, kind), count in sorted(flows.items(), key=lambda item: _order(item[0])):
        wide = count * scale
        parts.append(_band(left[start] + wide / 2, right[to] + wide / 2, wide, kind, count))
        left[start] += wide
        right[to] += wide
    tall = TALL + GAP * (max(len(before), len(after)) + 1)
    return f'<svg viewBox="0 0 {WIDTH} {tall}" width="{WIDTH}" role="img">{"".join(parts)}</svg>'


def _stack(
    flows: Mapping[Flow, int], side: int, scale: float
) -> dict[str, tuple[float, float, int]]:
    """(top, height, models) of each bar of one side."""
    totals: Counter[str] = Counter()
    for flow, count in flows.items():
        totals[flow[side]] += count
    places, y = {}, float(GAP)
    for name in sorted(totals, key=_rank):
        places[name] = (y, totals[name] * scale, totals[name])
        y += totals[name] * scale + GAP
    return places


def _rank(name: str) -> tuple[bool, int, str]:
    """Opsets by number, then the rest by name."""
    return not name.isdecimal(), int(name) if name.isdecimal() else 0, name


def _order(flow: Flow) -> tuple[tuple[bool, int, str], ...]:
    return _rank(flow[0]), _rank(flow[1]), _rank(flow[2])


def _bar(x: float, name: str, y: float, height: float, count: int, *, end: bool) -> str:
    label = html.escape(f"opset {name}" if name.isdecimal() else name)
    words = f"{label} ({count})"
    at, anchor = (x - 8, "end") if end else (x + BAR + 8, "start")
    return (
        f'<rect class="bar" x="{x}" y="{y:.1f}" width="{BAR}" height="{max(height, 1):.1f}"/>'
        f'<text x="{at}" y="{y + height / 2 + 4:.1f}" text-anchor="{anchor}">{words}</text>'
    )


def _band(start: float, to: float, wide: float, kind: str, count: int) -> str:
    left, right, middle = LEFT + BAR, RIGHT, (LEFT + BAR + RIGHT) / 2
    path = f"M{left} {start:.1f}C{middle} {start:.1f} {middle} {to:.1f} {right} {to:.1f}"
    return (
        f'<path class="flow {kind}" d="{path}" stroke-width="{max(wide, 1):.1f}">'
        f"<title>{count}</title></path>"
    )

"""The report of a run: one file that needs nothing else, in which every name is text."""

from __future__ import annotations

import html
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files

from opshift.text import printable, show_versions
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.page import sankey
from opshift.zoo.recipe import Recipe
from opshift.zoo.summary import Summary

SHOWN_OPERATORS = 60


def page(summary: Summary, outcomes: Iterable[Outcome], recipe: Recipe) -> str:
    """The whole report."""
    outcomes = sorted(outcomes, key=lambda outcome: outcome.name)
    parts = {
        "title": _text(f"{summary.done} models to {recipe.aim}"),
        "subtitle": _text(f"{summary.size / 1e6:.1f} MB read, {summary.left} models left"),
        "counters": _counters(summary),
        "sankey": sankey.draw(Counter(map(_flow, outcomes))),
        "reasons": _reasons(summary),
        "heat": _heat(outcomes),
        "runtimes": _runtimes(summary),
        "data": _data(outcomes, recipe),
    }
    template = files("opshift.zoo.page").joinpath("page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def write(path: str, text: str) -> None:
    """Puts a report in its place, whole."""
    temporary = os.path.join(os.path.dirname(path), f".opshift-{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _text(words: object) -> str:
    return html.escape(printable(str(words)))


def _counters(summary: Summary) -> str:
    return "".join(
        f'<div><b class="{fate.value}">{summary.fates[fate]}</b>{fate.value}</div>'
        for fate in Fate
        if summary.fates[fate]
    )


def _flow(outcome: Outcome) -> tuple[str, str, str]:
    """(before, after, kind) of a model."""
    before = str(outcome.source.get("", "other domains")) if outcome.source else "unknown"
    if outcome.fate.failed:
        kind = "refused" if outcome.fate is Fate.REFUSED else "bad"
        return before, outcome.fate.value, kind
    return before, str(outcome.result.get("", "other domains")), "ok"


def _reasons(summary: Summary) -> str:
    if not summary.reasons:
        return '<p class="soft">Nothing failed.</p>'
    rows = []
    for (fate, why), count in summary.reasons.most_common():
        example = summary.examples[fate, why]
        cells = (_text(why), str(count), _text(example.name), _text(example.detail))
        rows.append(
            f'<tr><td class="{fate.value}">{fate.value}</td>'
            + "".join(f"<td>{cell}</td>" for cell in cells)
        )
    head = "<tr><th>outcome<th>reason<th>models<th>such as<th>which says</tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _runtimes(summary: Summary) -> str:
    """How many models run in which runtime, now and after a conversion."""
    if not summary.runs:
        return '<p class="soft">No runtime was asked for: --runtimes NAME.</p>'
    head = "<tr><th>runtime<th>models<th>run now<th>run after a conversion</tr>"
    rows = [
        f"<tr><td>{_text(target)}"
        + "".join(f"<td>{counts[name]}" for name in ("models", "now", "after"))
        for target, counts in summary.runs.items()
    ]
    return f"<table>{head}{''.join(rows)}</table>"


def _heat(outcomes: Iterable[Outcome]) -> str:
    """How many models each operator stops at each boundary."""
    cells: Counter[tuple[str, tuple[int, int]]] = Counter()
    for outcome in outcomes:
        cells.update({(_op(b.domain, b.op), b.boundary) for b in outcome.blockers})
    if not cells:
        return '<p class="soft">No operator blocks.</p>'
    by_op: Counter[str] = Counter()
    for (op, _), count in cells.items():
        by_op[op] += count
    boundaries, hottest = sorted({boundary for _, boundary in cells}), max(cells.values())
    rows = ["<tr><th>" + "".join(f"<th>{start}→{to}" for start, to in boundaries)]
    for op, _ in by_op.most_common(SHOWN_OPERATORS):
        found = (cells[op, boundary] for boundary in boundaries)
        rows.append(f"<tr><th>{_text(op)}" + "".join(_cell(count, hottest) for count in found))
    note = f'<p class="soft">The {SHOWN_OPERATORS} that block most of {len(by_op)}.</p>'
    more = note if len(by_op) > SHOWN_OPERATORS else ""
    return f'<table class="heat">{"".join(rows)}</table>{more}'


def _cell(count: int, hottest: int) -> str:
    if not count:
        return "<td>"
    return f'<td style="background: rgba(var(--hot), {0.12 + 0.6 * count / hottest:.2f})">{count}'


def _op(domain: str, op: str) -> str:
    return f"{domain}.{op}" if domain else op


def _data(outcomes: Iterable[Outcome], recipe: Recipe) -> str:
    """The rows of the table as JSON that cannot end the element it stands in."""
    rows = [
        [
            printable(o.name), o.fate.value, o.why, o.detail,
            show_versions(o.source), show_versions(o.result),
            [[b.node, _op(b.domain, b.op), *b.boundary, b.why, b.detail] for b in o.blockers],
        ]
        for o in outcomes
    ]  # fmt: skip
    text = json.dumps({"rows": rows, "options": recipe.as_options}, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text

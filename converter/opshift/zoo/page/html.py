# SPDX-License-Identifier: Apache-2.0
"""Writes the report of a run as a single HTML file.

Python writes the counts. The models are written as JSON data, from which the browser builds the
visible rows. All names are escaped.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from opshift import plugins, release, results, versions
from opshift.page import sheet
from opshift.page.markup import words
from opshift.records import dataclass
from opshift.text import counted, markup, printable, qualified, size
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.page import sankey
from opshift.zoo.recipe import Recipe
from opshift.zoo.summary import Summary

SHOWN_OPERATORS = 60
FAILED_FIRST = sorted(Fate, key=lambda fate: (not fate.failed, [*Fate].index(fate)))
POLICY = f"{sheet.POLICY}; script-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The command line, the start and the duration of a run."""

    command: str = ""
    begun: float = 0.0  # seconds since 1970
    seconds: float = 0.0

    @property
    def date(self) -> str:
        """The start of the run, as `2026-11-22 15:47 UTC`."""
        return datetime.fromtimestamp(self.begun, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")

    @property
    def duration(self) -> str:
        """The duration of the run, as `1 h 2 min`, `3 min 4 s` or `5.6 s`."""
        minutes, seconds = divmod(round(self.seconds), 60)
        if minutes >= 60:
            return f"{minutes // 60} h {minutes % 60} min"
        return f"{minutes} min {seconds} s" if minutes else f"{self.seconds:.1f} s"


def page(summary: Summary, outcomes: Iterable[Outcome], recipe: Recipe, run: RunTimes) -> str:
    """Returns the whole HTML page."""
    rank = {fate: number for number, fate in enumerate(FAILED_FIRST)}
    listed = sorted(outcomes, key=lambda outcome: (rank[outcome.fate], outcome.name))
    title = f"{counted(summary.done, 'model')} to {recipe.target_text}"
    sections = (
        ("What failed, by reason", _reasons(summary)),
        (OPSETS, sankey.draw(Counter(map(flow, listed)))),
        (BLOCKS, _heat(listed)),
        ("Runtimes that run the models", _runtimes(summary)),
    )
    body = "".join(
        f"<section{' class=half' if name in HALF else ''}><h2>{name}</h2>{html}</section>"
        for name, html in sections
    )
    script = plugins.data("opshift.zoo.page", "page.js").decode()
    return sheet.document(
        f"opshift batch: {title}",
        sheet.style() + plugins.data("opshift.zoo.page", "zoo.css").decode(),
        f"<header><p class=soft>opshift batch</p><h1>{words(title)}</h1>"
        f"{_verdict(summary)}{_facts(summary, listed, recipe, run)}</header>"
        f"<main>{_counters(summary)}{body}{MODELS}</main>"
        f"<footer class=soft>{words(sheet.written_by())}</footer>"
        f'<script type="application/json" id="data">{_data(listed, recipe)}</script>'
        f"<script>\n{script}</script>",
        POLICY,
    )


OPSETS, BLOCKS = "Opsets before and after", "What blocks: models by operator and step"
HALF = (OPSETS, BLOCKS)  # sections that are side by side on a wide screen
MODELS = (
    '<section id="models"><h2>Models</h2><div class="tools">'
    '<input id="find" type="search" placeholder="Name, reason, operator" aria-label="Filter">'
    '<span id="filters"></span><span id="count" class="soft"></span>'
    '<span class="offers"><button id="csv">CSV</button><button id="json">JSON</button></span></div>'
    '<table class="rows"><thead><tr id="head"></tr></thead><tbody id="rows"></tbody></table>'
    '<p><button id="more" hidden>Show more</button></p></section>'
)


def _pressed(inside: str, **filters: Any) -> str:
    """Returns a button that filters the list of models when it is clicked."""
    return f'<button class="press" data-filter="{markup(json.dumps(filters))}">{inside}</button>'


def _verdict(summary: Summary) -> str:
    failed = summary.failures
    text = f"{counted(failed, 'model')} of {summary.done:,} failed." if failed else ""
    text = text or "Nothing failed."
    if summary.left:
        text += f" {counted(summary.left, 'model')} not done: run the command again."
    text = " ".join([text, *summary.unaccepted])
    role = "bad" if failed else "caution" if summary.left or summary.unaccepted else "good"
    return f'<p class="verdict {role}"><span>{words(text)}</span></p>'


def _facts(summary: Summary, listed: Sequence[Outcome], recipe: Recipe, run: RunTimes) -> str:
    before = sum(outcome.nodes[0] for outcome in listed if outcome.nodes)
    after = sum(outcome.nodes[1] for outcome in listed if outcome.nodes)
    used = [f"opshift {release.BUILD}", f"onnx {versions.installed_name()}", recipe.verify]
    facts = (
        ("Date", run.date if run.begun else ""),
        ("Duration", run.duration),
        ("Versions", ", ".join(filter(None, used))),
        ("Read", size(summary.size)),
        ("Nodes", f"{before:,} → {after:,}" if before else ""),
    )
    shown = "".join(f"<div><dt>{name}<dd>{words(text)}</div>" for name, text in facts if text)
    command = f"<p class=command><code>{words(run.command)}</code></p>" if run.command else ""
    return f"{command}<dl class=facts>{shown}</dl>"


def _counters(summary: Summary) -> str:
    return "<p class=counters>" + "".join(
        _pressed(
            f'<b class="{_class(fate)}">{summary.fates[fate]:,}</b><span>{fate.value}</span>',
            outcome=fate.value,
        )
        for fate in FAILED_FIRST
        if summary.fates[fate]
    ) + "</p>"  # fmt: skip


def _class(fate: Fate) -> str:
    """Returns the CSS class for the colour of an outcome."""
    if not fate.failed:
        return "good" if fate is Fate.OK else "soft"
    return "caution" if fate is Fate.REFUSED else "bad"


def flow(outcome: Outcome) -> sankey.Flow:
    """Returns the opset of a model before, its opset or failure after, and a colour."""
    before = str(outcome.source.get("", "other domains")) if outcome.source else "unknown"
    if outcome.fate.failed:
        return before, outcome.fate.value, _class(outcome.fate)
    return before, str(outcome.result.get("", "other domains")), "good"


def _reasons(summary: Summary) -> str:
    if not summary.reasons:
        return "<p class=soft>Nothing failed.</p>"
    header = ("Outcome", "Reason", "Models", "Example", "Message")
    rows = []
    for fate, why, count in summary.frequent:
        example = summary.examples[fate, why]
        rows.append(
            (
                f"<b class={_class(fate)}>{fate.value}</b>",
                words(why),
                _pressed(f"{count:,}", outcome=fate.value, why=why),
                words(example.name),
                words(example.detail),
            )
        )
    return _table(header, rows, numbers=(2,))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> str:
    """Returns an HTML table; its cells are HTML."""
    kinds = [" class=number" if i in numbers else "" for i in range(len(header))]
    head = "".join(f"<th{kind}>{name}" for kind, name in zip(kinds, header, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{kind} data-name="{name}"><span>{cell}</span>'
            for kind, name, cell in zip(kinds, header, row, strict=True)
        )
        for row in rows
    )
    counts = " counts" if len(numbers) == len(header) - 1 > 1 else ""
    return f'<table class="rows{counts}"><thead><tr>{head}</thead><tbody>{body}</tbody></table>'


def _runtimes(summary: Summary) -> str:
    """Returns a table of how many models run in each runtime, before and after a conversion."""
    if not summary.runs:
        return "<p class=soft>No runtime was named; --runtimes all adds this table.</p>"
    header = (
        "Runtime", "Models", "Run now", "Run after a conversion", "Only after", "Never",
        "Not known",
    )  # fmt: skip
    rows = []
    for target, counts in summary.runs.items():
        models, now, after = (counts[name] for name in ("models", "now", "after"))
        pressed = functools.partial(_pressed, target=target)
        rows.append(
            (
                words(target),
                f"{models:,}",
                pressed(f"{now:,}", runs="now"),
                pressed(f"{after:,}", runs="after"),
                pressed(f"{counts['gained']:,}", runs="gained"),
                pressed(f"{counts['never']:,}", runs="never"),
                pressed(f"{counts['not_known']:,}", runs="unknown"),
            )
        )
    return _table(header, rows, numbers=range(1, 7))


def _heat(outcomes: Iterable[Outcome]) -> str:
    """Returns a table of how many models each operator blocks at each step."""
    cells: Counter[tuple[str, tuple[int, int]]] = Counter()
    for outcome in outcomes:
        cells.update({(qualified(b.domain, b.op), b.boundary) for b in outcome.blockers})
    if not cells:
        return "<p class=soft>No operator blocks a conversion.</p>"
    by_op: Counter[str] = Counter()
    for (op, _), count in sorted(cells.items()):
        by_op[op] += count
    hottest = max(cells.values())
    rows = []
    for op, total in by_op.most_common(SHOWN_OPERATORS):
        steps = sorted((step, count) for (name, step), count in cells.items() if name == op)
        chips = "".join(_cell(op, step, count, hottest) for step, count in steps)
        rows.append((words(op), _pressed(f"{total:,}", op=op), f"<span class=heat>{chips}</span>"))
    more = len(by_op) - len(rows)
    note = f"<p class=soft>{counted(more, 'more operator')} block fewer models.</p>" if more else ""
    return _table(("Operator", "Models", "At the step: models"), rows, numbers=(1,)) + note


def _cell(op: str, step: tuple[int, int], count: int, hottest: int) -> str:
    strength = f"{0.08 + 0.5 * count / hottest:.2f}"
    chip = f'<span style="--heat: {strength}">{step[0]} → {step[1]}<b>{count:,}</b></span>'
    return _pressed(chip, op=op, step=list(step))


def _data(outcomes: Iterable[Outcome], recipe: Recipe) -> str:
    """Returns the models as JSON that cannot end its HTML element; texts are stored once."""
    tables: dict[str, dict[str, int]] = {
        name: {} for name in ("versions", "texts", "targets", "origins")
    }

    def known(table: str, value: Any) -> int:
        entries = tables[table]
        return entries.setdefault(json.dumps(value, sort_keys=True), len(entries))

    rows = [
        [
            printable(o.name), o.fate.value, known("texts", o.why),
            known("texts", printable(o.detail)), known("versions", dict(o.source)),
            known("versions", dict(o.result)), o.size,
            round(o.seconds, 3), [list(o.nodes) if o.nodes else 0, dict(o.rewritten)],
            [
                [printable(b.node), b.op, b.domain, *b.boundary, b.why, known("texts", b.detail)]
                for b in o.blockers
            ],
            [[known("targets", target), _state(now, after)] for target, now, after in o.runs],
            known("origins", o.origin_form()), o.accepted,
        ]
        for o in outcomes
    ]  # fmt: skip
    settings = {
        "options": recipe.as_options, "order": _order(), "names": [*Outcome("", Fate.OK).row()],
        "formula": results.FORMULA,
    }  # fmt: skip
    listed = {name: [json.loads(key) for key in table] for name, table in tables.items()}
    text = json.dumps({"rows": rows, **listed, **settings}, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _order() -> Mapping[str, list[Any]]:
    """Returns the position in the list and the colour of each outcome; failures come first."""
    return {fate.value: [number, _class(fate)] for number, fate in enumerate(FAILED_FIRST)}


def _state(now: str, after: str) -> int:
    """Encodes whether a runtime runs a model before (times 3) and after: 0 no, 1 yes, 2 unknown."""
    codes = {"no": 0, "yes": 1, "not known": 2}
    return 3 * codes[now] + codes[after]

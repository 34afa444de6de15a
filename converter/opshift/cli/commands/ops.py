"""`opshift ops`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from opshift.cli import options
from opshift.cli.options import common
from opshift.cli.output import DONE, Output
from opshift.text import Line, table

if TYPE_CHECKING:
    from opshift.opsets.changelog import Changelog, Delta, Entry


@options.command(
    "opshift ops Resize", "opshift ops --since 13 --diff 18", "opshift ops --domain ai.onnx.ml"
)
@click.argument("op", required=False)
@click.option("--domain", default="", help="The domain; ai.onnx when left out.")
@click.option("--since", type=click.IntRange(min=0), help="What changed after this version.")
@click.option("--diff", "to", type=click.IntRange(min=1), help="Up to this version, else all.")
@common
def command(output: Output, op: str | None, domain: str, since: int | None, to: int | None) -> int:
    """Shows which implementations an operator has had, or what changed between two versions."""
    from opshift.opsets import changelog
    from opshift.opsets.identity import normal

    known = changelog.default()
    domain = normal(domain)
    newest = known.newest(domain)
    if newest is None:
        near = options.suggestion(domain, list(known.domains))
        raise click.UsageError(f"nothing is known about domain {domain!r}{near}")
    if to is not None and (since is None or to > newest):
        ends = f"the newest {domain or 'ai.onnx'} is {newest}"
        raise click.UsageError(f"--diff {to}: {'give --since too' if since is None else ends}")
    if since is not None and since > newest:
        raise click.UsageError(f"--since {since}: the newest {domain or 'ai.onnx'} is {newest}")
    entries = _history(known, domain, op) if op is not None else ()
    if entries and since is None:
        lines = [line for entry in entries for line in _page(entry)]
        output.result(lambda: lines, _document("entries", domain, entries))
        return DONE
    found = known.deltas(domain, since or 0, to or newest)
    deltas = [delta for delta in found if op in (None, delta.op_type)]
    start, end = since or 0, to or newest
    output.result(lambda: _table(deltas, domain, start, end), _changes(deltas, domain, start, end))
    return DONE


def _history(known: Changelog, domain: str, op: str) -> tuple[Entry, ...]:
    entries = known.history(domain, op)
    if not entries:
        near = options.suggestion(op, list(known.operators(domain)))
        raise click.UsageError(f"{domain or 'ai.onnx'} has no operator {op!r}{near}")
    return entries


def _page(entry: Entry) -> Iterator[Line]:
    words = ["has a function body"] if entry.has_function_body else []
    if entry.deprecated:
        words.append(f"deprecated, replaced by {', '.join(entry.replaced_by) or 'nothing'}")
    yield Line(f"{entry.operator}  {entry.fingerprint}  {'; '.join(words)}".rstrip())
    yield from (Line(f"    {listed}") for listed in entry.types)


def _table(deltas: list[Delta], domain: str, start: int, to: int) -> Iterator[Line]:
    from opshift.opsets import schema_changes

    rows = [(d.op_type, _since(d.before), _since(d.after), d.kind) for d in deltas]
    head, *lines = table(("operator", "was", "is", ""), rows)
    yield head
    for delta, line in zip(deltas, lines, strict=True):
        changes = schema_changes.between(domain, delta.op_type, start, to) if delta.before else ()
        breaks = any(change.breaks for change in changes)
        yield Line(f"{line.text}{', breaking for consumers' if breaks else ''}")
        yield from (Line(f"    {'! ' if one.breaks else '  '}{one.text}") for one in changes)


def _since(entry: Entry | None) -> str:
    return str(entry.operator.since_version) if entry else "-"


def _changes(deltas: list[Delta], domain: str, start: int, to: int) -> Callable[[], dict[str, Any]]:
    def made() -> dict[str, Any]:
        from opshift.opsets import schema_changes

        found = _document("deltas", domain, deltas)()
        for row in found["deltas"]:
            changes = schema_changes.between(domain, row["op_type"], start, to)
            row["changes"] = [dataclasses.asdict(one) for one in changes]
            row["breaks"] = any(one.breaks for one in changes)
        return found

    return made


def _document(key: str, domain: str, found: Any) -> Callable[[], dict[str, Any]]:
    from opshift.report import SCHEMA_VERSION

    return lambda: {
        "schema_version": SCHEMA_VERSION,
        "kind": "ops",
        "domain": domain,
        key: [dataclasses.asdict(one) for one in found],
    }

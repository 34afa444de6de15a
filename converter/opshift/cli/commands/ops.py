# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift ops`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from opshift.cli import idle, options
from opshift.cli.complete import complete_operators
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common, documents
from opshift.cli.terminal import Output
from opshift.json_form import Form
from opshift.records import dataclass
from opshift.text import Line, size, suggestion, table

if TYPE_CHECKING:
    from opshift.opsets.changelog import Changelog, Delta, Entry


BUILD = "build"


@dataclass(frozen=True, slots=True)
class Written(Form):
    """A file that was written.

    Printed by `opshift ops --export, opshift ops build`.
    """

    KIND = "written"

    path: str
    """The file."""
    bytes: int
    """The size of the file."""


class _WithBuild(options.GroupedCommand):
    """A command whose first argument may be a subcommand instead of an operator."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:  # fmt: skip
        if args[:1] != [BUILD]:
            return super().make_context(info_name, args, parent, **extra)
        bare = click.Command(info_name)  # the usage line of the subcommand must not show OP
        context = self.context_class(bare, info_name=info_name, parent=parent)
        context.default_map = {BUILD: context.default_map}
        return build.make_context(BUILD, args[1:], context, **extra)


_output_file = click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(dir_okay=False),
    help="Write the document or the database to this file.",
)


@options.command("opshift ops build --domain com.acme -o acme_package/opset_changelog.bin")
@options.operators_domain("The domain of the vendor, such as com.acme.")
@_output_file
@documents
@common
def build(output: Output, domain: str, path: str | None) -> int:
    """Write the database of all operator versions of a vendor's domain.

    The operators come from an installed package or from a document (--operator-set).
    """
    from opshift.opsets.identity import normal

    if path is None:
        raise click.UsageError("the command names no file for the database; give -o FILE")
    return _written(output, path, _built(normal(domain)))


@options.command(
    "opshift ops Resize",
    "opshift ops --since 13 --diff 18",
    "opshift ops --domain ai.onnx.ml",
    "opshift ops --export ai.onnx 13 -o ai.onnx-13.onnxopset",
    "opshift ops build --domain com.acme -o acme_package/opset_changelog.bin",
    kind=_WithBuild,
)
@click.argument("op", required=False, shell_complete=complete_operators)
@options.operators_domain("The domain of the operators. The default is ai.onnx.")
@click.option(
    "--since",
    type=click.IntRange(min=0),
    help="Show the operators that changed after this version.",
)
@click.option(
    "--diff",
    "to",
    type=click.IntRange(min=1),
    help="Show the operators that changed after --since and up to this version.",
)
@click.option(
    "--export",
    nargs=2,
    type=(str, click.IntRange(min=1)),
    metavar="DOMAIN N",
    help="Write the operator set N of DOMAIN as a document (OperatorSetProto).",
)
@_output_file
@documents
@common
def command(
    output: Output,
    op: str | None,
    domain: str,
    since: int | None,
    to: int | None,
    export: tuple[str, int] | None,
    path: str | None,
) -> int:
    """Show the versions of operators.

    With OP, show each version of this operator. With --since and --diff, show the changes between
    two versions of a domain. --export writes an operator set as a document.
    `opshift ops build` writes the database of a vendor's domain; see `opshift ops build --help`.
    """
    from opshift.opsets import changelog

    domain, op = options.named_operator(domain, op)
    if (export is not None) != (path is not None):
        if path is None:
            raise click.UsageError("the command names no file for the document; give -o FILE")
        raise click.UsageError(
            "-o names a file, but the command writes none; give --export DOMAIN N, or use"
            " `opshift ops build`"
        )
    if path is not None and export is not None:
        text = "--export writes a whole operator set; leave out OP, --domain, --since and --diff"
        idle.require_untyped(text, "op", "domain", "since", "to")
        return _written(output, path, _exported(*export))
    database = changelog.default()
    newest = database.newest(domain)
    if newest is None:
        near = suggestion(domain, [name or "ai.onnx" for name in database.domains])
        raise click.UsageError(f"domain {domain!r} is not known{near or options.DESCRIBE}")
    if to is not None and (since is None or to > newest):
        problem = f"the newest {domain or 'ai.onnx'} is {newest}; give {newest} or a lower version"
        if since is None:
            problem = "--since is missing; give both versions"
        raise click.UsageError(f"--diff {to}: {problem}")
    if since is not None and since > newest:
        raise click.UsageError(
            f"--since {since}: the newest {domain or 'ai.onnx'} is {newest}; give a lower version"
        )
    entries = _history(database, domain, op) if op is not None else ()
    if entries and since is None:
        lines = [line for entry in entries for line in _page(entry)]
        output.result(lambda: lines, lambda: _entries(domain, entries))
        return DONE
    changed = database.deltas(domain, since or 0, to or newest)
    deltas = [delta for delta in changed if op in (None, delta.op_type)]
    start, end = since or 0, to or newest
    output.result(lambda: _table(deltas, domain, start, end), _changes(deltas, domain, start, end))
    return DONE


def _exported(domain: str, version: int) -> bytes:
    """Returns an operator set as a serialized OperatorSetProto."""
    from opshift.opsets import installed_set, operator_set

    return operator_set.write(installed_set.of_installed(domain, version))


def _built(domain: str) -> bytes:
    """Returns the serialized version database of a vendor's domain."""
    from opshift import versions
    from opshift.author import database

    if domain in versions.DOMAINS:
        problem = f"opshift contains the database of {domain}" if domain else "no domain is given"
        raise click.UsageError(
            f"{problem}; give the domain of the database, such as --domain com.acme"
        )
    built = database.build((domain,))
    if not built.domains:
        raise click.UsageError(
            f"domain {domain!r} has no description; install its package, or give its document with"
            " --operator-set"
        )
    return bytes(built.SerializeToString(deterministic=True))


def _written(output: Output, path: str, data: bytes) -> int:
    from opshift.model.bytes import place

    place.write_whole(path, data)
    record = Written(path, len(data))
    output.result(lambda: [Line(f"wrote {path}  {size(len(data))}")], record.as_dict)
    return DONE


def _history(database: Changelog, domain: str, op: str) -> tuple[Entry, ...]:
    options.known_operator(domain, op, list(database.operators(domain)))
    return database.history(domain, op)


def _page(entry: Entry) -> Iterator[Line]:
    words = ["has a function body"] if entry.has_function_body else []
    if entry.deprecated:
        words.append(f"deprecated, replaced by {', '.join(entry.replaced_by) or 'nothing'}")
    yield Line(f"{entry.operator}  {entry.fingerprint}  {'; '.join(words)}".rstrip())
    # a list that only repeats the name of its type variable is left out
    types = (listed for listed in entry.types if len({*listed.split(": ")}) > 1)
    yield from (Line(f"    {listed}") for listed in (*types, *entry.details.lines()))


def _table(deltas: list[Delta], domain: str, start: int, to: int) -> Iterator[Line]:
    from opshift.author import database

    rows = [(d.op_type, _since(d.before), _since(d.after), d.kind) for d in deltas]
    head, *lines = table(("operator", "was", "is", ""), rows)
    yield head
    for delta, line in zip(deltas, lines, strict=True):
        changes = database.changes_between(domain, delta.op_type, start, to) if delta.before else ()
        breaks = any(change.breaks for change in changes)
        yield Line(f"{line.text}{', breaking for consumers' if breaks else ''}")
        yield from (Line(f"    {'! ' if c.breaks else '  '}{c.text}") for c in changes)


def _since(entry: Entry | None) -> str:
    return str(entry.operator.since_version) if entry else "-"


def _changes(deltas: list[Delta], domain: str, start: int, to: int) -> Callable[[], dict[str, Any]]:
    def made() -> dict[str, Any]:
        from opshift.author import database
        from opshift.look import operator_forms

        forms = []
        for delta in deltas:
            changes = database.changes_between(domain, delta.op_type, start, to)
            breaks = any(change.breaks for change in changes)
            forms.append(operator_forms.DeltaForm(delta, changes, breaks))
        return operator_forms.OperatorChanges(domain, tuple(forms)).as_dict()

    return made


def _entries(domain: str, entries: Iterable[Entry]) -> dict[str, Any]:
    from opshift.look import operator_forms

    return operator_forms.OperatorVersions(domain, tuple(entries)).as_dict()

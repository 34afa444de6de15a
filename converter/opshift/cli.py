"""The command: results on stdout, progress and messages on stderr, exit codes with a meaning."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from opshift.declare import Adapter
    from opshift.errors import Refused

DONE, REFUSED, BAD_INPUT, BUG, INTERRUPTED = 0, 1, 2, 3, 130
EXTERNAL = ("keep", "copy", "link", "inline", "one-file")

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Output:
    """How the caller wants to be talked to."""

    def __init__(self, form: str, verbosity: int, color: str, progress: bool) -> None:
        self.form = form
        self.verbosity = verbosity
        self.color = None if color == "auto" else color == "always"
        self.progress = progress and verbosity >= 0 and sys.stderr.isatty()

    def result(self, text: Callable[[], str], data: Callable[[], dict[str, Any]]) -> None:
        """The answer, on stdout."""
        if self.form == "text":
            if self.verbosity >= 0:
                click.echo(text(), color=self.color)
        else:
            indent = 2 if self.form == "json" else None
            click.echo(json.dumps(data(), indent=indent, sort_keys=True))

    def failed(self, message: str, code: int) -> int:
        """One sentence on stderr, with the traceback for those who ask for it."""
        click.echo(click.style("error: ", fg="red") + message, err=True, color=self.color)
        if self.verbosity > 0:
            click.echo(traceback.format_exc(), err=True)
        return code

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """A spinner on stderr while something takes its time."""
        if not self.progress:
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status(what):
            yield


def common(command: _Command) -> _Command:
    """The options that every command takes, and one way out for every error."""

    @click.option("--output-format", type=click.Choice(("text", "json", "jsonl")), default="text")
    @click.option("-q", "--quiet", count=True, help="Say less; may be repeated.")
    @click.option("-v", "--verbose", count=True, help="Say more; tracebacks with an error.")
    @click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto")
    @click.option("--no-progress", is_flag=True, help="Show no progress on stderr.")
    @functools.wraps(command)
    def wrapped(
        output_format: str, quiet: int, verbose: int, color: str, no_progress: bool, **rest: Any
    ) -> None:
        output = Output(output_format, verbose - quiet, color, not no_progress)
        sys.exit(_guarded(command, output, rest))

    return wrapped  # type: ignore[return-value]


def _guarded(command: Callable[..., int], output: Output, rest: dict[str, Any]) -> int:
    from opshift.errors import AdapterBug, BadTarget, InvalidModel, Refused

    try:
        return command(output, **rest)
    except Refused as refused:
        return _answer_no(output, refused)
    except (InvalidModel, BadTarget, OSError, click.UsageError) as error:
        return output.failed(_sentence(error), BAD_INPUT)
    except KeyboardInterrupt:
        return output.failed("interrupted; nothing was written", INTERRUPTED)
    except AdapterBug as bug:
        return output.failed(f"this is a bug of an adapter, not of your model: {bug}", BUG)
    except Exception as error:
        return output.failed(
            f"this is a bug of opshift: {error!r}; run again with -v and report it", BUG
        )


def _answer_no(output: Output, refused: Refused) -> int:
    output.result(lambda: str(refused), lambda: refused_as_dict(refused))
    return REFUSED


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return error.format_message() if isinstance(error, click.UsageError) else str(error)


def refused_as_dict(refused: Refused) -> dict[str, Any]:
    """A refusal in the documented JSON form, `docs/guide/json.md`."""
    from opshift.report import SCHEMA_VERSION

    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "refused",
        "target": refused.target,
        "nearest": refused.nearest,
        "refusals": [
            {
                "node": r.node,
                "op": r.op,
                "domain": r.domain,
                "boundary": list(r.boundary),
                "why": r.why.name,
                "detail": r.detail,
            }
            for r in refused.refusals
        ],
    }


def read_target(words: tuple[str, ...]) -> dict[str, int]:
    """`21`, `latest` or `ai.onnx.ml=3`, each domain once."""
    from opshift import schemas

    found: dict[str, int] = {}
    for word in words:
        name, _, version = word.rpartition("=")
        domain = schemas.normal(name)
        number = schemas.latest(domain) if version == "latest" else _number(word, version)
        if number is None:
            raise click.UsageError(f"--to {word}: nothing is known about domain {name!r}")
        if domain in found:
            raise click.UsageError(f"--to names {name or 'ai.onnx'} twice")
        found[domain] = number
    return found


def _number(word: str, version: str) -> int:
    if not version.isdecimal():
        raise click.UsageError(f"--to {word}: give a number, `latest`, or domain=number")
    return int(version)


def read_ir(word: str) -> str | int:
    return int(word) if word.isdecimal() else word


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="opshift")
def main() -> None:
    """Converts ONNX models between operator-set versions, up and down, or says why not."""


@main.command("convert")
@click.argument("source", metavar="IN", type=click.Path(dir_okay=False))
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the result goes.")
@click.option("--in-place", is_flag=True, help="Replace IN, atomically.")
@click.option("--to", "words", multiple=True, metavar="N|latest|DOMAIN=N", help="Target version.")
@click.option("--ir", default="auto", help="IR version: auto, keep or a number.")
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit 1 if it would change."
)
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be done.")
@click.option("--allow-approximate", is_flag=True, help="Allow results that are not exactly equal.")
@click.option("--external-data", type=click.Choice(EXTERNAL), default="keep", show_default=True)
@common
def convert_command(
    output_to: Output,
    source: str,
    output: str | None,
    in_place: bool,
    words: tuple[str, ...],
    ir: str,
    only_check: bool,
    dry_run: bool,
    allow_approximate: bool,
    external_data: str,
) -> int:
    """Converts IN to other versions."""
    from opshift import weights
    from opshift.convert import Options, convert, convert_file

    writes = not (only_check or dry_run)
    if writes and in_place == (output is not None):
        raise click.UsageError("say where the result goes: either -o OUT or --in-place")
    if not words and ir == "auto":
        raise click.UsageError("say what is wanted: --to N, --ir N, or both")
    target, wanted_ir = read_target(words), read_ir(ir)
    with output_to.working(f"converting {os.path.basename(source)}"):
        if writes:
            report = convert_file(
                source, output or source, target, ir_version=wanted_ir,
                allow_approximate=allow_approximate, external=external_data,
            )  # fmt: skip
        else:
            options = Options(target, wanted_ir, allow_approximate)
            report = convert(lambda: weights.carve_file(source), options)[2]
    output_to.result(lambda: str(report), report.as_dict)
    return REFUSED if only_check and report.changed else DONE


@main.command("plan")
@click.argument("source", metavar="IN", type=click.Path(dir_okay=False))
@click.option("--to", "words", multiple=True, required=True, metavar="N|latest|DOMAIN=N")
@click.option("--allow-approximate", is_flag=True, help="Count forms that are not exactly equal.")
@common
def plan_command(
    output: Output, source: str, words: tuple[str, ...], allow_approximate: bool
) -> int:
    """Shows what converting IN would do, or why it cannot; touches nothing."""
    from opshift.planner import plan

    target = read_target(words)
    with output.working(f"planning {os.path.basename(source)}"):
        found = plan(source, target, allow_approximate=allow_approximate)
    output.result(lambda: str(found), found.as_dict)
    return DONE if found.possible else REFUSED


@main.command("adapters")
@click.argument("op", required=False)
@click.option("--domain", default="", help="The operator's domain; ai.onnx when left out.")
@common
def adapters_command(output: Output, op: str | None, domain: str) -> int:
    """Lists what exists for an operator, or how much exists for each."""
    from opshift import registry, schemas

    domain = schemas.normal(domain)
    found: dict[str, list[Adapter]] = {}
    for (d, name, _, _), adapter in registry.default():
        if d == domain and op in (None, name):
            found.setdefault(name, []).append(adapter)
    if op is not None and not found:
        known = "exists" if schemas.history(domain, op) else "does not exist"
        raise click.UsageError(f"no adapters for {op!r}, which {known} in {domain or 'ai.onnx'}")
    output.result(
        lambda: (
            "\n\n".join(_page(name, found[name]) for name in found)
            if op
            else "\n".join(f"{name}  {len(found[name])}" for name in sorted(found))
        ),
        lambda: adapters_as_dict(domain, found),
    )
    return DONE


def _page(name: str, adapters: list[Adapter]) -> str:
    lines = [click.style(name, bold=True)]
    for adapter in sorted(adapters, key=lambda a: (a.start > a.to, a.start)):
        lines.append(f"  {adapter.start}->{adapter.to}  {adapter.kind.name.lower()}")
        lines.append(f"    {adapter.summary}")
        for example in adapter.examples:
            outcome = f"refused: {example.refuses.name}" if example.refuses else example.gives
            lines.append(f"    - {example.title}" + (f": {outcome}" if outcome else ""))
    return "\n".join(lines)


def adapters_as_dict(domain: str, found: dict[str, list[Adapter]]) -> dict[str, Any]:
    """What exists for operators in the documented JSON form, `docs/guide/json.md`."""
    from opshift.report import SCHEMA_VERSION

    listed = {
        name: [
            {
                "start": a.start,
                "to": a.to,
                "kind": a.kind.name.lower(),
                "summary": a.summary,
                "emits": sorted(a.emits),
                "approximate": a.approximate,
                "examples": [
                    {
                        "title": e.title,
                        "graph": e.graph,
                        "gives": e.gives,
                        "refuses": e.refuses.name if e.refuses else None,
                    }
                    for e in a.examples
                ],
            }
            for a in adapters
        ]
        for name, adapters in sorted(found.items())
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "adapters",
        "domain": domain,
        "operators": listed,
    }

"""The command: results on stdout, progress and messages on stderr, exit codes with a meaning."""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

import opshift
from opshift.cli import commands

if TYPE_CHECKING:
    from opshift.errors import Refused

DONE, REFUSED, BAD_INPUT, BUG, INTERRUPTED = 0, 1, 2, 3, 130

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Output:
    """How the caller wants to be talked to."""

    def __init__(self, form: str, verbosity: int, color: str, progress: bool) -> None:
        self.form = form
        self.verbosity = verbosity
        self.aside = False
        self.color = None if color == "auto" else color == "always"
        self.progress = progress and verbosity >= 0 and sys.stderr.isatty()

    def result(self, text: Callable[[], str], data: Callable[[], dict[str, Any]]) -> None:
        """The answer, on stdout, or on stderr where stdout is for something else."""
        if self.form == "text":
            if self.verbosity >= 0:
                click.echo(text(), color=self.color, err=self.aside)
        else:
            indent = 2 if self.form == "json" else None
            click.echo(json.dumps(data(), indent=indent, sort_keys=True), err=self.aside)

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
    from opshift.errors import AdapterBug, BadTarget, InvalidModel, MissingExtra, Refused

    try:
        return command(output, **rest)
    except Refused as refused:
        return _answer_no(output, refused)
    except (InvalidModel, BadTarget, MissingExtra, OSError, click.UsageError) as error:
        return output.failed(_sentence(error), BAD_INPUT)
    except MemoryError as error:
        return output.failed(f"there is not enough memory: {error}", BAD_INPUT)
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
    """A refusal in the documented JSON form, `docs/reference/json.md`."""
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


def read_target(words: tuple[str, ...], option: str = "--to") -> dict[str, int]:
    """`21`, `latest` or `ai.onnx.ml=3`, each domain once."""
    from opshift.opsets.identity import normal

    found: dict[str, int] = {}
    for word in words:
        name, _, version = word.rpartition("=")
        domain = normal(name)
        number = _latest(domain) if version == "latest" else _number(f"{option} {word}", version)
        if number is None:
            raise click.UsageError(f"{option} {word}: nothing is known about domain {name!r}")
        if domain in found:
            raise click.UsageError(f"{option} names {name or 'ai.onnx'} twice")
        found[domain] = number
    return found


def _latest(domain: str) -> int | None:
    from opshift.opsets import changelog

    return changelog.latest(domain)


def _number(word: str, version: str) -> int:
    if not version.isdecimal():
        raise click.UsageError(f"{word}: give a number, `latest`, or domain=number")
    return int(version)


def read_ir(word: str) -> str | int:
    return int(word) if word.isdecimal() else word


class Commands(click.Group):
    """The commands: one for each module of `commands`, imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [info.name for info in pkgutil.iter_modules(commands.__path__)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name}")
        found: click.Command = module.command
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(opshift.__version__, package_name="opshift")
def main() -> None:
    """Converts ONNX models between operator-set versions, up and down, or says why not."""

# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift`, which imports a subcommand only when it is called."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import pkgutil
import re
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

import opshift
from opshift import terms
from opshift.cli import commands, doors, exit_codes, settings
from opshift.cli.exit_codes import BAD_INPUT, INTERRUPTED
from opshift.cli.options import (
    GroupedCommand,
    WholeWords,
    is_model,
    long_name,
    shown_options,
    similar_files,
)
from opshift.cli.synonyms import REPLACING, misplaced, other_command, synonym
from opshift.cli.terminal import Output
from opshift.isolation_default import Isolation, set_default, usual
from opshift.text import printable, suggestion

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

OTHER_NAMES = {"--json": "--json", "--format": "--output-format json"}
DEFAULT = "info"  # `opshift MODEL` is `opshift info MODEL`


class Commands(click.Group):
    """The group of all subcommands; each module of `cli.commands` is imported when it is called."""

    context_class = WholeWords

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name}")
        command: GroupedCommand = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the subcommand; a file path means `info`, and an unknown name gets a suggestion."""
        word = args[0]
        names = self.list_commands(ctx)
        if word not in names:
            if is_model(word):
                command = self.get_command(ctx, DEFAULT)
                settings.apply(ctx, command, DEFAULT)
                return DEFAULT, command, args
            same = other_command(word)
            near = suggestion(word, [*names, "--help"], 1) or similar_files(word)
            cure = f"; use `opshift {same}`" if same else near
            ctx.fail(f"{word!r} is neither a command nor a file{cure}")
        settings.apply(ctx, self.get_command(ctx, word), word)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the section "Where to begin", then the options and the commands."""
        with formatter.section(doors.TITLE):
            formatter.write_dl(doors.rows())
        super().format_options(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes the name of a command; if no name fits, the shell completes a file path."""
        from click.shell_completion import CompletionItem

        items = super().shell_complete(ctx, incomplete)
        return items or [CompletionItem(incomplete, type="file")]

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None,
        complete_var: str | None = None, standalone_mode: bool = True, **extra: Any,
    ) -> Any:  # fmt: skip
        """Runs a command, and prints usage errors in the form of all other errors."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        words = list(sys.argv[1:] if args is None else args)
        with terms.called_by(terms.Caller.COMMAND):
            sys.exit(self._code(words, prog_name, complete_var, **extra))

    def _code(
        self, words: list[str], prog_name: str | None, complete_var: str | None, **extra: Any
    ) -> int:
        """Runs a command and returns its exit code."""
        try:
            code = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            if not words:  # click raises its help as an error if there are no arguments
                click.echo(error.format_message(), err=True)
                return BAD_INPUT
            code = _output(words).failed(_sentence(error), BAD_INPUT, "BAD_USAGE")
        except OSError as error:  # the help or the version cannot be written
            message = f"{error.filename or 'standard output'}: {error.strerror}"
            code = _output(words).failed(message, BAD_INPUT, "FILE_ERROR")
        except click.Abort:
            code = _output(words).failed("interrupted", INTERRUPTED, "INTERRUPTED")
        return code if isinstance(code, int) else 0


@functools.cache
def _names() -> tuple[str, ...]:
    """Returns the names of the commands, which are the modules of `cli.commands`."""
    return tuple(info.name for info in pkgutil.iter_modules(commands.__path__))


def _sentence(error: click.ClickException) -> str:
    """Returns the message of opshift for a usage error of click."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        cure = _other_option(error.option_name, error.ctx)
        return f"{_called(error.ctx)} has no option {error.option_name}{cure}"
    if isinstance(error, click.MissingParameter) and error.param is not None and error.ctx:
        kind = "argument" if isinstance(error.param, click.Argument) else "option"
        name = error.param.make_metavar(error.ctx) if kind == "argument" else error.param.opts[0]
        return f"{_called(error.ctx)} needs the {kind} {name}"
    if isinstance(error, click.BadParameter) and error.param is not None and error.ctx:
        return _bad_value(error, error.param)
    if isinstance(error, click.BadOptionUsage) and "requires an arg" in error.format_message():
        return f"{error.option_name} needs a value; write it after the option"
    extra = re.match(r"Got unexpected extra arguments? \((.+)\)", error.format_message())
    if extra and isinstance(error, click.UsageError) and error.ctx:
        option = misplaced(extra[1], functools.partial(shown_options, error.ctx.command, error.ctx))
        cure = f"write {option} {extra[1]}" if option else f"leave out: {extra[1]}"
        return f"{_called(error.ctx)} has too many arguments; {cure}"
    return error.format_message()


def _other_option(name: str, ctx: click.Context) -> str:
    """Suggests an option, argument or command for an option that the command does not have."""
    if name in OTHER_NAMES:
        return f"; write {OTHER_NAMES[name]} after the name of the command"
    options, parameters = shown_options(ctx.command, ctx), ctx.command.params
    arguments = [
        param.human_readable_name.strip("[].")
        for param in parameters
        if isinstance(param, click.Argument)
    ]
    known = (*options, *arguments)
    if name in REPLACING and not {"--output", "DST"}.isdisjoint(known):
        source = " (--in-place replaces the source)" if "--in-place" in options else ""
        return f"; leave it out, because an existing result is replaced without it{source}"
    commands_with_it = ", ".join(_with_option(name, ctx.parent)) if ctx.parent else ""
    if equivalent := synonym(name, known, mistyped=not commands_with_it):
        verb = "give it as the argument" if equivalent in arguments else "use"
        return f"; {verb} {equivalent}"
    if ctx.parent is None:
        place = "; write options after the name of a command: opshift COMMAND [OPTIONS]"
        return suggestion(name, options) or place
    if commands_with_it:
        return f"; these commands have it: {commands_with_it}"
    return suggestion(name, options)


def _with_option(name: str, ctx: click.Context) -> list[str]:
    """Returns the commands that have an option."""
    commands_by_name = ((verb, main.get_command(ctx, verb)) for verb in main.list_commands(ctx))
    return [
        verb
        for verb, command in commands_by_name
        if command and name in shown_options(command, ctx)
    ]


def _bad_value(error: click.BadParameter, param: click.Parameter) -> str:
    """Returns the message about an invalid value, with the valid values or a remedy."""
    argument = isinstance(param, click.Argument)
    name = param.human_readable_name if argument else long_name(param)
    kind = param.type
    message = error.message.rstrip(".")
    word = message.partition("'")[2].partition("'")[0]
    if isinstance(kind, click.Choice):
        choices = [str(choice) for choice in kind.choices]
        listed = " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
        remedy = suggestion(word, choices) or f"; give {listed}"
        return f"{name}: {word!r} is not a valid value{remedy}"
    if isinstance(kind, click.Path) and word:
        return f"{name}: {message}{similar_files(word) or '; check the path'}"
    return f"{name}: {message}"


def _called(ctx: click.Context) -> str:
    """Returns the command as users type it, such as `opshift convert`, even for `python -m`."""
    return "`opshift`" if ctx.parent is None else f"`opshift {ctx.info_name}`"


def _output(words: list[str]) -> Output:
    """Returns an Output in the format that an invalid command line requests."""
    text = " ".join(words)
    forms = ("jsonl", "json")
    named = (form for form in forms if f"--output-format {form}" in text or
              f"--output-format={form}" in text)  # fmt: skip
    return Output(next(named, "json" if "--json" in words else "text"), 0, "auto", False)


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Commands, context_settings=SETTINGS, epilog=f"\b\n{exit_codes.table()}")
@click.version_option(opshift.__version__, package_name="opshift")
def main() -> None:
    """Convert ONNX models between opsets, up and down, or explain why a conversion is impossible.

    `opshift MODEL` describes a model and shows the next commands. `opshift COMMAND --help` explains
    a command. `opshift explain CODE` explains the code in a message.
    """
    try:
        usual()
    except ValueError as error:  # the environment variable has an invalid value
        raise click.UsageError(str(error)) from None


def run(prog_name: str | None = None) -> None:
    """Runs the command as the main function of a process."""
    set_default(Isolation.RISKY)
    # By default, numpy starts a thread for each core, which takes longer than the small
    # computations of a command.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.showwarning = functools.partial(_show_warning, warnings.showwarning)
    try:
        main(prog_name=prog_name)
    except SystemExit as end:
        _end_process(end.code)
        raise


def _show_warning(
    usual: Callable[..., None], message: Warning | str, kind: type[Warning], *place: Any
) -> None:
    """Shows a warning of opshift without the line of code that raised it."""
    from opshift.errors import LeftoverWarning

    if issubclass(kind, LeftoverWarning):
        click.echo(f"warning: {printable(str(message))}", err=True)
    else:
        usual(message, kind, *place)


def _end_process(code: object) -> None:
    """Ends the process at once if no other thread is running.

    The normal shutdown of Python and onnx takes up to a fifth of the time of a short command.
    """
    if isinstance(code, int) and threading.active_count() == 1:
        atexit._run_exitfuncs()
        # Python has reported an error if a stream cannot be written
        with contextlib.suppress(OSError):
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)

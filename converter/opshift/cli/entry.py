# SPDX-License-Identifier: Apache-2.0
"""The command `opshift`, which imports each of its commands when it is needed."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import os
import pkgutil
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
from opshift.cli.options import GroupedCommand, WholeWords, files_beside
from opshift.cli.synonyms import synonym
from opshift.cli.terminal import Output
from opshift.isolation_default import Isolation, set_default, usual
from opshift.text import printable, suggestion

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

OTHER_NAMES = {"--json": "--json", "--format": "--output-format json"}
DEFAULT = "info"  # `opshift MODEL` is `opshift info MODEL`
COLLECT = 50_000  # imports make so many objects, and a short command frees none of them


class Commands(click.Group):
    """The commands: one for each module of `commands`, imported when it is needed."""

    context_class = WholeWords

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name}")
        found: GroupedCommand = module.command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The named command. A path alone means `info`; an unknown name gets a suggestion."""
        word = args[0]
        known = self.list_commands(ctx)
        if word not in known:
            if word.lower().endswith(".onnx") or os.path.exists(word):
                return DEFAULT, self.get_command(ctx, DEFAULT), args
            near = suggestion(word, [*known, "--help", *files_beside(word)], 1)
            ctx.fail(f"{word!r} is neither a command nor a file{near}")
        settings.apply(ctx, self.get_command(ctx, word), word)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes where to begin, then the options and the commands."""
        with formatter.section(doors.TITLE):
            formatter.write_dl(doors.rows())
        super().format_options(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes a command, or else the path of a model."""
        from click.shell_completion import CompletionItem

        found = super().shell_complete(ctx, incomplete)
        return found or [CompletionItem(incomplete, type="file")]

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None,
        complete_var: str | None = None, standalone_mode: bool = True, **extra: Any,
    ) -> Any:  # fmt: skip
        """Runs a command, and reports usage errors like every other error."""
        gc.set_threshold(COLLECT)
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
            if not words:  # the message is the help
                click.echo(error.format_message(), err=True)
                return BAD_INPUT
            code = _output(words).failed(_sentence(error), BAD_INPUT, "BAD_USAGE")
        except click.Abort:
            code = _output(words).failed("interrupted", INTERRUPTED, "INTERRUPTED")
        return code if isinstance(code, int) else 0


@functools.cache
def _names() -> tuple[str, ...]:
    """The commands: each module of `commands` is one."""
    return tuple(info.name for info in pkgutil.iter_modules(commands.__path__))


def _sentence(error: click.ClickException) -> str:
    """A usage error of click in the form of opshift's messages."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        cure = _other_option(error.option_name, error.ctx)
        return f"{_called(error.ctx)} has no option {error.option_name}{cure}"
    if isinstance(error, click.MissingParameter) and error.param is not None and error.ctx:
        kind = "argument" if isinstance(error.param, click.Argument) else "option"
        name = error.param.make_metavar(error.ctx) if kind == "argument" else error.param.opts[0]
        return f"{_called(error.ctx)} needs the {kind} {name}"
    if isinstance(error, click.BadParameter) and error.param is not None and error.ctx:
        return _bad_value(error, error.param, error.ctx)
    return error.format_message()


def _other_option(name: str, ctx: click.Context) -> str:
    """The option, argument or command that a caller of an unknown option may mean."""
    if name in OTHER_NAMES:
        return f"; write {OTHER_NAMES[name]} after the name of the command"
    known, own = _options(ctx.command, ctx), ctx.command.params
    arguments = [
        one.human_readable_name.strip("[].") for one in own if isinstance(one, click.Argument)
    ]
    if meant := synonym(name, (*known, *arguments)):
        return f"; give it as the argument {meant}" if meant in arguments else f"; use {meant}"
    if ctx.parent is None:
        place = "; options stand after the name of a command: opshift COMMAND [OPTIONS]"
        return suggestion(name, known) or place
    if others := ", ".join(_with_option(name, ctx.parent)):
        return f"; these commands have it: {others}"
    return suggestion(name, known)


def _options(command: click.Command, ctx: click.Context) -> list[str]:
    """The options that the help of a command shows."""
    shown = (one for one in command.get_params(ctx) if not getattr(one, "hidden", False))
    return [word for one in shown for word in one.opts if word.startswith("-")]


def _with_option(name: str, ctx: click.Context) -> list[str]:
    """The commands that have an option."""
    found = ((one, main.get_command(ctx, one)) for one in main.list_commands(ctx))
    return [one for one, command in found if command and name in _options(command, ctx)]


def _bad_value(error: click.BadParameter, param: click.Parameter, ctx: click.Context) -> str:
    """A value that an option or an argument does not take, with a value of a similar name."""
    argument = isinstance(param, click.Argument)
    name = param.make_metavar(ctx) if argument else max(param.opts, key=len)
    kind = param.type
    word = error.message.partition("'")[2].partition("'")[0]
    known = [str(one) for one in kind.choices] if isinstance(kind, click.Choice) else []
    return f"{name}: {error.message.rstrip('.')}{suggestion(word, known)}"


def _called(ctx: click.Context) -> str:
    """`opshift convert`, however the program was started."""
    return "`opshift`" if ctx.parent is None else f"`opshift {ctx.info_name}`"


def _output(words: list[str]) -> Output:
    """The output for a command line that could not be parsed: only its format is looked for."""
    text = " ".join(words)
    forms = ("jsonl", "json")
    wanted = (form for form in forms if f"--output-format {form}" in text or
              f"--output-format={form}" in text)  # fmt: skip
    return Output(next(wanted, "json" if "--json" in words else "text"), 0, "auto", False)


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Commands, context_settings=SETTINGS, epilog=f"\b\n{exit_codes.table()}")
@click.version_option(opshift.__version__, package_name="opshift")
def main() -> None:
    """Convert ONNX models between opsets, up and down, or explain why a conversion is impossible.

    `opshift MODEL` shows what a model is and where it can go. `opshift COMMAND --help` explains a
    command. `opshift explain CODE` explains the code in a message.
    """
    try:
        usual()
    except ValueError as error:  # the environment names no isolation
        raise click.UsageError(str(error)) from None


def run(prog_name: str | None = None) -> None:
    """Runs the command as a process of its own."""
    set_default(Isolation.RISKY)
    # numpy starts a thread for each core, which costs more than the small values of a command need.
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
    """Shows a warning of opshift without the line of code that it comes from."""
    from opshift.errors import LeftoverWarning

    if issubclass(kind, LeftoverWarning):
        click.echo(f"warning: {printable(str(message))}", err=True)
    else:
        usual(message, kind, *place)


def _end_process(code: object) -> None:
    """Ends the process at once if no work is left.

    To take Python and the library of onnx apart costs as much as a fifth of a short command.
    """
    if isinstance(code, int) and threading.active_count() == 1:
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):  # Python reports a stream that cannot be written
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)

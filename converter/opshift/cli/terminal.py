# SPDX-License-Identifier: Apache-2.0
"""Prints the output of a command: results on stdout, everything else on stderr."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import click

from opshift import codes
from opshift.cli import exit_codes
from opshift.json_form import Form, Part
from opshift.records import dataclass
from opshift.text import Line, Role, coloured, cut, plain, printable

if TYPE_CHECKING:
    from opshift.page.sheet import Page

# Codes whose messages may end with a remedy after "; ". The general advice of the code is then left
# out.
OWN_CURE = (
    "BAD_DESTINATION", "BAD_TARGET", "BAD_USAGE", "BROKEN_PACKAGE", "FILE_ERROR", "INVALID_MODEL",
    "MISSING_EXTRA",
)  # fmt: skip


AnyOutcome: TypeAlias = Annotated[Mapping[str, Any], Part("outcome", "")]


@dataclass(frozen=True, slots=True)
class ErrorForm(Form):
    """The error because of which a command has no answer.

    Printed by `every command, exit codes 2, 3 and 130`.
    """

    KIND = "error"

    code: str
    """The code of the error; `opshift explain CODE` explains the code."""
    message: str
    """The problem and its place."""
    cure: str
    """The action to take."""
    exit_code: Annotated[int, exit_codes.BAD_INPUT, exit_codes.BUG, exit_codes.INTERRUPTED]
    """The exit code of the command."""


@dataclass(frozen=True, slots=True)
class Several(Form):
    """The outcomes of several models.

    Printed by `accepts, check, info, lowest and convert with more than one model`.
    """

    KIND = "several"
    MODEL = False

    results: tuple[AnyOutcome, ...]
    """Each outcome, with the name of its `model`. With `jsonl`, each outcome is a line."""


class Output:
    """The output format, verbosity and colours that the caller has chosen."""

    def __init__(self, form: str, verbosity: int, color: str, progress: bool) -> None:
        self.form = form
        self.verbosity = verbosity
        self.aside = False  # if true, results go to stderr, because the model goes to stdout
        self.color = color
        self.progress = progress and verbosity >= 0
        self.live = self.progress and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._several: list[dict[str, Any]] | None = None
        self._model = ""

    def result(
        self,
        lines: Callable[[], Iterable[Line]],
        data: Callable[[], Mapping[str, Any]],
        *,
        good: bool = True,
    ) -> None:
        """Prints the result on stdout, or on stderr if stdout receives the converted model.

        With -q, prints nothing if `good` is true, else only the first sentence on stderr.
        """
        if self.form != "text":
            self._data(data())
        elif self.verbosity >= 0:
            self.say(lines(), err=self.aside)
        elif not good:
            self.say(list(lines())[:1], err=True)

    def refused(
        self, lines: Callable[[], Iterable[Line]], data: Callable[[], Mapping[str, Any]]
    ) -> int:
        """Prints a refusal on stderr; with -q only its first sentence."""
        if self.form != "text":
            self._data(data())
            return exit_codes.REFUSED
        shown = list(lines())
        self.say(shown if self.verbosity >= 0 else shown[:1], err=True)
        return exit_codes.REFUSED

    def failed(self, message: str, code: int, name: str = "BUG") -> int:
        """Prints an error and its remedy on stderr; with -v also the traceback."""
        cure = codes.page(name).cure
        if self.form != "text":
            with suppress(OSError):  # the standard output may have failed; stderr gets the error
                self._data(ErrorForm(name, message, cure, code).as_dict())
        lines = [Line(f"error: {line}", Role.BAD) for line in message.splitlines()[:1]]
        lines += [Line(f"  {line}") for line in message.splitlines()[1:]]
        if self.verbosity >= 0 and name in OWN_CURE and "; " in message:
            lines.append(Line(f"  More about this error: opshift explain {name}"))
        elif self.verbosity >= 0 and cure not in message:
            lines.append(Line(f"  What to do: {cure} (opshift explain {name})"))
        self.say(lines, err=True)
        if self.verbosity > 0 and sys.exc_info()[0] is not None:
            import traceback

            for line in traceback.format_exc().splitlines():
                click.echo(printable(line), err=True)
        return code

    def say(self, lines: Iterable[Line], *, err: bool = False) -> None:
        """Prints lines, in colour if the terminal and the options allow it."""
        stream = sys.stderr if err else sys.stdout
        in_colour = _colours(self.color, stream.isatty())
        show = coloured if in_colour else plain
        width = shutil.get_terminal_size().columns if stream.isatty() else 0
        _echo(show(lines, more=self.verbosity > 0, width=width), err=err, color=in_colour)

    def each(
        self, models: tuple[str, ...], work: Callable[[str], int], *, headed: bool = True
    ) -> int:
        """Calls `work` for each model, prints the names of several, and returns the worst code."""
        if len(models) == 1:
            return work(models[0])
        self._several = [] if self.form == "json" else None
        codes = set()
        for model in models:
            self._model = model
            if headed and self.form == "text" and self.verbosity >= 0:
                self.say([Line(f"{model}:", Role.FAINT)], err=self.aside)
            codes.add(work(model))
        collected, self._several, self._model = self._several, None, ""
        if collected is not None:
            self._data(Several(tuple(collected)).as_dict())
        return exit_codes.of_several(codes)

    def _data(self, data: Mapping[str, Any]) -> None:
        if self._model:
            data = {"model": self._model, **data}
        if self._several is not None:
            self._several.append(dict(data))
            return
        import json

        indent = 2 if self.form == "json" else None
        _echo(json.dumps(data, indent=indent, sort_keys=True), err=self.aside)

    def page(self, path: str | None, make: Callable[[], Page]) -> None:
        """Writes an HTML page if the caller has given a path."""
        if path is None:
            return
        from opshift.model.bytes import place

        with self.working(f"writing {os.path.basename(path)}"):
            place.write_whole(path, make().html().encode("utf-8"))

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Shows a line on stderr while a slow operation runs."""
        if not self.live:
            yield
            return
        width = shutil.get_terminal_size().columns - 1
        # The cursor stays at the start of the line, so that any other output overwrites the line.
        click.echo(f"\x1b[2K{cut(f'{printable(what)} ...', width)}\r", nl=False, err=True)
        try:
            yield
        finally:
            click.echo("\x1b[2K", nl=False, err=True)

    @contextmanager
    def counting(self, things: str) -> Iterator[Callable[[int, int], None]]:
        """Shows progress on stderr: a changing line on a terminal, else a line for each tenth."""
        tenths = set[int]()

        def show(done: int, total: int) -> None:
            tenth = done * 10 // max(total, 1)
            if not self.progress or (not self.live and tenth in tenths):
                return
            tenths.add(tenth)
            end = "\r" if self.live else "\n"
            click.echo(f"{done} of {total} {things}{end}", nl=False, err=True)

        yield show
        if self.live:
            click.echo("\x1b[2K", nl=False, err=True)


def _echo(text: str, *, err: bool, color: bool | None = None) -> None:
    """Prints a text; an error of the system, such as a full disk, names the stream."""
    try:
        click.echo(text, err=err, color=color)
    except OSError as error:
        stream = "standard error" if err else "standard output"
        raise OSError(error.errno, error.strerror, stream) from None


def _colours(choice: str, terminal: bool) -> bool:
    """Returns whether to use colours, from the option, the environment and the terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return terminal

# SPDX-License-Identifier: Apache-2.0
"""Reads defaults of options from `opshift.toml`, or from `[tool.opshift]` in `pyproject.toml`.

The nearest of these files in the working folder and its parents is used; the search ends at the
root of the repository or at the home folder. A key is the name of an option without its dashes. A
table with the name of a command applies only to this command. A folder may come from an untrusted
person, so settings cannot make a command run or write anything, and files of other users are
ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import click

from opshift.cli.terminal import Output
from opshift.records import dataclass
from opshift.text import Line, Role, suggestion

OWN, SHARED = "opshift.toml", "pyproject.toml"
ROOTS = (".git", ".hg", ".jj")  # folders in the root of a repository
ONLY_READ = ("inputs", "operator-set", "opset")  # the only options whose files settings may choose
ACTS = ("cluster", "in-place", "install", "runtime")  # options that run a program or write a file
_META = "opshift.settings"
LARGEST = 1 << 20  # the largest file of settings, in bytes


@dataclass(frozen=True, slots=True)
class SettingsSearch:
    """The file of settings that is used, its content, and ignored files of other users."""

    path: Path | None = None
    table: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[Path, ...] = ()

    def lines(self) -> Iterator[Line]:
        """Yields a note for each ignored file; with -v also the path of the used file."""
        for path in self.ignored:
            text = f"note: {path} belongs to another user; its settings are ignored"
            yield Line(text, Role.CAUTION)
        if self.path is not None:
            yield Line(f"settings: {self.path}", Role.FAINT, more=True)


def found() -> SettingsSearch:
    """Finds the nearest file with settings that belongs to the user or to root."""
    ignored = list[Path]()
    for path in _places():
        if not os.path.isfile(path):
            continue
        if not _is_trusted(path):
            if path.name == OWN or _mentions_settings(path):
                ignored.append(path)
            continue
        if path.name == OWN:
            return SettingsSearch(path, _read(path), tuple(ignored))
        table = _table(path, "tool", _read(path, word="opshift"))
        if "opshift" in table:
            return SettingsSearch(path, _table(path, "opshift", table), tuple(ignored))
    return SettingsSearch(ignored=tuple(ignored))


def _places() -> Iterator[Path]:
    """Yields the possible paths of settings, from the working folder up."""
    here, home = Path.cwd(), os.path.realpath(os.path.expanduser("~"))
    for folder in (here, *here.parents):
        yield from (folder / OWN, folder / SHARED)
        if str(folder) == home or any(os.path.lexists(folder / name) for name in ROOTS):
            return


def _is_trusted(path: Path) -> bool:
    """Returns whether a file, or a symbolic link and its file, belong to the user or to root."""
    if not hasattr(os, "geteuid"):
        return True
    return {os.stat(path).st_uid, os.lstat(path).st_uid} <= {0, os.geteuid()}


def _mentions_settings(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"tool.opshift" in file.read(LARGEST)
    except OSError:
        return False


def _read(path: Path, word: str = "") -> dict[str, Any]:
    """Parses a file; if the file does not contain `word`, returns an empty dict."""
    from opshift import toml

    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if word.encode() not in data:
            return {}
        if len(data) > LARGEST:
            raise click.UsageError(f"{path} has more than {LARGEST >> 20} MiB; shorten this file")
        return toml.loads(data.decode("utf-8"))
    except (OSError, UnicodeDecodeError, toml.TOMLDecodeError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}; correct this file") from None


def _table(path: Path, name: str, around: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the table `name` of a parsed file; returns an empty table if the file lacks it."""
    table = around.get(name, {})
    if not isinstance(table, Mapping):
        raise click.UsageError(
            f"{path}: {name!r} is not a table; write options below [tool.opshift]"
        )
    return table


def apply(ctx: click.Context, command: click.Command | None, name: str) -> None:
    """Sets the defaults of a command from the settings."""
    settings = ctx.meta[_META] = found()
    assert isinstance(ctx.command, click.Group)
    names = ctx.command.list_commands(ctx)
    for key, value in settings.table.items():
        if isinstance(value, Mapping) and key not in names:
            near = suggestion(key, names)
            raise click.UsageError(f"{settings.path}: there is no command {key!r}{near}")
    ctx.default_map = {name: _defaults(settings, command, name) if command else {}}


def show(output: Output) -> None:
    """Prints the used and the ignored files of settings to stderr."""
    settings: SettingsSearch = click.get_current_context().meta.get(_META, SettingsSearch())
    lines = [line for line in settings.lines() if output.verbosity >= int(line.more)]
    if lines:
        output.say(lines, err=True)


def _defaults(settings: SettingsSearch, command: click.Command, name: str) -> dict[str, Any]:
    """Returns the defaults for one command, by the names of its parameters."""
    path, table = settings.path, settings.table
    own_table = table.get(name, {})
    if not isinstance(own_table, Mapping):
        raise click.UsageError(
            f"{path}: [{name}] is not a table of options; write the options of `opshift {name}`"
            f" below [{name}]"
        )
    options = _options(command)
    for key in own_table:
        if key not in options:
            names = [long for long, option in options.items() if may_set(long, option)]
            near = suggestion(key, names)
            raise click.UsageError(f"{path}: {name} has no option --{key}{near}")
    general = {k: v for k, v in table.items() if k in options and not isinstance(v, Mapping)}
    values = {**general, **own_table}
    return {options[key].name or "": _value(path, key, options[key], values[key]) for key in values}


def _options(command: click.Command) -> dict[str, click.Option]:
    """Returns the options of a command by their long names."""
    return {
        name.lstrip("-"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name
        for name in parameter.opts
        if name.startswith("--")
    }


def may_set(name: str, option: click.Option) -> bool:
    """Returns whether settings may set an option: it must not run a program or write a file."""
    return name in ONLY_READ or not (name in ACTS or isinstance(option.type, click.Path))


def _require_plain(path: object, key: str, values: Iterable[Any]) -> None:
    """Raises if a setting names a pipe or a device, because a command could read it forever."""
    for name in map(str, values):
        if os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name)):
            raise click.UsageError(
                f"{path}: --{key} names {name}, which is a pipe or a device; give it on the command"
                " line"
            )


def _value(path: object, key: str, option: click.Option, value: Any) -> Any:
    """Converts a setting to the text, flag or list that click expects for the option."""
    if not may_set(key, option):
        raise click.UsageError(
            f"{path}: settings cannot set --{key}, because this option runs a program, writes a"
            " file, or names a file with runtimes; give it on the command line"
        )
    if key in ONLY_READ:
        _require_plain(path, key, value if isinstance(value, list) else [value])
    if option.multiple:
        return [str(element) for element in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        raise click.UsageError(f"{path}: --{key} takes one value, not a list; give one value")
    return value if isinstance(value, bool) and option.is_flag else str(value)

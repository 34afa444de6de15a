# SPDX-License-Identifier: Apache-2.0
"""Defaults of options from `opshift.toml`, or from `[tool.opshift]` in `pyproject.toml`.

The nearest file in the working folder and its parents counts. A name is an option without its
dashes; a table with the name of a command holds what only this command takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from opshift.text import suggestion

OWN, SHARED = "opshift.toml", "pyproject.toml"


def found() -> tuple[Path, Mapping[str, Any]] | None:
    """The nearest file with settings, and its content."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / OWN).is_file():
            return folder / OWN, _read(folder / OWN)
        if (folder / SHARED).is_file():
            table = _read(folder / SHARED, word="opshift").get("tool", {}).get("opshift")
            if table is not None:
                return folder / SHARED, table
    return None


def _read(path: Path, word: str = "") -> dict[str, Any]:
    """The content of a file; empty without parsing if a word is not in it."""
    from opshift import toml

    try:
        text = path.read_text("utf-8")
        return toml.loads(text) if word in text else {}
    except (OSError, UnicodeDecodeError, toml.TOMLDecodeError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}; correct this file") from None


def defaults(command: click.Command | None, name: str) -> dict[str, Any]:
    """The defaults of one command, by the names of its parameters."""
    source = found()
    if source is None or command is None:
        return {}
    path, table = source
    own = table.get(name, {})
    if not isinstance(own, Mapping):
        raise click.UsageError(
            f"{path}: [{name}] is not a table of options; write the options of `opshift {name}`"
            f" below [{name}]"
        )
    options = _options(command)
    for key in own:
        if key not in options:
            near = suggestion(key, list(options))
            raise click.UsageError(f"{path}: {name} has no option --{key}{near}")
    general = {k: v for k, v in table.items() if k in options and not isinstance(v, Mapping)}
    given = {**general, **own}
    return {options[key].name or "": _value(path, key, options[key], given[key]) for key in given}


def _options(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by their long names."""
    return {
        name.lstrip("-"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name
        for name in parameter.opts
        if name.startswith("--")
    }


def _value(path: object, key: str, option: click.Option, value: Any) -> Any:
    """The value for click: a number as text, and a single value as a list if needed."""
    if option.multiple:
        return [str(one) for one in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        raise click.UsageError(f"{path}: --{key} has one value and is given a list; give one value")
    return value

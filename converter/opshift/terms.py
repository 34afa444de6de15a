# SPDX-License-Identifier: Apache-2.0
"""Writes options for the reader of a message, as in `--ir 8`, or `ir_version=8` in Python."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "OPSHIFT_CALLER"  # an environment variable that passes the caller on to child processes


class Caller(enum.Enum):
    """The interface whose users read the messages."""

    PYTHON = "python"
    COMMAND = "command"
    BOTH = "both"  # a page for users of the command and of Python


_COMMAND_NAMES = {
    "check": "--checks", "external": "--external-data", "ir_version": "--ir", "target": "--to",
}  # fmt: skip
_LISTS = ("assume", "domains", "runtimes")
_MAPPINGS = ("dim", "shape", "types")
_TARGET = re.compile(r"--(for|to|ir) ([\w.=-]*\w)")
_TARGET_NAMES = {"for": "target", "to": "target", "ir": "ir_version"}
_MARK = re.compile(r"<<(\w+)(?:=([^>]*))?>>")


def caller() -> Caller:
    """Returns the interface whose users read the messages of this process."""
    return Caller(os.environ.get(VARIABLE, Caller.PYTHON.value))


@contextmanager
def called_by(new: Caller) -> Iterator[None]:
    """Makes this process and its children write messages for this caller, within the context."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = new.value
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def option(name: str, value: object = "") -> str:
    """Returns an option and its value in the spelling of the caller's interface.

    The parameter `name` is the Python name, and `value` is in the spelling of the command. An
    option without a value is a flag.
    """
    who = caller()
    if who is Caller.PYTHON:
        return f"`{_in_python(name, str(value))}`"
    command = f"`{_in_command(name, str(value))}`"
    both = f"{command} (in Python, `{_in_python(name, str(value))}`)"
    return both if who is Caller.BOTH else command


def name_of(name: str) -> str:
    """Returns the name of an option, such as `ir_version` in Python and `--ir` in the command."""
    return name if caller() is Caller.PYTHON else _in_command(name, "")


def all_of(attribute: str) -> str:
    """Returns how to see the whole of a shortened list: with -v, or as an attribute in Python."""
    return f"`{attribute}` lists all" if caller() is Caller.PYTHON else "-v shows all"


def spelled(text: str) -> str:
    """Replaces `<<name>>` and `<<name=value>>` in a text by options in the caller's spelling."""
    return _MARK.sub(lambda match: option(match[1], match[2] or ""), text)


def translated(text: str) -> str:
    """Rewrites the options for targets in a text, such as `--to 9`, in the caller's spelling."""
    return _TARGET.sub(lambda match: option(_TARGET_NAMES[match[1]], match[2]), text)


def _in_command(name: str, value: str) -> str:
    if name == "target" and "==" in value:
        return f"--for {value}"
    word = _COMMAND_NAMES.get(name, f"--{name.replace('_', '-')}")
    return f"{word} {value}".rstrip()


def _in_python(name: str, value: str) -> str:
    if not value:
        return f"{name}=True"
    if name in _LISTS:
        return f'{name}=["{value}"]'
    if name in _MAPPINGS or (name == "target" and re.search(r"\w=\w", value)):
        key, _, content = value.partition("=")
        shown = str(tuple(map(int, content.split(",")))) if name == "shape" else _literal(content)
        return f'{name}={{"{key}": {shown}}}'
    return f"{name}={_literal(value)}"


def _literal(value: str) -> str:
    """Returns a number or a placeholder such as N unchanged, and a word in quotation marks."""
    return value if value.isdecimal() or value.isupper() else f'"{value}"'

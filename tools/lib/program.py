# SPDX-License-Identifier: Apache-2.0
"""Starts the five programs, where `python -m tools.PROGRAM NAME ...` runs one tool."""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn


def run(package: str, tools: str) -> NoReturn:
    """Runs the tool of the first argument, or lists the tools of a program, and exits."""
    sys.exit(_exit_code(package, tools.split()))


def _exit_code(package: str, names: Sequence[str]) -> int:
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(f"usage: python -m {package} NAME [-h] ...\n")
        for name in names:
            print(f"  {name:15} {_purpose(package, name)}")
        return 0 if words else 2
    if words[0] not in names:
        print(f"{package} has no tool {words[0]!r}; it has {', '.join(names)}", file=sys.stderr)
        return 2
    sys.argv = [f"python -m {package} {words[0]}", *words[1:]]
    module = importlib.import_module(f"{package}.{words[0]}")
    if hasattr(module, "__path__"):  # child processes find functions under this name
        module = importlib.import_module(f"{module.__name__}.__main__")
    return int(module.main() or 0)


def described(doc: str | None) -> argparse.ArgumentParser:
    """Returns a parser whose help is the docstring of a tool, line by line."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _purpose(package: str, name: str) -> str:
    """Returns the first line of the docstring of a tool, without importing the tool."""
    path = Path(*package.split("."), name)
    file = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return text.splitlines()[0]

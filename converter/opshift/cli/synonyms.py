# SPDX-License-Identifier: Apache-2.0
"""Maps the words of other tools to the commands, options and arguments with the same effect."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection

from opshift.versions import is_version

SIMILAR = 0.85  # the least similarity (0 to 1) of a mistyped option and an option of this table
# For each option of another tool: options of opshift, of which the command's first one is
# suggested.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "--target": ("--to N or --for RUNTIME", "--for"),
    "-t": ("--to",),
    "-i": ("IN", "SRC"),
    "--input": ("IN", "SRC"),
    "--input-model": ("IN", "SRC"),
    "--model": ("IN", "SRC"),
    "--to": ("--opset",),
    "--opset": ("--to",),
    "--target-opset": ("--to", "--opset"),
    "--target-version": ("--to", "--opset"),
    "--opset-version": ("--to", "--opset"),
    "--to-opset": ("--to", "--opset"),
    "--version": ("--to",),
    "--runtime": ("--for", "--runtimes"),
    "--ort": ("--for onnxruntime==VERSION",),
    "--onnxruntime": ("--for onnxruntime==VERSION",),
    "--tensorrt": ("--for tensorrt==VERSION",),
    "--device": ("--for", "--runtimes"),
    "--target-runtime": ("--for", "--runtimes"),
    "--ir-version": ("--ir",),
    "--out": ("--output", "DST"),
    "--outfile": ("--output", "DST"),
    "--output-file": ("--output", "DST"),
    "--output-model": ("--output", "DST"),
    "--save": ("--output", "DST"),
    "--inplace": ("--in-place",),
    "--static": ("--shape", "--dim"),
    "--input-shape": ("--shape",),
    "--overwrite-input-shape": ("--shape",),
    "--fixed-shape": ("--shape",),
    "--batch-size": ("--dim",),
    "--fp16": ("--types float=float16",),
    "--float16": ("--types float=float16",),
    "--half": ("--types float=float16",),
    "--fp32": ("--types float16=float",),
    "--float32": ("--types float16=float",),
    "--bf16": ("--types float=bfloat16",),
    "--bfloat16": ("--types float=bfloat16",),
    "--dtype": ("--types",),
    "--simplify": ("--modernize",),
    "--optimize": ("--modernize",),
    "--validate": ("--verify",),
    "--compare": ("--verify",),
    "--no-check": ("--checks none",),
    "--skip-check": ("--checks none",),
    "--tolerance": ("--rtol",),
    "--debug": ("--verbose",),
    "--log-level": ("--verbose",),
    "--html": ("--report",),
}
# The options of other tools that allow a program to replace files.
REPLACING = frozenset(["--force", "--overwrite", "--yes", "-f", "-y"])
# For each command of another tool: the command line of opshift with the same effect.
COMMANDS: dict[str, str] = {
    "upgrade": "convert",
    "downgrade": "convert",
    "migrate": "convert",
    "version-convert": "convert",
    "modernize": "convert --modernize",
    "optimize": "convert --modernize",
    "simplify": "convert --modernize",
    "types": "convert --types",
    "shape": "convert --shape",
    "shapes": "convert --shape",
    "compare": "diff",
    "validate": "check",
    "lint": "check",
    "doctor": "check",
    "minimum": "lowest",
    "test": "verify",
    "run": "verify",
    "inspect": "info",
    "show": "info",
    "describe": "info",
    "print": "info",
    "runtimes": "targets",
    "supports": "accepts",
    "version": "--version",
    "help": "--help",
}


def other_command(word: str) -> str:
    """Returns the command line with the effect of another tool's command; empty without one."""
    return COMMANDS.get(word.lower().replace("_", "-"), "")


def misplaced(word: str, available: Callable[[], Collection[str]]) -> str:
    """Returns the option for an argument that is a version or a runtime; empty for a path.

    `available` returns the options of the command; it is called for few words, and not for each of
    thousands of models.
    """
    options = ("--for",) if "==" in word else ("--to", "--opset") if is_version(word) else ()
    if not options or os.path.exists(word):
        return ""
    return next((option for option in options if option in available()), "")


def synonym(option: str, available: Collection[str], *, mistyped: bool = True) -> str:
    """Returns the option (with a value) or argument with the same effect; empty without one.

    `mistyped` also finds options that are similar to `option`.
    """
    word = option.replace("_", "-")
    near = [word] if word in SYNONYMS else []
    if mistyped and not near:
        near = difflib.get_close_matches(word, SYNONYMS, 1, SIMILAR)
    equivalents = SYNONYMS[near[0]] if near else ()
    return next((words for words in equivalents if words.partition(" ")[0] in available), "")

# SPDX-License-Identifier: Apache-2.0
"""Maps options of other converters to the options or arguments of opshift with the same effect."""

from __future__ import annotations

import difflib
from collections.abc import Collection

SIMILAR = 0.85  # the least similarity (0 to 1) of a mistyped option and an option of this table
# For each option of another tool: options of opshift, of which the command's first one is
# suggested.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "--target": ("--to", "--for"),
    "--opset": ("--to",),
    "--target-opset": ("--to",),
    "--target-version": ("--to",),
    "--opset-version": ("--to",),
    "--to-opset": ("--to",),
    "--version": ("--to",),
    "--runtime": ("--for", "--runtimes"),
    "--device": ("--for", "--runtimes"),
    "--target-runtime": ("--for", "--runtimes"),
    "--ir-version": ("--ir",),
    "--out": ("--output", "DST"),
    "--outfile": ("--output", "DST"),
    "--output-file": ("--output", "DST"),
    "--output-model": ("--output", "DST"),
    "--save": ("--output", "DST"),
    "--overwrite": ("--in-place",),
    "--inplace": ("--in-place",),
    "--force": ("--in-place",),
    "--static": ("--shape", "--dim"),
    "--input-shape": ("--shape",),
    "--overwrite-input-shape": ("--shape",),
    "--fixed-shape": ("--shape",),
    "--batch-size": ("--dim",),
    "--fp16": ("--types",),
    "--half": ("--types",),
    "--fp32": ("--types",),
    "--dtype": ("--types",),
    "--simplify": ("--modernize",),
    "--optimize": ("--modernize",),
    "--validate": ("--verify",),
    "--compare": ("--verify",),
    "--html": ("--report",),
}


def synonym(option: str, available: Collection[str]) -> str:
    """Returns the option or argument with the same effect; empty if there is none."""
    word = option.replace("_", "-")
    near = [word] if word in SYNONYMS else difflib.get_close_matches(word, SYNONYMS, 1, SIMILAR)
    equivalents = SYNONYMS[near[0]] if near else ()
    return next((name for name in equivalents if name in available), "")

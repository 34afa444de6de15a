# SPDX-License-Identifier: Apache-2.0
"""The options of other converters, with the option or argument of opshift that does the same."""

from __future__ import annotations

import difflib
from collections.abc import Collection

SIMILAR = 0.85  # of a mistyped option to one of these
# The first one that a command has is named.
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


def synonym(option: str, known: Collection[str]) -> str:
    """The option or argument that another converter calls otherwise; empty if there is none."""
    word = option.replace("_", "-")
    near = [word] if word in SYNONYMS else difflib.get_close_matches(word, SYNONYMS, 1, SIMILAR)
    meant = SYNONYMS[near[0]] if near else ()
    return next((one for one in meant if one in known), "")

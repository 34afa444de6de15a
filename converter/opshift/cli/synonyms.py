# SPDX-License-Identifier: Apache-2.0
"""The options of other converters, with the option of opshift that does the same."""

from __future__ import annotations

from collections.abc import Collection

# The first option that a command has is named.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "--target": ("--to", "--for"),
    "--target-opset": ("--to",),
    "--target-version": ("--to",),
    "--opset-version": ("--to",),
    "--to-opset": ("--to",),
    "--version": ("--to",),
    "--runtime": ("--for", "--runtimes"),
    "--device": ("--for", "--runtimes"),
    "--target-runtime": ("--for", "--runtimes"),
    "--ir-version": ("--ir",),
    "--out": ("--output",),
    "--outfile": ("--output",),
    "--output-file": ("--output",),
    "--output-model": ("--output",),
    "--save": ("--output",),
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
    """The option of a command that another converter calls otherwise; empty if there is none."""
    meant = SYNONYMS.get(option.replace("_", "-"), ())
    return next((one for one in meant if one in known), "")

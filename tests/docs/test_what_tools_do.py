# SPDX-License-Identifier: Apache-2.0
"""Every command and option in the comparison with other tools exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from opshift.cli.entry import main

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "explain" / "what-tools-do.md").read_text("utf-8")
SPANS = re.findall(r"`(opshift [^`]+)`", TEXT)
LOOSE = {"--for", "--modernize"}  # named without their command; convert has them


def options(command):
    return {name for param in command.params for name in param.opts if name.startswith("--")}


@pytest.mark.parametrize("span", SPANS)
def test_a_command_exists(span):
    words = span.split()[1:]
    if words[0] in ("MODEL", "--help"):
        return
    command = main.get_command(click.Context(main), words[0])
    assert command is not None, span
    assert {word for word in words if word.startswith("--")} <= options(command)


def test_an_option_without_a_command_exists():
    convert = main.get_command(click.Context(main), "convert")
    assert {*re.findall(r"`(--[a-z-]+)", TEXT)} == LOOSE <= options(convert)

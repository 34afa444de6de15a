# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift schema`."""

from __future__ import annotations

import json
import pkgutil

from opshift.cli import options
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common
from opshift.cli.terminal import Output
from opshift.text import Line


@options.command("opshift schema > outcomes.schema.json")
@common
def command(output: Output) -> int:
    """Print the JSON Schema of the output of all commands with --json."""
    text = (pkgutil.get_data("opshift", "outcomes.schema.json") or b"").decode()
    output.result(lambda: map(Line, text.splitlines()), lambda: json.loads(text))
    return DONE

# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift versions`."""

from __future__ import annotations

import dataclasses

from opshift.cli import options
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common
from opshift.cli.terminal import Output


@options.command("opshift versions")
@common
def command(output: Output) -> int:
    """List the IR version and the opsets of each release of onnx."""
    from opshift.report import SCHEMA_VERSION
    from opshift.text import table
    from opshift.versions import DOMAINS, RELEASES

    header = ("onnx", "IR", *(domain or "ai.onnx" for domain in DOMAINS))
    rows = (
        (release.name, str(release.ir), *(str(release.version(d) or "-") for d in DOMAINS))
        for release in RELEASES
    )
    output.result(
        lambda: table(header, rows),
        lambda: {
            "schema_version": SCHEMA_VERSION,
            "kind": "versions",
            "releases": [dataclasses.asdict(release) for release in RELEASES],
        },
    )
    return DONE

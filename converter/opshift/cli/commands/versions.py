# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift versions`."""

from __future__ import annotations

from opshift.cli import options
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common
from opshift.cli.terminal import Output
from opshift.json_form import Form
from opshift.records import dataclass
from opshift.versions import DOMAINS, RELEASES, Release


@dataclass(frozen=True, slots=True)
class OnnxReleases(Form):
    """The releases of onnx.

    Printed by `opshift versions`.
    """

    KIND = "versions"

    releases: tuple[Release, ...]
    """Each release."""


@options.command("opshift versions")
@common
def command(output: Output) -> int:
    """List the IR version and the opsets of each release of onnx."""
    from opshift.text import table

    header = ("onnx", "IR", *(domain or "ai.onnx" for domain in DOMAINS))
    rows = (
        (release.name, str(release.ir), *(str(release.version(d) or "-") for d in DOMAINS))
        for release in RELEASES
    )
    output.result(
        lambda: table(header, rows),
        lambda: OnnxReleases(RELEASES).as_dict(),
    )
    return DONE

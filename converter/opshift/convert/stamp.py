# SPDX-License-Identifier: Apache-2.0
"""Producer notes in the metadata of a result, for callers who ask for them."""

from __future__ import annotations

from opshift.protos import ModelProto
from opshift.release import VERSION
from opshift.report import Report

KEY = "opshift.conversions"


def stamp(model: ModelProto, report: Report) -> None:
    """Adds one line about a conversion to the model: the release of opshift and the versions.

    The line has no date, so that the result is deterministic. Lines of earlier conversions stay.
    """
    line = f"opshift {VERSION}: {report.way or 'the form of the model'}"
    for entry in model.metadata_props:
        if entry.key == KEY:
            entry.value = f"{entry.value}\n{line}"
            return
    model.metadata_props.add(key=KEY, value=line)

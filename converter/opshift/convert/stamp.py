# SPDX-License-Identifier: Apache-2.0
"""Writes the model version and the metadata about opshift into a result, if requested."""

from __future__ import annotations

import dataclasses

from opshift.convert.request import Request
from opshift.model import signature
from opshift.model.signature import Signature
from opshift.protos import ModelProto
from opshift.report import Report

KEY = "opshift.conversions"
FOR, BY, NONE = "; for ", "; adapters ", "none"


def labelled(
    model: ModelProto, report: Report, options: Request, before: Signature | None
) -> Report:
    """Writes the model version and metadata into a result, if requested; returns the report."""
    if not report.changed:
        return report
    if before is not None:
        notes = (*report.notes, signature.bumped(model, before))
        report = dataclasses.replace(report, notes=notes)
    if options.stamp:
        stamp(model, report)
    return report


def stamp(model: ModelProto, report: Report) -> None:
    """Adds a line about the conversion to the metadata: opshift's version, opsets and adapters.

    The line has no date, so that equal conversions write equal files. Earlier lines stay.
    """
    origin = report.origin
    line = f"opshift {origin.opshift_version}: {report.way or 'the form of the model'}"
    line += f"{FOR}{origin.runtime}" if origin.runtime else ""
    line += f"{BY}{' '.join(origin.adapters) or NONE}"
    for entry in model.metadata_props:
        if entry.key == KEY:
            entry.value = f"{entry.value}\n{line}"
            return
    model.metadata_props.add(key=KEY, value=line)

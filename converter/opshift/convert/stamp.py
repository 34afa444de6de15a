# SPDX-License-Identifier: Apache-2.0
"""Adds what a caller asks for to a result: a new model version, and notes on the producer."""

from __future__ import annotations

import dataclasses

from opshift.convert.request import Request
from opshift.model import signature
from opshift.model.signature import Signature
from opshift.protos import ModelProto
from opshift.report import Report

KEY = "opshift.conversions"
FOR, BY, NONE = "; for ", "; adapters ", "none"


def signature_for(model: ModelProto, options: Request) -> Signature | None:
    """Returns the source's inputs and outputs, if the new model version depends on them."""
    return signature.signature(model) if options.bump_model_version else None


def labelled(
    model: ModelProto, report: Report, options: Request, before: Signature | None
) -> Report:
    """Writes the requested entries into a result; returns the report with a note on the version."""
    if not report.changed:
        return report
    if before is not None:
        notes = (*report.notes, signature.bumped(model, before))
        report = dataclasses.replace(report, notes=notes)
    if options.stamp:
        stamp(model, report)
    return report


def stamp(model: ModelProto, report: Report) -> None:
    """Adds a line about a conversion to the metadata: the opshift build, versions and adapters.

    The line has no date, so that equal conversions give equal bytes. Earlier lines stay.
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

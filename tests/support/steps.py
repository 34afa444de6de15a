# SPDX-License-Identifier: Apache-2.0
"""Single steps of a conversion, for tests."""

from __future__ import annotations

from collections.abc import Collection

from onnx import ModelProto
from opshift.assumptions import Assumption
from opshift.author import registry
from opshift.convert import planner
from opshift.convert.attempt import Conversion
from opshift.convert.request import Request
from opshift.convert.step import Stepper
from opshift.model import weights


def opened(proto: ModelProto, target: int) -> Conversion:
    """Returns a conversion before its first step."""
    attempt = Conversion(*weights.carve_model(proto), Request(target), registry.default())
    attempt.open()
    return attempt


def stepper(
    proto: ModelProto,
    start: int,
    to: int,
    *,
    approximate: bool = False,
    assume: Collection[Assumption] = (),
) -> Stepper:
    """Returns a step between two opsets that calls the adapter for each node."""
    attempt = opened(proto, to)
    plan = planner.of_document(attempt.document, registry.default(), {"": to})
    done = Stepper(attempt.facts, plan, "", start, to, approximate, assume)
    done.records = None
    return done

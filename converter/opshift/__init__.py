# SPDX-License-Identifier: Apache-2.0
"""Converts ONNX models between operator-set versions, up and down, or reports why it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.lazy import lazy
from opshift.release import BUILD

if TYPE_CHECKING:
    from opshift import onnx_ir as onnx_ir
    from opshift import torch as torch
    from opshift import zoo as zoo
    from opshift.codes.refusals import Why
    from opshift.convert.api import convert_file, convert_version
    from opshift.convert.api import convert_with_report as convert
    from opshift.convert.legal.findings import Findings
    from opshift.convert.legal.rules import check, check_model
    from opshift.convert.request import Request
    from opshift.convert.result import Result
    from opshift.errors import (
        AdapterBug,
        BadDestination,
        BadTarget,
        ClusterLost,
        InvalidModel,
        MissingExtra,
        OpshiftError,
        Refused,
    )
    from opshift.look.accepts import Acceptance, RuntimeSurvey, accepts, survey
    from opshift.look.compare import Diff, diff
    from opshift.look.info import Info, info
    from opshift.look.known_targets import Targets, targets
    from opshift.look.lowest import Lowest, lowest_versions
    from opshift.look.plan import Plan
    from opshift.look.planning import plan
    from opshift.model.model_version import Level, ModelVersion
    from opshift.opsets.changelog import OperatorId
    from opshift.report import Report
    from opshift.verify.model_pair import verify as verify
    from opshift.zoo.audit import Audit, audit

__version__ = BUILD

__all__ = [
    "Acceptance",
    "AdapterBug",
    "Audit",
    "BadDestination",
    "BadTarget",
    "ClusterLost",
    "Diff",
    "Findings",
    "Info",
    "InvalidModel",
    "Level",
    "Lowest",
    "MissingExtra",
    "ModelVersion",
    "OperatorId",
    "OpshiftError",
    "Plan",
    "Refused",
    "Report",
    "Request",
    "Result",
    "RuntimeSurvey",
    "Targets",
    "Why",
    "accepts",
    "audit",
    "check",
    "check_model",
    "convert",
    "convert_file",
    "convert_version",
    "diff",
    "info",
    "lowest_versions",
    "plan",
    "survey",
    "targets",
    "verify",
]

_HOMES = {
    "convert.api": ("convert_file", "convert_version"),
    "errors": (
        "AdapterBug",
        "BadDestination",
        "BadTarget",
        "ClusterLost",
        "InvalidModel",
        "MissingExtra",
        "OpshiftError",
        "Refused",
    ),
    "codes.refusals": ("Why",),
    "look.compare": ("Diff", "diff"),
    "opsets.changelog": ("OperatorId",),
    "look.known_targets": ("Targets", "targets"),
    "look.lowest": ("Lowest", "lowest_versions"),
    "model.model_version": ("Level", "ModelVersion"),
    "look.plan": ("Plan",),
    "look.planning": ("plan",),
    "convert.request": ("Request",),
    "convert.result": ("Result",),
    "report": ("Report",),
    "convert.legal.findings": ("Findings",),
    "convert.legal.rules": ("check", "check_model"),
    "look.accepts": ("Acceptance", "RuntimeSurvey", "accepts", "survey"),
    "look.info": ("Info", "info"),
    "zoo.audit": ("Audit", "audit"),
}


if not TYPE_CHECKING:  # type checkers accept every misspelt name of a module with __getattr__
    # Not in __all__: a star import would replace the torch of the importer by `opshift.torch`.
    __getattr__, __dir__ = lazy(
        __name__, _HOMES, packages=("convert", "onnx_ir", "torch", "verify", "zoo")
    )

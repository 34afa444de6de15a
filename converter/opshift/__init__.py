"""Converts ONNX models between operator-set versions, up and down, or says why not."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opshift.comparison import Diff, diff
    from opshift.convert import convert_file, convert_version
    from opshift.errors import AdapterBug, BadTarget, InvalidModel, OpshiftError, Refused, Why
    from opshift.forecast import Plan, plan
    from opshift.identity import OperatorId
    from opshift.lowest import Lowest, lowest_versions
    from opshift.model_version import Level, ModelVersion
    from opshift.report import Report
    from opshift.spec import Findings, check_model

__version__ = "0.1.0"

__all__ = [
    "AdapterBug",
    "BadTarget",
    "Diff",
    "Findings",
    "InvalidModel",
    "Level",
    "Lowest",
    "ModelVersion",
    "OperatorId",
    "OpshiftError",
    "Plan",
    "Refused",
    "Report",
    "Why",
    "check_model",
    "convert_file",
    "convert_version",
    "diff",
    "lowest_versions",
    "plan",
]

# A command that only prints its help must not wait for onnx.
_HOMES = {
    "convert": ("convert_file", "convert_version"),
    "errors": ("AdapterBug", "BadTarget", "InvalidModel", "OpshiftError", "Refused", "Why"),
    "comparison": ("Diff", "diff"),
    "identity": ("OperatorId",),
    "lowest": ("Lowest", "lowest_versions"),
    "model_version": ("Level", "ModelVersion"),
    "forecast": ("Plan", "plan"),
    "report": ("Report",),
    "spec": ("Findings", "check_model"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"opshift.{home}"), name)
    raise AttributeError(f"module 'opshift' has no attribute {name!r}")

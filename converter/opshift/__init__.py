"""Converts ONNX models between operator-set versions, up and down, or says why not."""

from opshift.convert import convert_file, convert_version
from opshift.errors import AdapterBug, BadTarget, InvalidModel, OpshiftError, Refused, Why
from opshift.plan import Plan, plan
from opshift.report import Report

__version__ = "0.1.0"

__all__ = [
    "AdapterBug",
    "BadTarget",
    "InvalidModel",
    "OpshiftError",
    "Plan",
    "Refused",
    "Report",
    "Why",
    "convert_file",
    "convert_version",
    "plan",
]

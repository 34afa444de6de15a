# SPDX-License-Identifier: Apache-2.0
"""The oracle: evaluates an ONNX model of opset 1 to 28 node by node, each in a trusted engine."""

from opshift.verify.oracle.equality import compare
from opshift.verify.oracle.inputs import make_inputs
from opshift.verify.oracle.interpreter import evaluate
from opshift.verify.oracle.trust import doubtful
from opshift.verify.oracle.values import OracleError, Value

__all__ = ["OracleError", "Value", "compare", "doubtful", "evaluate", "make_inputs"]

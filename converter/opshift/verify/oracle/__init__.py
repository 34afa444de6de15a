# SPDX-License-Identifier: Apache-2.0
"""The oracle is our evaluator: it runs each node of a model in an engine that is right for it."""

from opshift.verify.oracle.equality import compare
from opshift.verify.oracle.inputs import make_inputs
from opshift.verify.oracle.interpreter import evaluate
from opshift.verify.oracle.trust import doubtful
from opshift.verify.oracle.values import OracleError, Value

__all__ = ["OracleError", "Value", "compare", "doubtful", "evaluate", "make_inputs"]

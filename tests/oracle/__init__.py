# SPDX-License-Identifier: Apache-2.0
"""The judge under the name that tests call it by; it lives in `opshift.verify.oracle`."""

from opshift.verify.oracle import OracleError, Value, compare, doubtful, evaluate, make_inputs

__all__ = ["OracleError", "Value", "compare", "doubtful", "evaluate", "make_inputs"]

"""The judge: evaluates any ONNX model of opset 1..28 node by node, by engines that earned trust."""

from oracle.compare import compare
from oracle.inputs import make_inputs
from oracle.interpreter import evaluate
from oracle.trust import doubtful
from oracle.values import OracleError, Value

__all__ = ["OracleError", "Value", "compare", "doubtful", "evaluate", "make_inputs"]

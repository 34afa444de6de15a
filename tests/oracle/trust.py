"""Who judges which operator at which version, and why: our kernel, the body, a runtime, or onnx."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from onnx import FunctionProto, TypeProto, defs

from oracle import control, engines, kernels_legacy, kernels_nn, kernels_shape  # noqa: F401
from oracle.registry import find
from oracle.schema import Call
from oracle.values import OracleError, Value, elem_type_of

Judge = Callable[..., Any]

RUNTIME = {
    ("", "MaxRoiPool"): "no implementation in the reference",
}
BODY = {
    ("", "HardSwish"): "no implementation in the reference; the body is its definition",
    ("", "Mish"): "no implementation in the reference; the body is its definition",
    ("", "MeanVarianceNormalization"): "no implementation in the reference",
}


@lru_cache(maxsize=4096)
def judge(call: Call) -> Judge:
    """The trusted implementation, as `judge(frame, call, *inputs)`."""
    key = (call.node.domain, call.op)
    own = find(*key, call.since)
    if own is not None:
        run = own.run
        return run if own.scoped else lambda _frame, *rest: run(*rest)
    if key in RUNTIME:
        return lambda _frame, *rest: engines.runtime(*rest)
    if key in BODY:
        return _body
    return lambda _frame, *rest: engines.reference(*rest)


def _body(frame: Any, call: Call, *inputs: Value) -> tuple[Value, ...]:
    """The operator by the function body its schema ships for this version."""
    schema: defs.OpSchema = call.schema
    body = FunctionProto()
    if schema.has_function:
        body.CopyFrom(schema.function_body)
    else:
        types = [_type(value).SerializeToString() for value in inputs]
        text = schema.get_context_dependent_function(call.node.SerializeToString(), types)
        body.ParseFromString(text)
    if not body.node:
        raise OracleError(f"{call.op}-{call.since} has no body for these types")
    return tuple(frame.expand(body, call.node, list(inputs)))


def _type(value: Value) -> TypeProto:
    proto = TypeProto()
    if value is not None:
        proto.tensor_type.elem_type = elem_type_of(value.dtype)
        for size in value.shape:
            proto.tensor_type.shape.dim.add().dim_value = size
    return proto

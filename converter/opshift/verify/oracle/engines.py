# SPDX-License-Identifier: Apache-2.0
"""Runs single nodes in external engines: onnx's reference implementation and onnxruntime."""

import inspect
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from opshift.protos import GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto
from opshift.protos.whole import defs, helper
from opshift.verify.extra import onnxruntime
from opshift.verify.oracle.strict_schema import Call, completed
from opshift.verify.oracle.values import OracleError, Value, tensor, type_of, wide

_PACKAGES = {  # onnx 1.17 has no aionnx_preview, so each package is imported when it is used
    "": "onnx.reference.ops",
    "ai.onnx.ml": "onnx.reference.ops.aionnxml",
    "ai.onnx.preview": "onnx.reference.ops.aionnx_preview",
    "ai.onnx.preview.training": "onnx.reference.ops.aionnx_preview_training",
}
RUNTIME_OPSETS = {"": 26, "ai.onnx.ml": 5}
# The newest opset at which onnxruntime has a kernel, if later versions only add element types.
RUNTIME_STOPS = {"MaxRoiPool": 21}
RUNTIME_IR = 13
READ_BY_SELF = {("BitShift", "direction"), ("LogSoftmax", "axis")}  # not arguments of `_run`


@cache
def _implementation(domain: str, op: str, since: int) -> Any:
    try:
        package = import_module(_PACKAGES[domain])
    except (KeyError, ImportError):
        raise OracleError(f"no engine can evaluate operators of domain {domain!r}") from None
    try:
        implementation = package.load_op(domain, op, since)
    except (RuntimeError, TypeError, AssertionError) as error:  # also for an op with only a body
        raise OracleError(f"onnx's reference does not implement {op}-{since}") from error
    if unread := _unread_attributes(implementation, domain, op, since):
        raise OracleError(f"onnx's reference of {op}-{since} does not read {unread[0]!r}")
    return implementation


def _unread_attributes(implementation: Any, domain: str, op: str, since: int) -> list[str]:
    """Returns the attributes that the reference ignores, as it may in the opset that added them."""
    read = inspect.signature(implementation._run).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in read.values()):
        return []
    names = defs.get_schema(op, since, domain).attributes
    return [name for name in names if name not in read and (op, name) not in READ_BY_SELF
            and name != "consumed_inputs"]  # fmt: skip


def has_reference(domain: str, op: str, since: int) -> bool:
    """Returns whether onnx's reference implements this version of an operator."""
    try:
        return isinstance(_implementation(domain, op, since), type)
    except OracleError:
        return False


@lru_cache(maxsize=4096)
def _instance(call: Call) -> Any:
    """Returns the operator of onnx.reference for a node, with the defaults of its version."""
    parameters = {
        "log": lambda *_: None,
        "opsets": {call.node.domain: call.opset},
        "verbose": 0,
        "new_ops": None,
    }
    return _implementation(call.node.domain, call.op, call.since)(completed(call), parameters)


def reference(call: Call, *inputs: Value) -> tuple[Value, ...]:
    """Computes a node with onnx's reference implementation, which may overwrite its inputs."""
    inputs = tuple(map(_writable, inputs))
    with np.errstate(all="ignore"):
        results: tuple[Value, ...] = _instance(call).run(*inputs)
    return results


def _writable(value: Value) -> Value:
    """Copies a read-only array, because LogSoftmax of an empty array writes to its input."""
    fixed = isinstance(value, np.ndarray) and not value.flags.writeable
    return value.copy() if fixed else value


def runtime(call: Call, *inputs: Value) -> tuple[Value, ...]:
    """Computes one node in onnxruntime; 8- and 16-bit floats are computed in float32."""
    narrow = next((x.dtype for x in inputs if isinstance(x, np.ndarray) and x is not wide(x)), None)
    feeds = {
        f"i{index}": wide(value) if isinstance(value, np.ndarray) else value
        for index, value in enumerate(inputs)
        if value is not None
    }
    session = _session(call, tuple((name, type_of(value)) for name, value in feeds.items()))
    results: dict[str, Value] = dict(
        zip((o.name for o in session.get_outputs()), session.run(None, feeds), strict=True)
    )
    values = [results.get(f"o{index}") for index in range(len(call.node.output))]
    if narrow is not None:
        values = [
            v.astype(narrow) if isinstance(v, np.ndarray) and v.dtype == np.float32 else v
            for v in values
        ]
    return tuple(tensor(v) if isinstance(v, np.ndarray) else v for v in values)


@lru_cache(maxsize=1024)
def _session(call: Call, types: tuple[tuple[str, str], ...]) -> Any:
    node = NodeProto()
    node.CopyFrom(call.node)
    feeds = dict(types)
    node.input[:] = [f"i{i}" if f"i{i}" in feeds else "" for i in range(len(node.input))]
    node.output[:] = [f"o{i}" if name else "" for i, name in enumerate(node.output)]
    graph = GraphProto(name="one", node=[node])
    for name, kind in types:
        elem = int(TensorProto.DataType.Value(kind[7:-1].upper()))
        graph.input.append(helper.make_tensor_value_info(name, elem, None))
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in node.output if name)
    newest = RUNTIME_OPSETS[node.domain]
    if call.since > newest:
        raise OracleError(f"onnxruntime has no {call.op}-{call.since}")
    version = min(call.opset, RUNTIME_STOPS.get(call.op, newest))
    imports = [OperatorSetIdProto(domain=node.domain, version=version)]
    if node.domain:
        imports.append(OperatorSetIdProto(domain="", version=RUNTIME_OPSETS[""]))
    return as_written(ModelProto(ir_version=RUNTIME_IR, graph=graph, opset_import=imports))


def as_written(model: ModelProto) -> Any:
    """Returns a session of onnxruntime that runs a model without optimizations."""
    ort = onnxruntime()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])

# SPDX-License-Identifier: Apache-2.0
"""Chooses the engine of each operator version: our kernel, function body, onnxruntime or onnx."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import ml_dtypes

from opshift.model.walk import nodes_in
from opshift.protos import FunctionProto, ModelProto, NodeProto, TensorProto, TypeProto
from opshift.protos.whole import defs, helper
from opshift.verify.oracle import (  # noqa: F401
    control_flow,
    engines,
    kernels_attention,
    kernels_deform,
    kernels_legacy,
    kernels_misc,
    kernels_ml,
    kernels_nn,
    kernels_pool,
    kernels_quant,
    kernels_random,
    kernels_reduce,
    kernels_rnn,
    kernels_sample,
    kernels_shape,
)
from opshift.verify.oracle.kernel_registry import KERNELS, NEWEST, find
from opshift.verify.oracle.strict_schema import Call, completed
from opshift.verify.oracle.values import OracleError, Value, elem_type_of

Judge = Callable[..., Any]

OLD = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16) != ml_dtypes.bfloat16
"""Whether onnx is older than 1.19, whose reference implementation has known errors."""

RUNTIME = {
    ("", "MaxRoiPool"): "onnx's reference does not implement MaxRoiPool",
    (
        "ai.onnx.ml",
        "LinearClassifier",
    ): "onnxruntime's convention for two classes is common practice",
    ("ai.onnx.ml", "LinearRegressor"): "onnx's reference does not apply the post transform",
    ("ai.onnx.ml", "Normalizer"): "onnx's reference takes the largest magnitude for the maximum",
    ("ai.onnx.ml", "SVMClassifier"): "onnx's reference computes other probabilities and votes",
    ("ai.onnx.ml", "SVMRegressor"): "SVMRegressor uses the same engine as SVMClassifier",
}
BODY = {
    ("", "Gelu"): "onnx's reference lacks Gelu; the function body is the definition",
    ("", "GroupNormalization"): "the function body is the definition; onnx's reference lacks it",
    ("", "HardSwish"): "onnx's reference lacks HardSwish; the function body is the definition",
    ("", "LogSoftmax"): "onnx's reference computes the logarithm of a Softmax that may be 0",
    ("", "Mish"): "onnx's reference lacks Mish; the function body is the definition",
    ("", "SoftmaxCrossEntropyLoss"): "onnx's reference computes the logarithm of a Softmax",
}

NOBODY = {
    ("", "ImageDecoder"): "image decoders are not installed",
    ("ai.onnx.preview.training", "Gradient"): "differentiation is not implemented",
}


@lru_cache(maxsize=4096)
def judge(call: Call) -> Judge:
    """Returns the function that computes an operator, called as `judge(frame, call, *inputs)`."""
    key = (call.node.domain, call.op)
    own_kernel = find(*key, call.since)
    if own_kernel is not None:
        run = own_kernel.run
        return run if own_kernel.scoped else lambda _frame, *rest: run(*rest)
    if key in RUNTIME:
        return lambda _frame, *rest: engines.runtime(*rest)
    if key in BODY:
        return _body
    if key in NOBODY:
        raise OracleError(f"no engine can evaluate {call.op}: {NOBODY[key]}")
    return lambda _frame, *rest: engines.reference(*rest)


def _body(frame: Any, call: Call, *inputs: Value) -> tuple[Value, ...]:
    """Computes an operator by the function body in the schema of its version."""
    schema: Any = call.schema
    body = FunctionProto()
    if schema.has_function:
        body.CopyFrom(schema.function_body)
    else:
        types = [_type(value).SerializeToString() for value in inputs]
        text = schema.get_context_dependent_function(completed(call).SerializeToString(), types)
        body.ParseFromString(text)
    if not body.node:
        raise OracleError(f"{call.op}-{call.since} has no function body for these types")
    if not any(entry.domain == "" for entry in body.opset_import):
        body.opset_import.add(domain="", version=frame.opset(""))
    return tuple(frame.expand(body, completed(call), list(inputs)))


def _type(value: Value) -> TypeProto:
    proto = TypeProto()
    if value is not None:
        proto.tensor_type.elem_type = elem_type_of(value.dtype)
        for size in value.shape:
            proto.tensor_type.shape.dim.add().dim_value = size
    return proto


def judged(domain: str, op: str, since: int) -> str | None:
    """Returns the engine for an operator version: kernel, runtime, body, reference or None."""
    if find(domain, op, since) is not None:
        return "kernel"
    if (domain, op) in RUNTIME:
        return "runtime"
    if (domain, op) in BODY:
        return "body"
    if (domain, op) in NOBODY:
        return None
    return "reference" if engines.has_reference(domain, op, since) else None


def doubtful(*models: ModelProto) -> bool:
    """Returns whether onnx's reference, in an old release, computes a node of these models."""
    if not OLD:
        return False
    return any(
        judged(node.domain, node.op_type, _since(node, imports)) != "kernel"
        for model in models
        for imports, nodes in _bodies(model)
        for node in nodes
    )


def _bodies(model: ModelProto) -> Iterator[tuple[dict[str, int], Iterable[NodeProto]]]:
    for part in (model, *model.functions):
        nodes = nodes_in(part.graph if isinstance(part, ModelProto) else part)
        yield {entry.domain: entry.version for entry in part.opset_import}, nodes


def _since(node: NodeProto, imports: dict[str, int]) -> int:
    try:
        version = imports.get(node.domain, 1)
        return int(defs.get_schema(node.op_type, version, node.domain).since_version)
    except defs.SchemaError:
        return 0


def table() -> str:
    """Returns the engines of all operators as a Markdown table."""
    rows: dict[tuple[str, int, int, str], list[str]] = {}
    for (domain, op), kernels in KERNELS.items():
        for row in kernels:
            rows.setdefault((domain, row.since, row.until, row.why), []).append(op)
    lines = ["| operators | versions | judge | why |", "|---|---|---|---|"]
    for (domain, since, until, why), ops in sorted(
        rows.items(), key=lambda row: (row[0][0], row[1])
    ):
        span = f"{since}.." if until == NEWEST else f"{since}..{until}"
        lines.append(f"| {_named(domain, ops)} | {span} | own kernel | {why} |")
    for judge_name, entries in (
        ("onnxruntime", RUNTIME),
        ("function body", BODY),
        ("nobody", NOBODY),
    ):
        for (domain, op), why in entries.items():
            lines.append(f"| {_named(domain, [op])} | 1.. | {judge_name} | {why} |")
    lines.append("| everything else | 1.. | onnx.reference | agrees with the official data |")
    return "\n".join(lines) + "\n"


def _named(domain: str, ops: list[str]) -> str:
    return " ".join([f"`{domain}`"] * bool(domain) + sorted(ops))

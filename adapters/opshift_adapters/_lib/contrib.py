# SPDX-License-Identifier: Apache-2.0
"""Parts of the adapters of contrib operators: normalization over the last axis, activations."""

from typing import Any

from opshift.adapter import Builder, Node, Refusal, T, Value, Why

from opshift_adapters._lib.blocks import squared
from opshift_adapters._lib.kinds import as_type

MICROSOFT = "com.microsoft"


def attribute(node: Node, name: str, default: Any) -> Any:
    """Returns an attribute, or the default of onnxruntime if the node does not set it."""
    value = node.attr(name)
    if value is None:
        return default
    return value.decode() if isinstance(value, bytes) else value


def written(node: Node, *names: str) -> dict[str, Any]:
    """Returns the named attributes, without those that the node does not set."""
    return {name: attribute(node, name, None) for name in names if node.has(name)}


def named(node: Node, names: str) -> list[Value]:
    """Returns the inputs with these names (separated by spaces); all of them are required."""
    return [node[name] for name in names.split()]


def refuse(node: Node, *names: str) -> None:
    """Refuses a node that sets one of these attributes; no adapter expresses their effect."""
    for name in names:
        if attribute(node, name, 0):
            raise Refusal(Why.NOT_EXPRESSIBLE, f"{node.op} with {name} is impossible in ai.onnx")


def mean_of_last(op: Builder, x: Value) -> Value:
    """Returns the mean over the last axis, which is kept with size 1."""
    return op.ReduceMean(x, op.const([-1]))


def layer_normalized(
    op: Builder, x: Value, scale: Value, bias: Value | None, epsilon: float, outputs: int = 1
) -> tuple[Value, ...]:
    """Writes LayerNormalization over the last axis (opset >= 11): result, mean, 1 / deviation."""
    if op.version >= 17:  # below, the formula stays in the type of the data, also in double
        return op.LayerNormalization(x, scale, bias, axis=-1, epsilon=epsilon, outputs=outputs)
    kind = scale.elem_type
    wide = as_type(op, x, _stash(kind))
    mean = mean_of_last(op, wide)
    gap = wide - mean
    variance = mean_of_last(op, squared(op, gap, _stash(kind)))
    deviation = op.Sqrt(variance + op.const(epsilon, like=wide))
    normal = gap / deviation
    y = as_type(op, normal, kind) * scale
    return (y if bias is None else y + bias, mean, op.Reciprocal(deviation))[:outputs]


def _stash(kind: int) -> int:
    """Returns the type in which a runtime computes means: float for float16, else the same type."""
    return T.FLOAT if kind == T.FLOAT16 else kind


def root_mean_square_normalized(op: Builder, x: Value, scale: Value, epsilon: float) -> Value:
    """Writes x / Sqrt(mean of x * x) * scale over the last axis (opset 11 and later)."""
    kind = scale.elem_type
    wide = as_type(op, x, _stash(kind))
    square = mean_of_last(op, squared(op, wide, _stash(kind)))
    root = op.Sqrt(square + op.const(epsilon, like=wide))
    normal = wide / root
    return as_type(op, normal, kind) * scale


_PARAMETERS = dict.fromkeys(("HardSwish", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), "")
_PARAMETERS |= dict.fromkeys(("Elu", "LeakyRelu", "ThresholdedRelu"), "alpha")
_PARAMETERS |= {"HardSigmoid": "alpha beta", "Selu": "alpha gamma"}


def is_known_activation(name: str, parameters: int) -> bool:
    """Returns whether adapters can write an activation that has this number of parameters."""
    return name in _PARAMETERS or (name == "Clip" and parameters == 2)


def activated(op: Builder, x: Value, name: str, parameters: list[float]) -> Value:
    """Writes the activation of a fused operator; `parameters` follow the order of the schema."""
    if not is_known_activation(name, len(parameters)):
        raise Refusal(Why.NOT_EXPRESSIBLE, f"ai.onnx has no operator for the activation {name!r}")
    if name == "Clip":
        low, high = (op.const(parameter, like=x) for parameter in parameters)
        return op.Clip(x, low, high)
    named: dict[str, Any] = dict(zip(_PARAMETERS[name].split(), parameters, strict=False))
    result: Value = op.emit(name, x, **named)
    return result

# SPDX-License-Identifier: Apache-2.0
"""Optional, OptionalGetElement and OptionalHasElement, which opset 15 added."""

from opshift.adapter import KEEP, Builder, Node, Refusal, Result, T, Value, Why, adapter, boundary

from opshift_adapters._lib.makers import maker

GONE = "optional values do not exist before opset 15"

TYPES_28 = boundary(28, "Optional:f19530 OptionalGetElement:41d3e1 OptionalHasElement:c7001f")
TYPES_18_UP = boundary(18, "OptionalGetElement:79fb9b OptionalHasElement:9ab68b", directions="up")


@adapter("OptionalGetElement", 18, 17, handles_types=True)
def optional_get_element_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, OptionalGetElement of a value that is not optional is the value itself."""
    return KEEP if _is_optional(node["input"]) else node["input"]


@adapter("OptionalHasElement", 18, 17, handles_types=True)
def optional_has_element_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, OptionalHasElement of no input or of a plain value becomes a constant."""
    value = node.input("input")
    if value is not None and _is_optional(value):
        return KEEP
    return op.const(value is not None, T.BOOL)


def _is_optional(value: Value) -> bool:
    if value.type is None:
        raise Refusal(Why.NEEDS_TYPE, f"it is unknown whether {value.name!r} is an optional")
    return value.type.HasField("optional_type")


@adapter("OptionalGetElement OptionalHasElement", 15, 14)
def optional_element_15_14(node: Node, op: Builder) -> Result:
    """Below opset 15, the value that Optional wraps replaces OptionalGetElement."""
    optional = node["input"]
    source = maker(optional, "Optional")
    if source is None:
        raise Refusal(Why.NEEDS_CONSTANT, f"{GONE}; the content of {optional.name!r} is unknown")
    element = source.input("input")
    if node.op == "OptionalHasElement":
        return op.const(element is not None, T.BOOL)
    if element is None:
        raise Refusal(Why.NOT_EXPRESSIBLE, "OptionalGetElement reads an empty optional")
    return element


@adapter("Optional", 15, 14)
def optional_15_14(node: Node, op: Builder) -> Result:
    """Below opset 15, Optional is removed after all nodes that read it."""
    return op.dissolve(GONE)

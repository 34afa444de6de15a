# SPDX-License-Identifier: Apache-2.0
"""What the classes of the nodes tell, beside the conversion of each node."""

from __future__ import annotations

from onnx import ModelProto
from opshift import convert
from opshift.author import registry
from opshift.convert.api import node_by_node
from opshift.convert.quotient import conversion
from opshift.convert.request import Request


def why_not(model: ModelProto, wanted: Request) -> str:
    """Why classes do not tell the result; nothing if they do, and it is that of the nodes."""
    told = conversion.convert(model.SerializeToString(), wanted, registry.default())
    if told.result is None:
        return told.why
    with node_by_node():
        other = convert(model, wanted)
    made = ModelProto.FromString(told.result[0])
    expected = other.model.SerializeToString(deterministic=True)
    assert made.SerializeToString(deterministic=True) == expected
    assert told.result[1].as_dict() == other.report.as_dict()
    return ""

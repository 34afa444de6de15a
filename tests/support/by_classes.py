# SPDX-License-Identifier: Apache-2.0
"""What the classes of the nodes tell, beside the conversion of each node."""

from __future__ import annotations

import json
from typing import Any

from onnx import ModelProto
from opshift import Refused, convert
from opshift.author import registry
from opshift.convert.api import node_by_node
from opshift.convert.quotient import conversion
from opshift.convert.request import Request


def why_not(model: ModelProto, wanted: Request) -> str:
    """Why classes do not tell the result; nothing if they do, and it is that of the nodes.

    A refusal that they tell in its place must be that of the nodes, too.
    """
    told = conversion.convert(model.SerializeToString(), wanted, registry.default())
    if told.refused is not None:
        assert shown(told.refused) == shown(refusal_by_nodes(model, wanted))
    if told.result is None:
        return told.why
    with node_by_node():
        other = convert(model, wanted)
    made = ModelProto.FromString(told.result[0])
    expected = other.model.SerializeToString(deterministic=True)
    assert made.SerializeToString(deterministic=True) == expected
    assert told.result[1].as_dict() == other.report.as_dict()
    return ""


def refusal_by_nodes(model: ModelProto, wanted: Any) -> Refused:
    """The refusal that the conversion of each node gives."""
    try:
        with node_by_node():
            convert(model, wanted)
    except Refused as refused:
        return refused
    raise AssertionError("the nodes are not refused")


def shown(refused: Refused) -> list[Any]:
    """All that a refusal tells, in its order."""
    texts = [str(refused), refused.cure, *map(str, refused.lines()), *map(str, refused.refusals)]
    data = [json.dumps(one.as_dict()) for one in refused.refusals]
    versions = [*refused.nearest.items(), *refused.target.items()]
    steps = [*refused.steps, *refused.dead_ends]
    return [refused.refusals, versions, steps, data, texts, refused.to_html(), refused.args]

# SPDX-License-Identifier: Apache-2.0
"""Reads models written as text, with equal results in every release of onnx."""

from __future__ import annotations

import re
from collections.abc import Iterable

from opshift.protos import AttributeProto, ModelProto, NodeProto
from opshift.protos.whole import parser

_ABSENT = "left_out__"
_TOKEN = re.compile(r'\[[^\]]*\]|\{\s*"[^{}=]*\}|(?<=[=:])\s*"[^"]*"|"[^"]+"|""')


def parse_model(text: str) -> ModelProto:
    """`""` is an input or an output that is left out, which onnx 1.17 cannot read yet."""
    named = _TOKEN.sub(lambda found: _ABSENT if found[0] == '""' else found[0], text)
    model = parser.parse_model(named)
    if named != text:
        _leave_out(model.graph.node)
        for function in model.functions:
            _leave_out(function.node)
    return model


def _leave_out(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == _ABSENT:
                    names[i] = ""
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _leave_out(attribute.g.node)
            for graph in attribute.graphs:
                _leave_out(graph.node)

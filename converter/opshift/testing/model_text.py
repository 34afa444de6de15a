# SPDX-License-Identifier: Apache-2.0
"""Parses models in ONNX's text format, with equal results in every release of onnx."""

from __future__ import annotations

import re

from opshift.model import walk
from opshift.protos import ModelProto
from opshift.protos.whole import parser

_ABSENT = "left_out__"
_TOKEN = re.compile(r'\[[^\]]*\]|\{\s*"[^{}=]*\}|(?<=[=:])\s*"[^"]*"|"[^"]+"|""')


def parse_model(text: str) -> ModelProto:
    """Parses a model; `""` is an absent input or output, which onnx 1.17 cannot parse yet."""
    named = _TOKEN.sub(lambda match: _ABSENT if match[0] == '""' else match[0], text)
    model = parser.parse_model(named)
    for node in walk.nodes(model) if named != text else ():
        for names in (node.input, node.output):
            names[:] = ["" if name == _ABSENT else name for name in names]
    return model

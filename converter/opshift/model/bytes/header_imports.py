# SPDX-License-Identifier: Apache-2.0
"""Reads the imports of a model and its functions from the bytes, without the graph."""

from __future__ import annotations

from opshift.model.bytes import wire
from opshift.opsets.identity import normal

IMPORT, FUNCTION = 8, 25  # fields of ModelProto
_OF_FUNCTION = 9  # a field of FunctionProto


def domains(data: wire.Buffer) -> set[str]:
    """Returns every domain that the model or one of its functions imports."""
    names = set[str]()
    for _, tag, body, end, _ in wire.fields(data, 0, len(data)):
        if tag >> 3 == IMPORT:
            names.add(imported(data, body, end)[0])
        elif tag >> 3 == FUNCTION:
            names.update(domain for domain, _ in of_function(data, body, end))
    return names


def imported(data: wire.Buffer, pos: int, end: int) -> tuple[str, int]:
    """Returns the domain and the version of one import."""
    domain, version = b"", 0
    for _, tag, body, stop, value in wire.fields(data, pos, end):
        if tag >> 3 == 1:
            domain = data[body:stop]
        elif tag >> 3 == 2:
            version = value
    return normal(domain.decode(errors="replace")), version


def of_function(data: wire.Buffer, pos: int, end: int) -> list[tuple[str, int]]:
    """Returns the imports of a function."""
    return [
        imported(data, body, stop)
        for _, tag, body, stop, _ in wire.fields(data, pos, end)
        if tag >> 3 == _OF_FUNCTION
    ]

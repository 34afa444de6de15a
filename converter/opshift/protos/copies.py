# SPDX-License-Identifier: Apache-2.0
"""Copies models that are given as messages or as bytes."""

from __future__ import annotations

from opshift.protos import ModelProto


def copied(model: bytes | ModelProto) -> ModelProto:
    """Returns a copy of a model, which is a message or its bytes."""
    if isinstance(model, bytes):
        return ModelProto.FromString(model)
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy

# SPDX-License-Identifier: Apache-2.0
"""Reads and copies models that are given as messages or as bytes."""

from __future__ import annotations

from opshift.protos import ModelProto


def as_model(model: bytes | ModelProto) -> ModelProto:
    """Returns a model, which is a message or its bytes; a message is not copied."""
    return ModelProto.FromString(model) if isinstance(model, bytes) else model


def copied(model: bytes | ModelProto) -> ModelProto:
    """Returns a copy of a model, which is a message or its bytes."""
    if isinstance(model, bytes):
        return ModelProto.FromString(model)
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy

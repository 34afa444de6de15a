# SPDX-License-Identifier: Apache-2.0
"""Copies of models that are given as messages or as bytes."""

from __future__ import annotations

from opshift.protos import ModelProto


def copied(model: bytes | ModelProto) -> ModelProto:
    """A copy of a model, which is given as a message or as its bytes."""
    copy = ModelProto()
    copy.MergeFromString(model if isinstance(model, bytes) else model.SerializeToString())
    return copy

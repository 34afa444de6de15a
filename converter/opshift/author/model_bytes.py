# SPDX-License-Identifier: Apache-2.0
"""The bytes of a model with what inference found out about them."""

from __future__ import annotations

import functools

from opshift.model.bytes.outline import Content, read_as
from opshift.protos import ModelProto


class ModelBytes:
    """The bytes of a model with its outline, which is parsed at most once, and its risk."""

    def __init__(self, data: bytes, may_be_hidden: bool | None = None) -> None:
        self.data = data
        self.may_be_hidden = may_be_hidden  # see `safe_inference`; None if unknown

    @classmethod
    def of(cls, model: bytes | ModelProto | ModelBytes) -> ModelBytes:
        """Returns the bytes of a model that is given as bytes or as a message."""
        if isinstance(model, ModelBytes):
            return model
        return cls(model if isinstance(model, bytes) else model.SerializeToString())

    @functools.cached_property
    def content(self) -> Content:
        """Returns the kinds of content in the model."""
        return read_as(Content, self.data)

    @functools.cached_property
    def operators(self) -> set[str]:
        """Returns the names of all operators and functions that nodes call."""
        return self.content.operators()

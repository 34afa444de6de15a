# SPDX-License-Identifier: Apache-2.0
"""The bytes of a model with what inference found out about them."""

from __future__ import annotations

import functools

from opshift.model.bytes.outline import Content, read_as
from opshift.protos import ModelProto


class ModelBytes:
    """The bytes of a model with its outline, which is parsed at most once, and its risk."""

    def __init__(
        self, data: bytes, may_be_hidden: bool | None = None, *, risky: bool = False
    ) -> None:
        self.data = data
        self.may_be_hidden = may_be_hidden  # see `safe_inference`; None if unknown
        self.risky = risky  # whether inference may still end the process

    @classmethod
    def of(cls, model: bytes | ModelProto | ModelBytes, *, risky: bool = False) -> ModelBytes:
        """Returns the bytes of a model that is given as bytes or as a message."""
        if isinstance(model, ModelBytes):
            return model
        data = model if isinstance(model, bytes) else model.SerializeToString()
        return cls(data, risky=risky)

    @functools.cached_property
    def content(self) -> Content:
        """Returns the kinds of content in the model."""
        return read_as(Content, self.data)

    @functools.cached_property
    def operators(self) -> set[str]:
        """Returns the names of all operators and functions that nodes call."""
        return self.content.operators()

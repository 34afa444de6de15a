# SPDX-License-Identifier: Apache-2.0
"""The facts about a model of which only the bytes of the skeleton are here."""

from __future__ import annotations

from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.convert.quotient.template import Beyond
from opshift.model import weights
from opshift.model.arrays import Array
from opshift.model.document import Document
from opshift.protos import ModelProto, TensorProto


class _NoPayloads(weights.Weights):
    def load(self, tensor: TensorProto) -> Array:
        if self.is_stub(tensor):
            raise Beyond("a payload")
        return super().load(tensor)


def of_model(model: ModelProto, data: bytes, adapters: Registry) -> Facts:
    """The facts about a model with these bytes; a question for a payload is not answered."""
    view = weights.checkable(model, data)
    return Facts(Document(model), _NoPayloads(), adapters, lambda: view)

# SPDX-License-Identifier: Apache-2.0
"""Strict inference of graphs of a few nodes, all with the same imports."""

from __future__ import annotations

from opshift.author import safe_inference
from opshift.convert.classes.rows import Unproven
from opshift.model.bytes import wire
from opshift.protos import ModelProto
from opshift.protos.shape_inference import infer_shapes

Imports = tuple[tuple[str, int], ...]


class StrictInference:
    """Strict inference, with its checks of types, for one IR version and one set of imports."""

    def __init__(self, imports: Imports, ir_version: int) -> None:
        head = ModelProto(ir_version=ir_version)
        for domain, version in imports:
            head.opset_import.add(domain=domain, version=version)
        self._head = head.SerializeToString()
        head.opset_import.add(domain=safe_inference.NOBODY, version=1)
        self._foreign_head = head.SerializeToString()

    def model(self, graph: bytes, functions: bytes = b"", *, foreign: bool = False) -> bytes:
        """A model of a graph and of functions, which are fields of a model.

        With `foreign`, it imports a domain that inference does not know.
        """
        head = self._foreign_head if foreign else self._head
        return head + wire.framed(7, graph) + functions

    def infer(
        self,
        graph: bytes,
        functions: bytes = b"",
        *,
        data_prop: bool = False,
        foreign: bool = False,
    ) -> ModelProto:
        """The graph with the types of its values; inference must not object."""
        data = self.model(graph, functions, foreign=foreign)
        data_prop = data_prop and safe_inference.may_propagate(data)
        try:
            return infer_shapes(data, check_type=True, strict_mode=True, data_prop=data_prop)
        except safe_inference.COMPLAINTS:
            raise Unproven("an objection of inference to a class") from None

# SPDX-License-Identifier: Apache-2.0
"""Finds the coarsest type in the computation of each value, which determines its rounding."""

from __future__ import annotations

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.author.scope_types import by_graph, by_name
from opshift.model import walk, weights
from opshift.opsets.elements import ELEMENTS, T
from opshift.protos import GraphProto, ModelProto, NodeProto
from opshift.verify.tolerance import BY_TYPE, EXACT

NAMES = {T.FLOAT: "float32", T.DOUBLE: "float64"} | {
    row.number: name for row in ELEMENTS.values() if (name := row.ml_dtypes or row.name) in BY_TYPE
}


class Precision:
    """Finds the coarsest floating-point type from which each value of a model is computed.

    Equal formulas with different operators round differently in this type. The type of the output
    may hide this type: many models compute in float16 and end with a Cast to float.
    """

    def __init__(self, model: ModelProto, adapters: Registry) -> None:
        self._model, self._adapters = model, adapters
        self._found: dict[str, str] | None = None
        # values that were compared with the tolerance of a coarser type
        self.used: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Returns numpy's name of the coarsest type for a value; empty if the type is unknown."""
        if self._found is None:
            self._found = self._looked_up()
        return self._found.get(name, "")

    def _looked_up(self) -> dict[str, str]:
        view = weights.checkable(weights.carve_model(self._model)[0])
        try:
            typed = safe_inference.infer(view, self._adapters)
        except safe_inference.COMPLAINTS:  # only declared types are used if inference fails
            typed = self._model
        types = {
            name: NAMES.get(T(kind.tensor_type.elem_type), "exact")
            for name, kind in by_name(by_graph(typed)).items()
            if kind is not None and kind.HasField("tensor_type")
        }
        coarsest: dict[str, str] = {}
        _follow(typed.graph, types, coarsest)
        return coarsest


def _follow(graph: GraphProto, types: dict[str, str], coarsest: dict[str, str]) -> None:
    """Adds the values of a graph; a Constant adds no rounding to the values computed from it."""
    for node in graph.node:
        for _, inner in walk.graphs_of(node):
            _follow(inner, types, coarsest)
        ways = {coarsest.get(name, "") for name in _read(node)}
        for name in filter(None, node.output):
            kind = types.get(name, "")
            if kind != "exact":
                coarsest[name] = max((kind if node.input else "", *ways), key=_coarseness)


def _read(node: NodeProto) -> set[str]:
    """Returns the inputs of a node and the outputs of its subgraphs."""
    inner = (output.name for _, graph in walk.graphs_of(node) for output in graph.output)
    return {*walk.reads(node), *inner}


def _coarseness(name: str) -> float:
    return BY_TYPE.get(name, EXACT).rtol

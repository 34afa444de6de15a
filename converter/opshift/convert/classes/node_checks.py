# SPDX-License-Identifier: Apache-2.0
"""What onnx's checker and the rules of adapters have against one node, tensor or output."""

from __future__ import annotations

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.author.traits import Fragile, Illegal
from opshift.convert.classes.local_functions import NONE, LocalFunctions
from opshift.convert.classes.nested import holds_graphs
from opshift.convert.classes.operation import Operation, key_of
from opshift.convert.classes.rows import Unproven
from opshift.convert.classes.shown_bytes import checkable, graph_input
from opshift.convert.classes.strict_inference import Imports, StrictInference
from opshift.model.bytes import wire
from opshift.model.scope import call_id
from opshift.model.walk import nodes_inside
from opshift.model.weights.store import Weights
from opshift.opsets import schemas
from opshift.protos import NodeProto, TensorProto, helper, onnx_checker

DOMAINS = frozenset({"", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training"})
_NO_NAMES = onnx_checker.LexicalScopeContext()
_OF_NOBODY = wire.framed(7, safe_inference.NOBODY.encode())  # the last domain counts


class NodeChecks:
    """The checks of single parts of models with one IR version and one set of imports."""

    def __init__(
        self,
        imports: Imports,
        ir_version: int,
        adapters: Registry,
        inference: StrictInference,
        functions: LocalFunctions = NONE,
    ) -> None:
        self.adapters = adapters
        self.functions = functions
        self.inference = inference
        self.versions = dict(imports)
        self._context = onnx_checker.CheckerContext()
        self._context.ir_version = ir_version
        self._context.opset_imports = {
            safe_inference.NOBODY: 1,
            **onnx_checker.held_versions(self.versions),
        }

    def tensor(self, data: bytes) -> None:
        """Shows a tensor to the checker, which must not object."""
        try:
            onnx_checker.check_tensor(data, self._context)
        except safe_inference.COMPLAINTS:
            raise Unproven("an objection to a tensor") from None

    def output(self, data: bytes) -> None:
        """Shows an output of a graph to the checker, which must not object."""
        try:
            onnx_checker.check_value_info(data, self._context)
        except safe_inference.COMPLAINTS:
            raise Unproven("an objection to an output") from None

    def node(self, operation: Operation) -> bool:
        """Shows a node to the checker, and to the rules of adapters; nobody must object.

        Returns whether its operator is one that only a conversion knows, and no schema describes.
        """
        key, node = operation.signature, operation.proto
        nested = holds_graphs(key)
        self._require_plain_calls(operation)
        retired = not nested and self._is_retired(operation)
        for one in (node, *nodes_inside(node)):
            if not (retired or self._is_checked(one)) or not _is_plain(
                one, self.adapters, nested=nested
            ):
                raise Unproven(f"an operator that is not looked at: {one.op_type}")
            illegal = self.adapters.traits(Illegal).get(key_of(one), ())
            if any(rule.against(one) for rule in illegal):
                raise Unproven("an objection to an attribute")
        try:
            if nested or operation.calls:
                onnx_checker.check_model(self._alone(operation))
            else:
                shown = checkable(node, key) + (_OF_NOBODY if retired else b"")
                onnx_checker.check_node(shown, self._context, _NO_NAMES)
        except safe_inference.COMPLAINTS:
            raise Unproven("an objection to a node") from None
        return retired

    def _require_plain_calls(self, operation: Operation) -> None:
        """Only a node of a graph that lies in no other calls functions, and it holds no graph."""
        node = operation.proto
        if getattr(node, "overload", "") and not operation.calls:
            raise Unproven("an overload of no function")
        if any(call_id(one) in self.functions.sizes for one in nodes_inside(node)):
            raise Unproven("a call inside of a node")
        if operation.calls and (
            holds_graphs(operation.signature) or any(Weights.is_stub(a.t) for a in node.attribute)
        ):
            raise Unproven("a call that gives a graph or a payload")

    def _alone(self, operation: Operation) -> bytes:
        """A model of one node, whose inputs have some type."""
        number = helper.make_tensor_type_proto(TensorProto.FLOAT, ()).SerializeToString()
        inputs = [graph_input(name, number) for name in operation.inputs if name]
        graph = [operation.written, wire.framed(2, b"alone"), *inputs]
        return self.inference.model(b"".join(graph), self.functions.behind(operation.proto))

    def _is_checked(self, node: NodeProto) -> bool:
        """Whether the checker and inference know an operator, or nothing of its domain.

        The checker lets operators of onnx pass that were experiments and have no schema.
        """
        domain, version = node.domain, self.versions.get(node.domain, 0)
        if domain in DOMAINS:
            return schemas.schema(domain, node.op_type, version) is not None
        return domain not in schemas.known_domains()

    def _is_retired(self, operation: Operation) -> bool:
        """Whether an operator has no schema here, and a conversion replaces it."""
        return operation.schema is None and self.adapters.retired(*operation.key) is not None


def _is_plain(node: NodeProto, adapters: Registry, *, nested: bool) -> bool:
    """Whether a node refers to no attribute, inference outlives it, and it may hold graphs."""
    if (node.domain, node.op_type) in adapters.traits(Fragile):
        return False
    return not any(
        a.ref_attr_name
        or a.HasField("sparse_tensor")
        or (not nested and (a.HasField("g") or a.graphs))
        for a in node.attribute
    )

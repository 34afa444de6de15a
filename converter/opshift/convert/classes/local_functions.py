# SPDX-License-Identifier: Apache-2.0
"""The functions of a model whose nodes are classes: onnx is shown them with each call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import field

from opshift.author.registry import Registry
from opshift.author.traits import Fold, Fragile, Illegal, OutputRanks, OutputShapes, OutputTypes
from opshift.author.verdicts import FORM
from opshift.convert.classes.rows import Unproven
from opshift.errors import InvalidModel
from opshift.model import functions
from opshift.model.bytes import wire
from opshift.model.document import Document, function_id
from opshift.model.illegible import illegible
from opshift.model.scope import FunctionId, call_id
from opshift.model.walk import attributes_of, containers_in, items_in_attributes, nodes_in
from opshift.model.weights.store import Weights
from opshift.opsets import schemas
from opshift.protos import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from opshift.records import dataclass

FIELD = 25  # of a model
FIRST_IR = 8  # below, the checker does not look for functions that call themselves
_SPELLED_OUT = "ai.onnx"


@dataclass(frozen=True, slots=True)
class LocalFunctions:
    """The functions of a model, and the nodes that a call of each stands for."""

    protos: tuple[FunctionProto, ...] = ()
    sizes: Mapping[FunctionId, int] = field(default_factory=dict)
    calls: Mapping[FunctionId, Set[FunctionId]] = field(default_factory=dict)
    _behind: dict[FunctionId, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, model: ModelProto) -> LocalFunctions:
        """The functions of a model, if their calls stand for few nodes."""
        if not model.functions:
            return NONE
        if model.ir_version < FIRST_IR:
            raise Unproven("functions of an old IR version")
        try:
            made = cls.made(tuple(model.functions), functions.sizes_of(model.functions))
        except InvalidModel:
            raise Unproven("functions that stand for many nodes") from None
        try:
            Document(model)
        except InvalidModel:
            raise Unproven("functions that cannot be opened") from None
        # Old releases of onnx follow such calls until the process dies.
        if any(functions.recursion(made.calls)):
            raise Unproven("functions that call themselves")
        return made

    @classmethod
    def made(
        cls, protos: tuple[FunctionProto, ...], sizes: Mapping[FunctionId, int]
    ) -> LocalFunctions:
        """These functions, with what they call."""
        return cls(protos, sizes, functions.calls_of({function_id(one): one for one in protos}))

    @property
    def key(self) -> bytes:
        """What tells these functions from others."""
        return hashlib.sha256(_as_fields(self.protos)).digest() if self.protos else b""

    def behind(self, call: NodeProto) -> bytes:
        """The functions that a node calls, alone or by way of others, as fields of a model."""
        which = call_id(call)
        if which not in self.sizes:
            return b""
        if which not in self._behind:
            found = {which, *functions.behind(self.calls, which)}
            held = (one for one in self.protos if function_id(one) in found)
            self._behind[which] = _as_fields(held)
        return self._behind[which]

    @property
    def graphs(self) -> list[bytes]:
        """The names of the graphs in functions, which those of other graphs must differ from."""
        held = [one for function in self.protos for one in containers_in(function)]
        return [one.name.encode() for one in held if isinstance(one, GraphProto)]

    def require_plain(self, adapters: Registry) -> None:
        """Goes on only with functions that inference outlives, and that stand for no operator."""
        if len(self.sizes) < len(self.protos):
            raise Unproven("two functions of one name")
        for function in self.protos:
            if illegible(function) is not None:
                raise Unproven("a name that is not UTF-8")
            if _is_like_an_operator(function, adapters):
                raise Unproven("a function with the name of an operator")
            _require_plain_body(function, adapters)


NONE = LocalFunctions()


def _as_fields(protos: Iterable[FunctionProto]) -> bytes:
    bodies = (one.SerializeToString(deterministic=True) for one in protos)
    return b"".join(wire.framed(FIELD, one) for one in bodies)


def _is_like_an_operator(function: FunctionProto, adapters: Registry) -> bool:
    """Whether adapters or onnx may take a call of a function for an operator."""
    domain, name, _ = function_id(function)
    if domain in schemas.known_domains() or function.domain == _SPELLED_OUT:
        return True
    ruled = (adapters.rules(kind) for kind in (Fold, OutputRanks, OutputTypes, OutputShapes))
    if any((domain, name) in known for known in ruled):
        return True
    met = adapters.get(domain, name, *FORM) or adapters.retired(domain, name)
    return met is not None or bool(schemas.history(domain, name))


def _require_plain_body(function: FunctionProto, adapters: Registry) -> None:
    versions = {one.domain: one.version for one in function.opset_import}
    if _SPELLED_OUT in versions or len(versions) < len(function.opset_import):
        raise Unproven("two imports of one domain")
    for node in nodes_in(function):
        _require_plain_node(node, versions, adapters)
    for item in items_in_attributes(attributes_of(function)):
        if not isinstance(item, TensorProto) or Weights.is_stub(item):
            raise Unproven("a payload in a function")


def _require_plain_node(node: NodeProto, versions: Mapping[str, int], adapters: Registry) -> None:
    key = (schemas.normal(node.domain), node.op_type)
    if node.domain == _SPELLED_OUT or key in adapters.traits(Fragile):
        raise Unproven(f"an operator that is not looked at: {node.op_type}")
    if key[0] in schemas.known_domains():
        if schemas.schema(*key, versions.get(key[0], 0)) is None:
            raise Unproven(f"an operator that is not looked at: {node.op_type}")
        if any(rule.against(node) for rule in adapters.traits(Illegal).get(key, ())):
            raise Unproven("an objection to an attribute")

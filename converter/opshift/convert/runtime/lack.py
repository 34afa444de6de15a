# SPDX-License-Identifier: Apache-2.0
"""The reasons why a runtime cannot run a model, and what one model keeps for many releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from opshift.codes.refusals import Why
from opshift.errors import RefusedNode
from opshift.lazy import deferred
from opshift.model.scope import Key, Place, Root
from opshift.model.walk import name_of
from opshift.opsets import schemas
from opshift.opsets.types import dims_of, rank_of
from opshift.protos import GraphProto
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.opsets import probed as probed
    from opshift.opsets.kernels import Missing, Types
else:
    probed = deferred("opshift.opsets.probed")  # only a conversion for a runtime needs it

SIZE = 8  # the example size of a free axis in a message

# The element types of a node, and its features: attributes, optional inputs and the rank.
Form: TypeAlias = "tuple[Types, frozenset[str]]"


@dataclass(slots=True)
class Seen:
    """Cached data about one model that do not depend on the release of a runtime.

    A caller that checks one model for many releases passes the same object each time.
    """

    # the element types of nodes, by graph or function, operator and type variables
    types: dict[tuple[int, Key, tuple[str, ...]], list[Types]] = field(default_factory=dict)
    # the nodes of each form, by graph or function and operator
    forms: dict[tuple[int, Key], dict[Form, list[Place]]] = field(default_factory=dict)
    # the nodes that a runtime misreads, or perhaps (None), by the misread form and the operator
    places: dict[tuple[int, Key], list[tuple[Place, bool | None]]] = field(default_factory=dict)
    # the objection of inference to declared shapes, or ""
    contradiction: str | None = None
    # the nodes of illegal element types
    unaccepted: list[tuple[Place, Key, Types, Missing]] | None = None
    # messages on the nodes that break a rule of their operator
    flaws: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class RuntimeLack:
    """A reason why a runtime cannot run a model, and the nodes to which it applies, if any."""

    says: str
    op: str = ""
    domain: str = ""
    node: str = ""  # the first of these nodes
    count: int = 1
    types: str = ""  # a change of types that would help, such as bfloat16=float
    shape: str = ""  # a fixed input shape that may turn the nodes into constants
    value: str = ""  # the first output of the first node

    def __str__(self) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        return f"{self.says} ({self.node!r}{more})" if self.node else self.says

    def as_refusal(self, version: int) -> RefusedNode:
        """Returns the reason as the refusal of a conversion."""
        boundary = (version, version)
        why = Why.TARGET_LACKS
        return RefusedNode(
            self.node, self.op, self.domain, boundary, why, self.says, types=self.types,
            shape=self.shape,
        )  # fmt: skip


def lack_of(
    key: Key, places: Sequence[Place], says: str, types: str = "", shape: str = ""
) -> RuntimeLack:
    (domain, op), (scope, at) = key, places[0]
    node = scope.node(at)
    value = next(filter(None, node.output), "")
    return RuntimeLack(says, op, domain, name_of(node), len(places), types, shape, value)


def fixed_shape(graph: GraphProto) -> str:
    """Returns the option that fixes the shape of the first input with unknown sizes, or ""."""
    for info in graph.input:
        if rank_of(info.type) and not all(isinstance(size, int) for size in dims_of(info.type)):
            sizes = (size if isinstance(size, int) else SIZE for size in dims_of(info.type))
            return f"{info.name}={','.join(map(str, sizes))}"
    return ""


def since_of(root: Root, key: Key) -> int:
    """Returns the operator version at the imported version; without a schema, the imported one."""
    imported = root.imports.get(key[0]) or 1
    schema = schemas.schema(*key, imported)
    return schema.since if schema is not None else imported

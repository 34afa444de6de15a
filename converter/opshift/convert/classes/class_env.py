# SPDX-License-Identifier: Apache-2.0
"""Where folding looks up the inputs of a class."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from opshift.author.bounds import Bounds
from opshift.author.facts import Survey
from opshift.author.node import FoldingEnv, Node, TypePart
from opshift.convert.classes.facets import (
    COMPUTED,
    EXACT,
    PROVED,
    VARIABLE,
    Facet,
    is_told,
)
from opshift.model.arrays import Array, to_array
from opshift.opsets.types import Dims, dims_of
from opshift.protos import NodeProto, TensorProto, TypeProto

if TYPE_CHECKING:
    from opshift.convert.classes.memo import Memo


_Answer = TypeVar("_Answer")


class Unsure(enum.Enum):
    """The answer that a class alone does not give."""

    UNSURE = "unsure"


UNSURE = Unsure.UNSURE


class ClassEnv(FoldingEnv):
    """Where folding looks up the inputs of a class; `questions` are those without an answer."""

    def __init__(
        self, given: Mapping[str, Facet], memo: Memo, questions: list[str] | None = None
    ) -> None:
        self.given = given
        self.memo = memo
        self.questions: list[str] = [] if questions is None else questions

    def type(self, name: str) -> TypeProto | None:
        kind = self.given[name].ranked
        return None if kind is None else TypeProto.FromString(kind)

    def tell(self, name: str, found: TypeProto | None, what: TypePart) -> TypeProto | None:
        trust = self.given[name].trust
        if not trust & PROVED or not (trust & EXACT or is_told(found, what)):
            self.questions.append(name)
        return found

    def dims(self, name: str, found: TypeProto) -> Dims:
        dims = dims_of(found)
        if not self.given[name].trust & EXACT and not all(isinstance(one, int) for one in dims):
            self.questions.append(name)
        return dims

    def load(self, tensor: TensorProto) -> Array:
        return to_array(tensor)

    def constant(self, name: str) -> Array | None:
        facet = self.given[name]
        value = facet.constant(self.memo.ir_version)
        if value is not None:
            return to_array(TensorProto.FromString(value))
        if not facet.trust & VARIABLE:
            self.questions.append(name)
        return None

    def is_same(self, name: str, other: str) -> bool:
        if name != other:
            self.questions.append(name)
        return name == other

    def is_weight(self, name: str) -> bool:
        self.questions.append(name)
        return True

    def bounds(self, name: str) -> Bounds | None:
        self.questions.append(name)
        return None

    def is_computed(self, name: str) -> bool:
        return bool(self.given[name].trust & COMPUTED)

    def producer(self, name: str) -> Node | None:
        facet = self.given[name]
        if not facet.trust & COMPUTED:
            return None
        if not facet.maker:
            self.questions.append(name)
            return None
        made = self.memo.operations[facet.maker[0]]
        known = map(self.memo.facets.__getitem__, facet.maker[1:])
        given = {n: one for n, one in zip(made.proto.input, known, strict=True) if n}
        return Node(made.proto, made.schema, ClassEnv(given, self.memo, self.questions))

    def possible_types(self) -> frozenset[str]:
        self.questions.append("")
        return frozenset()

    def survey(self, look: Survey[_Answer]) -> _Answer:
        self.questions.append("")
        return look(iter(()), frozenset())

    def is_call(self, node: NodeProto) -> bool:
        self.questions.append("")
        return False

    def is_read(self, name: str) -> bool:
        self.questions.append(name)
        return True

    def use_rank(self, name: str) -> None:
        """What rests on a declaration is not told at all."""

    def claimed_dims(self, name: str, dims: Dims) -> Dims:
        self.questions.append(name)
        return dims

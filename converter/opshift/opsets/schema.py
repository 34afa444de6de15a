# SPDX-License-Identifier: Apache-2.0
"""The schema of an operator: its inputs, outputs, types and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from opshift.protos import AttributeProto
from opshift.records import dataclass

GRAPHS = frozenset((AttributeProto.GRAPH, AttributeProto.GRAPHS))  # kinds of attributes
ANY = -1  # the maximal arity of variadic parameters
_End = TypeVar("_End")  # a value of a node, or its name


@dataclass(frozen=True, slots=True)
class Param:
    """A formal input or output. `types` has strings such as `tensor(float)`.

    `rank` is the rule of `output_rank` by which the rank of an output follows from the inputs.
    """

    name: str
    types: frozenset[str]
    variable: str
    optional: bool
    variadic: bool
    homogeneous: bool = True
    rank: str = ""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute. `default` is None if an absent attribute has no value."""

    name: str
    kind: int
    required: bool
    default: object

    @property
    def is_graph(self) -> bool:
        return self.kind in GRAPHS


@dataclass(frozen=True, slots=True)
class Schema:
    """One implementation of an operator.

    If `stated` is false, a document names the operator, but not its inputs, outputs, types and
    attributes. If the schema is `open`, a node may also have other inputs, outputs, types and
    attributes; see `layouts`.
    """

    domain: str
    name: str
    since: int
    deprecated: bool
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...]
    attributes: dict[str, Attribute]
    min_input: int
    max_input: int
    min_output: int
    max_output: int
    has_body: bool
    input_positions: dict[str, int]
    output_positions: dict[str, int]
    stated: bool = True
    open: bool = False

    @property
    def listed_types(self) -> tuple[str, ...]:
        """The accepted types of each type variable, such as `T: tensor(double) tensor(float)`."""
        types = self.types_by_variable.items()
        return tuple(f"{variable}: {' '.join(sorted(listed))}" for variable, listed in types)

    @property
    def types_by_variable(self) -> dict[str, frozenset[str]]:
        """The accepted types of each type variable."""
        return {p.variable: p.types for p in (*self.inputs, *self.outputs)}

    def ends(
        self, inputs: Iterable[_End | None], outputs: Iterable[_End | None] = ()
    ) -> Iterator[tuple[_End, Param]]:
        """Yields each present input and output of a node with its parameter."""
        for values, param_at in ((inputs, self.input_at), (outputs, self.output_at)):
            for index, value in enumerate(values):
                param = param_at(index)
                if value and param is not None:
                    yield value, param

    def input_at(self, index: int) -> Param | None:
        return _at(self.inputs, index)

    def output_at(self, index: int) -> Param | None:
        return _at(self.outputs, index)


def _at(params: tuple[Param, ...], index: int) -> Param | None:
    if index < len(params):
        return params[index]
    return params[-1] if params and params[-1].variadic else None

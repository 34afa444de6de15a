# SPDX-License-Identifier: Apache-2.0
"""All inputs of a node, and which of them an adapter looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

if TYPE_CHECKING:
    from opshift.author.node import Value


class Inputs(tuple["Value | None", ...]):
    """All inputs in order; None where one is left out. It records the positions that are read."""

    reads: set[Any]

    @staticmethod
    def of(values: Iterable[Value | None], reads: set[Any]) -> Inputs:
        made = Inputs(values)
        made.reads = reads
        return made

    @overload
    def __getitem__(self, at: SupportsIndex) -> Value | None: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Value | None, ...]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        found = super().__getitem__(at)
        positions = range(len(self))[at]
        self.reads.update(positions if isinstance(positions, range) else (positions,))
        return found

    def __iter__(self) -> Iterator[Value | None]:
        self.reads.update(range(len(self)))
        return super().__iter__()

    def __add__(self, more: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*self, *more)

    def __radd__(self, more: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*more, *self)

# SPDX-License-Identifier: Apache-2.0
"""Stores declarations in tables; a look-up imports the modules that contain the declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from types import ModuleType
from typing import Any, TypeAlias, TypeVar, overload

from opshift.author.index import Crossing, TraitKey
from opshift.author.traits import Trait
from opshift.author.verdicts import Adapter

Declared: TypeAlias = Adapter | Trait
Key = tuple[str, str]  # (domain, op)
_Kind = TypeVar("_Kind")
_Other = TypeVar("_Other")


class LazyTable(MutableMapping[Key, _Kind]):
    """A table whose operators are known before the modules with their declarations are imported."""

    def __init__(self, read: Callable[[str], None]) -> None:
        self._read = read
        self._rows: dict[Key, _Kind] = {}
        self._unread: dict[Key, list[str]] = {}

    def expect(self, key: Key, module: str) -> None:
        """Records that a module declares something about an operator."""
        self._unread.setdefault(key, []).append(module)

    def __getitem__(self, key: Key) -> _Kind:
        for module in tuple(self._unread.get(key, ())):
            self._read(module)
        self._unread.pop(key, None)
        return self._rows[key]

    @overload
    def get(self, key: Key, default: None = None, /) -> _Kind | None: ...
    @overload
    def get(self, key: Key, default: _Other, /) -> _Kind | _Other: ...
    def get(self, key: Key, default: Any = None, /) -> Any:
        if key in self._unread:
            return self[key]
        return self._rows.get(key, default)

    def declared(self, key: Key) -> _Kind | None:
        """Returns the declarations of an operator from the modules imported so far."""
        return self._rows.get(key)

    def __setitem__(self, key: Key, row: _Kind) -> None:
        self._rows[key] = row

    def __delitem__(self, key: Key) -> None:
        self[key]
        del self._rows[key]

    def __contains__(self, key: object) -> bool:
        return key in self._rows or key in self._unread

    def __iter__(self) -> Iterator[Key]:
        return iter(dict.fromkeys((*self._rows, *self._unread)))

    def __len__(self) -> int:
        return len(self._rows.keys() | self._unread.keys())


def places(declared: Declared) -> list[Crossing | TraitKey]:
    """Returns the keys under which tables store an adapter or another declaration."""
    if isinstance(declared, Adapter):
        return [(declared.domain, op, declared.start, declared.to) for op in declared.ops]
    return [TraitKey(declared.table, declared.domain, op) for op in declared.ops]


def declarations(module: ModuleType) -> Iterator[Declared]:
    for name, value in vars(module).items():
        if name.startswith("__"):
            continue
        for one in value if isinstance(value, (tuple, list)) else (value,):
            yield from _flat(one)


def _flat(value: object) -> Iterable[Declared]:
    if isinstance(value, Declared):
        yield value
        yield from value.derived if isinstance(value, Adapter) else ()
    elif isinstance(value, tuple):
        for inner in value:
            yield from _flat(inner)

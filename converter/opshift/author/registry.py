# SPDX-License-Identifier: Apache-2.0
"""Registers adapters by (domain, op, from, to), and reads them from installed packages."""

from __future__ import annotations

import copy
import functools
import importlib
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from opshift import plugins
from opshift.author import (  # noqa: F401 - most of them declare kinds of traits
    index,
    misreadings,
    modern_rules,
)
from opshift.author.index import Crossing, TraitKey
from opshift.author.traits import KINDS, SingleTrait, Trait
from opshift.author.verdicts import LEAVE, RETIRED, Adapter
from opshift.errors import AdapterBug, MissingExtra
from opshift.opsets import described, schemas

if TYPE_CHECKING:
    from opshift.model.scope import Root

GROUP = "opshift.adapters"
Declared: TypeAlias = Adapter | Trait
Key: TypeAlias = tuple[str, str]  # (domain, op)
_Key = TypeVar("_Key", bound=Hashable)
_Kind = TypeVar("_Kind")
_Other = TypeVar("_Other")
_Rule = TypeVar("_Rule", bound=SingleTrait)
_Trait = TypeVar("_Trait", bound=Trait)


class LazyTable(MutableMapping[_Key, _Kind]):
    """A table whose keys are known before the modules with their declarations are imported."""

    def __init__(self, read: Callable[[str], None]) -> None:
        self._read = read
        self._rows: dict[_Key, _Kind] = {}
        self._unread: dict[_Key, list[str]] = {}
        self._keys: tuple[_Key, ...] | None = None  # listed at the first use

    def expect(self, key: _Key, module: str) -> None:
        """Records that a module declares something under a key."""
        self._unread.setdefault(key, []).append(module)
        self._keys = None

    def modules(self, key: _Key) -> tuple[str, ...]:
        """Returns the modules that declare something under a key, until the key is first read."""
        return tuple(self._unread.get(key, ()))

    def __getitem__(self, key: _Key) -> _Kind:
        for module in self.modules(key):
            self._read(module)
        if self._unread.pop(key, None):
            self._keys = None
        return self._rows[key]

    @overload
    def get(self, key: _Key, default: None = None, /) -> _Kind | None: ...
    @overload
    def get(self, key: _Key, default: _Other, /) -> _Kind | _Other: ...
    def get(self, key: _Key, default: Any = None, /) -> Any:
        if key in self._unread:
            return self[key]
        return self._rows.get(key, default)

    def declared(self, key: _Key) -> _Kind | None:
        """Returns what the modules imported so far declare under a key."""
        return self._rows.get(key)

    def __setitem__(self, key: _Key, row: _Kind) -> None:
        self._rows[key] = row
        self._keys = None

    def __delitem__(self, key: _Key) -> None:
        self[key]
        del self._rows[key]
        self._keys = None

    def __contains__(self, key: object) -> bool:
        return key in self._rows or key in self._unread

    def __iter__(self) -> Iterator[_Key]:
        if self._keys is None:
            self._keys = tuple(dict.fromkeys((*self._rows, *self._unread)))
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._rows.keys() | self._unread.keys())


class Registry:
    """All adapters: one for each operator, change of version, and direction."""

    def __init__(self) -> None:
        self._verdicts: LazyTable[Crossing, Adapter] = LazyTable(self._read)
        self._unread: dict[str, frozenset[Crossing | TraitKey]] = {}  # not yet imported
        self._taken: dict[int, Declared] = {}  # two modules may contain the same declaration
        self._homes: dict[int, int] = {}  # by declaration: the number of its module
        self._numbers: dict[str, int] = {}  # by module, in the order of the packages
        self._reading = threading.RLock()
        self._tables: dict[type[Trait], LazyTable[Key, Any]] = {
            k: LazyTable(self._read) for k in KINDS.values()
        }
        self._forget_plans()

    def _forget_plans(self) -> None:
        """Discards the cached results of the planner."""
        self.solved: dict[Any, Any] = {}
        self.known_edges: dict[Any, Any] = {}
        self.routes: dict[Any, Any] = {}

    def add(self, declared: Declared) -> None:
        self._forget_plans()
        for place in places(declared):
            self._require_one(place, getattr(declared, "source", ""))
            self._file(place, declared)

    def rules(self, kind: type[_Rule]) -> LazyTable[Key, _Rule]:
        """Returns the rules of one kind, by operator."""
        return self._tables[kind]

    def traits(self, kind: type[_Trait]) -> LazyTable[Key, tuple[_Trait, ...]]:
        """Returns the declarations of one kind by operator; an operator may have several."""
        return self._tables[kind]

    def each(self, kind: type[_Trait]) -> list[_Trait]:
        """Returns each declaration of one kind once, even if it names several operators."""
        single = issubclass(kind, SingleTrait)
        rows = ((row,) if single else row for row in self._tables[kind].values())
        return list({id(declaration): declaration for row in rows for declaration in row}.values())

    def _require_one(self, place: Crossing | TraitKey, source: str) -> None:
        """Raises if an operator gets a second adapter or a second declaration of a single kind."""
        if isinstance(place, TraitKey):
            kind = KINDS[place.table]
            if issubclass(kind, SingleTrait) and (place.domain, place.op) in self._tables[kind]:
                raise AdapterBug(kind.twice.format(op=place.op))
        elif (first := self._verdicts.get(place)) is not None:
            _, op, start, to = place
            raise AdapterBug(f"{op} {start}->{to} is declared twice: {first.source} and {source}")

    def _file(self, place: Crossing | TraitKey, declared: Declared) -> None:
        """Stores a declaration in its table, for one of its operators."""
        if isinstance(declared, Adapter):
            self._verdicts[place] = declared  # type: ignore[index]
        elif isinstance(place, TraitKey):
            table, key = self._tables[type(declared)], (place.domain, place.op)
            if isinstance(declared, SingleTrait):
                table[key] = declared
            else:
                row = (*(table.declared(key) or ()), declared)  # modules are imported in any order
                table[key] = tuple(sorted(row, key=self._home))

    def _home(self, declared: Declared) -> int:
        """Returns a number that sorts declarations by module; those without a module come last."""
        return self._homes.get(id(declared), len(self._numbers))

    def get(self, domain: str, op: str, start: int, to: int) -> Adapter | None:
        return self._verdicts.get((domain, op, start, to))

    def is_as_indexed(self, crossing: Crossing) -> bool:
        """Returns whether an adapter's module is unchanged since indexing and not yet imported."""
        return any(module in self._unread for module in self._verdicts.modules(crossing))

    def _read(self, name: str) -> None:
        """Imports a module of the index and stores its declarations."""
        with self._reading:
            if (expected := self._unread.get(name)) is None:
                return
            stored = set[Crossing | TraitKey]()
            for declared in declarations(_imported(name)):
                if id(declared) not in self._taken:
                    self._taken[id(declared)] = declared
                    self._homes[id(declared)] = self._numbers[name]
                    mine = [place for place in places(declared) if place in expected]
                    for declaration in mine:
                        self._file(declaration, declared)
                    stored.update(mine)
            if missing := expected - stored:
                raise AdapterBug(
                    f"{name} does not declare {min(missing)}, which its index names; update the"
                    " index of the package"
                )
            del self._unread[name]

    def _read_all(self) -> None:
        for name in sorted(self._unread):
            self._read(name)

    def retired(self, domain: str, op: str) -> Adapter | None:
        """Returns the adapter for an operator in versions for which it has no schema."""
        return self._verdicts.get((domain, op, *RETIRED))

    def leaving(self, domain: str, op: str) -> Adapter | None:
        """Returns the adapter that writes an operator of a vendor's domain in ai.onnx."""
        return self._verdicts.get((domain, op, *LEAVE))

    def replaced(self, root: Root, domain: str, version: int, goal: int) -> list[Key]:
        """Returns a graph's replaceable operators that have no schema at either of two versions."""
        return sorted(
            key
            for key in root.index
            if key[0] == domain
            and self.retired(*key)
            and schemas.schema(*key, version) is None
            and schemas.schema(*key, goal) is None
        )

    def __iter__(self) -> Iterator[tuple[Crossing, Adapter]]:
        self._read_all()
        return iter(sorted(self._verdicts.items(), key=lambda item: item[0]))

    def __len__(self) -> int:
        return len(self._verdicts)

    def adapters(self) -> Iterator[Adapter]:
        """Yields each adapter once, sorted by domain, operator and versions."""
        yield from {id(adapter): adapter for _, adapter in self}.values()

    def branch(self) -> Registry:
        """Returns a copy for additions, so that tests do not change the original."""
        self._read_all()
        twin = Registry()
        twin._verdicts.update(self._verdicts)
        for kind, table in self._tables.items():
            twin._tables[kind].update(table)
        return twin

    def planning_anew(self) -> Registry:
        """Returns a registry with the same adapters, but without cached results of the planner."""
        twin = copy.copy(self)
        twin._forget_plans()
        return twin

    def load(self, package: ModuleType) -> None:
        """Adds every declaration at module level in any module of a package."""
        loaded: set[int] = set()
        sources = index.modules(package)
        indexed = index.known(package, sources)
        for name in sources:
            if name in indexed:
                self._expect(name, indexed[name])
                continue
            module = _imported(name)
            for declared in declarations(module):
                if id(declared) not in loaded:  # a module may import an adapter of another module
                    loaded.add(id(declared))
                    self.add(declared)

    def _expect(self, name: str, declared: Sequence[Crossing | TraitKey]) -> None:
        """Records the declarations of a module without importing it."""
        self._unread[name] = frozenset(declared)
        self._numbers[name] = len(self._numbers)
        for key in declared:  # in a fixed order, because the order of a set differs between runs
            self._require_one(key, name)
            if isinstance(key, TraitKey):
                self._tables[KINDS[key.table]].expect((key.domain, key.op), name)
            else:
                self._verdicts.expect(key, name)

    def missing(self, domain: str, low: int, high: int) -> list[Crossing]:
        """Returns the operator changes between two versions for which no adapter is declared."""
        lacking = []
        for op in schemas.operators(domain):
            for schema in schemas.history(domain, op):
                if low < schema.since <= high:
                    up = (domain, op, schema.since - 1, schema.since)
                    born_here = schema is schemas.history(domain, op)[0]
                    down = (domain, op, schema.since, schema.since - 1)
                    directions = [down] if born_here else [up, down]
                    lacking += [c for c in directions if self._verdicts.get(c) is None]
        return lacking


def reviewed(adapter: Adapter, op: str) -> bool:
    """Returns whether a person reviewed the installed onnx's schemas of the adapter's operator."""
    marks = adapter.reviewed.get(op)
    if not marks:
        return True
    since = max(adapter.start, adapter.to)
    return schemas.fingerprint(adapter.domain, op, since) in marks


@described.remembered
def default() -> Registry:
    """Returns the installed adapters, with caches for the currently used schemas."""
    return installed().planning_anew()


@functools.cache
def installed() -> Registry:
    """Returns the registry of all installed adapter packages; raises if there is none."""
    registry = Registry()
    packages = plugins.offered(GROUP)
    if not packages:
        raise MissingExtra(
            "no package with adapters is installed, so no operator can be converted;"
            " install opshift again: pip install --force-reinstall opshift"
        )
    for point in packages:
        _imported(point.module)
        loaded = point.load()
        if not isinstance(loaded, ModuleType):
            raise AdapterBug(f"entry point {point.name!r} of {GROUP} must name a package")
        registry.load(loaded)
    return registry


def _imported(name: str) -> ModuleType:
    """Imports a module of an adapter package; names the package if the import fails."""
    try:
        return importlib.import_module(name)
    except MissingExtra:
        raise
    except ImportError as error:
        raise AdapterBug(
            f"module {name} of the adapters' package {name.partition('.')[0]!r} cannot be imported:"
            f" {error}; install what it needs, or remove the package"
        ) from error


def index_of(package: ModuleType) -> str:
    """Returns the text of a package's index, with a line for each module."""
    indexed: set[int] = set()
    lines = []
    for name in index.modules(package):
        module = importlib.import_module(name)
        new = [
            declaration for declaration in declarations(module) if id(declaration) not in indexed
        ]
        indexed.update(map(id, new))
        lines.append(index.line(package, module, {place for one in new for place in places(one)}))
    return "\n".join([*lines, ""])


def places(declared: Declared) -> list[Crossing | TraitKey]:
    """Returns the keys under which tables store an adapter or another declaration."""
    if isinstance(declared, Adapter):
        return [(declared.domain, op, declared.start, declared.to) for op in declared.ops]
    return [TraitKey(declared.table, declared.domain, op) for op in declared.ops]


def declarations(module: ModuleType) -> Iterator[Declared]:
    """Yields what a module declares, also in lists and tuples at module level."""
    for name, value in vars(module).items():
        if not name.startswith("__"):
            yield from _flat(value)


def _flat(value: object) -> Iterable[Declared]:
    if isinstance(value, Declared):
        yield value
        yield from value.derived if isinstance(value, Adapter) else ()
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _flat(inner)

"""(domain, op, from, to) -> verdict; strict about duplicates; found through entry points."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from opshift import plugins
from opshift.author import index
from opshift.author.index import Crossing
from opshift.author.verdicts import (
    LEAVE,
    RETIRED,
    Adapter,
    ByValue,
    Carries,
    Differs,
    Flaw,
    Fold,
    Fragile,
    Illegal,
    OutputRanks,
    OutputShapes,
    OutputTypes,
)
from opshift.errors import AdapterBug
from opshift.opsets import schemas

if TYPE_CHECKING:
    from opshift.model.document import Document

GROUP = "opshift.adapters"
Outputs: TypeAlias = OutputRanks | OutputShapes | OutputTypes
Traits: TypeAlias = Outputs | Carries | ByValue | Differs | Illegal | Fragile | Flaw
Declared: TypeAlias = Adapter | Fold | Traits


class Registry:
    """All verdicts; one for each operator, boundary and direction."""

    def __init__(self) -> None:
        self._verdicts: dict[Crossing, Adapter] = {}
        self._indexed: dict[Crossing, str] = {}  # the modules of verdicts that are not read yet
        self.folds: dict[tuple[str, str], Fold] = {}
        self.output_ranks: dict[tuple[str, str], OutputRanks] = {}
        self.output_shapes: dict[tuple[str, str], OutputShapes] = {}
        self.output_types: dict[tuple[str, str], OutputTypes] = {}
        self.carries: dict[tuple[str, str], Carries] = {}
        self.by_value: dict[tuple[str, str], ByValue] = {}
        self.illegal: dict[tuple[str, str], list[Illegal]] = {}
        self.fragile: set[tuple[str, str]] = set()
        self.flaws: dict[tuple[str, str], list[Flaw]] = {}
        self.differs: dict[tuple[str, str], list[Differs]] = {}
        self.edges: dict[Any, Any] = {}  # what the planner derives from the verdicts
        self.solved: dict[Any, Any] = {}
        self.ways: dict[Any, Any] = {}

    def add(self, declared: Declared) -> None:
        self.edges.clear()
        self.solved.clear()
        self.ways.clear()
        match declared:
            case Adapter():
                self._add_verdict(declared)
            case Fold(op=op, domain=domain):
                _once(self.folds, (domain, op), declared, "two ways to fold")
            case OutputRanks(domain=domain):
                for op in declared.ops:
                    _once(self.output_ranks, (domain, op), declared, "two rules tell the ranks of")
            case OutputShapes(domain=domain):
                for op in declared.ops:
                    _once(self.output_shapes, (domain, op), declared, "two rules tell shapes of")
            case OutputTypes(domain=domain):
                for op in declared.ops:
                    _once(self.output_types, (domain, op), declared, "two rules tell the types of")
            case Carries(op=op, domain=domain):
                _once(self.carries, (domain, op), declared, "two rules tell what is carried by")
            case ByValue(op=op, domain=domain):
                _once(self.by_value, (domain, op), declared, "two lists of what is read by")
            case Illegal(op=op, domain=domain):
                self.illegal.setdefault((domain, op), []).append(declared)
            case Fragile(op=op, domain=domain):
                self.fragile.add((domain, op))
            case Flaw(op=op, domain=domain):
                self.flaws.setdefault((domain, op), []).append(declared)
            case Differs(op=op, domain=domain):
                self.differs.setdefault((domain, op), []).append(declared)

    def _add_verdict(self, declared: Adapter) -> None:
        for op in declared.ops:
            crossing = (declared.domain, op, declared.start, declared.to)
            if (first := self.get(*crossing)) is not None:
                raise AdapterBug(
                    f"{op} {declared.start}->{declared.to} is declared twice:"
                    f" {first.source} and {declared.source}"
                )
            self._verdicts[crossing] = declared

    def get(self, domain: str, op: str, start: int, to: int) -> Adapter | None:
        return self._found((domain, op, start, to))

    def _found(self, crossing: Crossing) -> Adapter | None:
        found = self._verdicts.get(crossing)
        if found is None and (module := self._indexed.get(crossing)) is not None:
            self._read(module)
            found = self._verdicts[crossing]
        return found

    def _read(self, name: str) -> None:
        """Imports a module of which the index says which verdicts it declares."""
        expected = {crossing for crossing, home in self._indexed.items() if home == name}
        for declared in _declarations(importlib.import_module(name)):
            if isinstance(declared, Adapter):
                for crossing in _crossings(declared):
                    if crossing in expected:
                        self._verdicts[crossing] = declared
        if missing := expected - self._verdicts.keys():
            raise AdapterBug(f"{name} does not declare {min(missing)}, which its index names")
        for crossing in expected:
            del self._indexed[crossing]

    def _read_all(self) -> None:
        for name in sorted(set(self._indexed.values())):
            self._read(name)

    def retired(self, domain: str, op: str) -> Adapter | None:
        """The verdict for an operator where no schema describes it: any more, or not yet."""
        return self._found((domain, op, *RETIRED))

    def leaving(self, domain: str, op: str) -> Adapter | None:
        """The verdict that writes an operator of a vendor's domain in ai.onnx."""
        return self._found((domain, op, *LEAVE))

    def replaced(self, document: Document, domain: str, version: int, goal: int) -> list[str]:
        """The operators of a document that no schema describes, neither here nor at the goal."""
        found = {
            op
            for root in document.roots
            if root.imports.get(domain) == version
            for d, op in root.index
            if d == domain and self.retired(d, op)
        }
        return sorted(
            op
            for op in found
            if schemas.schema(domain, op, version) is None
            and schemas.schema(domain, op, goal) is None
        )

    def __iter__(self) -> Iterator[tuple[Crossing, Adapter]]:
        self._read_all()
        return iter(sorted(self._verdicts.items(), key=lambda item: item[0]))

    def __len__(self) -> int:
        return len(self._verdicts) + len(self._indexed)

    def adapters(self) -> Iterator[Adapter]:
        """Each declaration once, in the order of what it declares."""
        seen: set[int] = set()
        for _, adapter in self:
            if id(adapter) not in seen:
                seen.add(id(adapter))
                yield adapter

    def branch(self) -> Registry:
        """A copy to add to, so that tests leave the original alone."""
        self._read_all()
        copy = Registry()
        copy._verdicts = dict(self._verdicts)
        copy.folds = dict(self.folds)
        copy.output_ranks = dict(self.output_ranks)
        copy.output_shapes = dict(self.output_shapes)
        copy.output_types = dict(self.output_types)
        copy.carries = dict(self.carries)
        copy.by_value = dict(self.by_value)
        copy.illegal = {key: [*rules] for key, rules in self.illegal.items()}
        copy.fragile = set(self.fragile)
        copy.differs = {key: [*found] for key, found in self.differs.items()}
        copy.flaws = {key: [*flaws] for key, flaws in self.flaws.items()}
        return copy

    def load(self, package: ModuleType) -> None:
        """Adds everything declared at module level in a package, in any of its modules."""
        seen: set[int] = set()
        indexed = index.known(package)
        for name in index.names(package):
            if name in indexed:
                self._expect(name, indexed[name])
                continue
            module = importlib.import_module(name)
            for declared in _declarations(module):
                if id(declared) not in seen:  # a module may import its neighbour's adapter
                    seen.add(id(declared))
                    self.add(declared)

    def _expect(self, name: str, crossings: Iterable[Crossing]) -> None:
        """Notes what a module declares without importing it."""
        for crossing in crossings:
            if crossing in self._indexed or crossing in self._verdicts:
                home = self._indexed.get(crossing) or self._verdicts[crossing].source
                _, op, start, to = crossing
                raise AdapterBug(f"{op} {start}->{to} is declared twice: {home} and {name}")
            self._indexed[crossing] = name

    def missing(self, domain: str, low: int, high: int) -> list[Crossing]:
        """The crossings between two versions that nobody has declared."""
        found = []
        for op in schemas.operators(domain):
            for schema in schemas.history(domain, op):
                if low < schema.since <= high:
                    up = (domain, op, schema.since - 1, schema.since)
                    born_here = schema is schemas.history(domain, op)[0]
                    down = (domain, op, schema.since, schema.since - 1)
                    wanted = [down] if born_here else [up, down]
                    found += [c for c in wanted if self._found(c) is None]
        return found


_Kind = TypeVar("_Kind")


def _once(
    table: dict[tuple[str, str], _Kind], key: tuple[str, str], declared: _Kind, what: str
) -> None:
    if key in table:
        raise AdapterBug(f"{what} {key[1]}")
    table[key] = declared


def reviewed(adapter: Adapter, op: str) -> bool:
    """Whether a compatible claim was made about the schemas that are installed."""
    marks = adapter.reviewed.get(op)
    if not marks:
        return True
    since = max(adapter.start, adapter.to)
    return schemas.fingerprint(adapter.domain, op, since) in marks


@functools.cache
def default() -> Registry:
    """Every adapter package that is installed."""
    registry = Registry()
    for point in plugins.offered(GROUP):
        loaded = point.load()
        if not isinstance(loaded, ModuleType):
            raise AdapterBug(f"entry point {point.name!r} of {GROUP} is not a package")
        registry.load(loaded)
    return registry


def index_of(package: ModuleType) -> str:
    """The index of a package: a line for each module that declares nothing but verdicts."""
    seen: set[int] = set()
    lines = []
    for name in index.names(package):
        module = importlib.import_module(name)
        new = [one for one in _declarations(module) if id(one) not in seen]
        seen.update(map(id, new))
        if all(isinstance(one, Adapter) for one in new):
            crossings = [c for one in new if isinstance(one, Adapter) for c in _crossings(one)]
            lines.append(index.line(package, module, dict.fromkeys(crossings)))
    return "\n".join([*lines, ""])


def _crossings(declared: Adapter) -> list[Crossing]:
    return [(declared.domain, op, declared.start, declared.to) for op in declared.ops]


def _declarations(module: ModuleType) -> Iterator[Declared]:
    for name, value in vars(module).items():
        if name.startswith("__"):
            continue
        for one in value if isinstance(value, (tuple, list)) else (value,):
            yield from _flat(one)


def _flat(value: object) -> Iterable[Declared]:
    if isinstance(value, Declared):
        yield value
    elif isinstance(value, tuple):
        for inner in value:
            yield from _flat(inner)

# SPDX-License-Identifier: Apache-2.0
"""The operator version database: all implementations of each operator, read without onnx."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import field

from google.protobuf.message import DecodeError

from opshift import plugins, versions
from opshift.errors import BadTarget
from opshift.json_form import Form
from opshift.opsets import described
from opshift.opsets.identity import normal
from opshift.opsets.opset_changelog_pb2 import Change, OpsetChangelog
from opshift.records import dataclass

GROUP = "opshift.changelogs"
FILE = "opset_changelog.bin"
VENDORS = "vendor_changelog.bin"  # domains whose vendors ship no database


@dataclass(frozen=True, slots=True, order=True)
class OperatorId:
    """One implementation of an operator; the default domain is the empty string.

    Attributes
    ----------
    domain, op_type : str
        The domain and the name of the operator.
    since_version : int
        The version of the domain with which the implementation began.

    Examples
    --------
    >>> import opshift
    >>> str(opshift.OperatorId.of("", "Relu", 20))
    'ai.onnx.Relu:14'
    """

    domain: str
    """The domain."""
    op_type: str
    """The operator."""
    since_version: int
    """The version of the domain that introduced the implementation."""

    @staticmethod
    def parse(text: str) -> OperatorId:
        """Parses a text such as `com.acme.FastConv:3`; without a domain, ai.onnx is meant."""
        match = re.fullmatch(r"(?:([^\s:]+)\.)?([^\s:.]+):([1-9]\d*)", text)
        if match is None:
            raise BadTarget(
                f"{text!r} is not an operator; write DOMAIN.NAME:VERSION, such as com.acme.Run:3"
            )
        return OperatorId(normal(match[1] or ""), match[2], int(match[3]))

    @staticmethod
    def of(domain: str, op_type: str, version: int) -> OperatorId:
        """Returns the implementation of an operator in a model that imports `version`."""
        domain = normal(domain)
        entry = default().meaning(domain, op_type, version)
        if entry is None:
            raise BadTarget(f"{domain or 'ai.onnx'} {version} has no operator {op_type!r}")
        return entry.operator

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}.{self.op_type}:{self.since_version}"


@dataclass(frozen=True, slots=True)
class ParameterForm(Form):
    """One input or output of an operator."""

    PART = "parameter"
    LEFT_OUT = ("rank",)

    name: str
    """The name."""
    type: str
    """The type, or the type variable."""
    option: str
    """`optional`, `variadic` or empty."""
    rank: str
    """The rule for the rank of an output, if the operator states a rule."""


@dataclass(frozen=True, slots=True)
class AttributeForm:
    """One attribute of an operator."""

    name: str
    """The name."""
    type: str
    """The type."""
    required: bool
    """Whether a node must have the attribute."""
    default: str | None
    """The default as JSON text; null without a default."""


@dataclass(frozen=True, slots=True)
class Entry(Form):
    """One implementation of an operator, which may be deprecated."""

    PART = "entry"
    MERGED = ("details",)

    operator: OperatorId
    """The domain, the name and the version of the implementation."""
    deprecated: bool
    """Whether the version deprecates the operator."""
    replaced_by: tuple[str, ...]
    """The operators that replace a deprecated operator."""
    has_function_body: bool
    """Whether onnx defines the operator by other operators."""
    fingerprint: str
    """The digest of the schema."""
    types: tuple[str, ...]
    """The types that each parameter accepts."""
    details: Details = field(default_factory=lambda: Details(), compare=False, repr=False)


UNSTATED = "inputs, outputs, types and attributes are not stated"


@dataclass(frozen=True, slots=True)
class Details(Form):
    """The signature of an implementation, and the address of its documentation."""

    ALSO = ("status", "documentation", "stated", "inputs", "outputs", "attributes")
    HIDDEN = ("change", "page")

    change: Change = field(default_factory=Change)
    page: str = ""  # the address of its documentation

    @property
    def status(self) -> str:
        """`stable` or `experimental`."""
        return "experimental" if self.change.experimental else "stable"

    @property
    def documentation(self) -> str:
        """The address of the documentation; empty if it is not known."""
        return self.page

    @property
    def stated(self) -> bool:
        """Whether inputs, outputs and attributes are known; if not, their lists are empty."""
        return any((self.change.inputs, self.change.outputs, self.change.attributes))

    def lines(self) -> Iterator[str]:
        """Yields the status, the page of the documentation, inputs, outputs and attributes."""
        if self.change.op_type:
            yield self.status
        if self.page:
            yield self.page
        for kind, params in (("input", self.change.inputs), ("output", self.change.outputs)):
            for param in params:
                words = [param.type, param.option, param.rank and f"rank {param.rank}"]
                yield f"{kind} {param.name}: {', '.join(filter(None, words))}"
        if self.change.op_type and not self.change.deprecated and not self.stated:
            yield UNSTATED
        for attribute in self.change.attributes:
            state = ", required" if attribute.required else ""
            default = f" = {attribute.default}" if attribute.default else ""
            yield f"attribute {attribute.name}: {attribute.type}{state}{default}"

    @property
    def inputs(self) -> tuple[ParameterForm, ...]:
        """The inputs."""
        return tuple(ParameterForm(p.name, p.type, p.option, p.rank) for p in self.change.inputs)

    @property
    def outputs(self) -> tuple[ParameterForm, ...]:
        """The outputs."""
        return tuple(ParameterForm(p.name, p.type, p.option, p.rank) for p in self.change.outputs)

    @property
    def attributes(self) -> tuple[AttributeForm, ...]:
        """The attributes."""
        attributes_of_change = self.change.attributes
        return tuple(
            AttributeForm(a.name, a.type, a.required, a.default or None)
            for a in attributes_of_change
        )


@dataclass(frozen=True, slots=True)
class Delta:
    """An operator whose implementations at two versions differ."""

    op_type: str
    """The operator."""
    before: Entry | None
    """The implementation at the older version; null if the operator did not exist."""
    after: Entry | None
    """The implementation at the newer version; null if the operator no longer exists."""

    @property
    def kind(self) -> str:
        if self.after is None:
            return "gone"
        if self.after.deprecated:
            return "deprecated"
        return "changed" if self.before is not None else "new"


class Changelog:
    """The histories of all operators, oldest implementation first."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], list[tuple[int, Change | None]]] = {}
        self._entries: dict[tuple[str, str], tuple[Entry, ...]] = {}  # a cache
        self._newest: dict[str, int] = {}
        self._pages: dict[str, str] = {}  # the address of the documentation, by domain
        self.documented: frozenset[str] = frozenset()  # the domains that only documents describe

    @property
    def domains(self) -> frozenset[str]:
        """The domains in the database."""
        return frozenset(self._newest)

    def completed(self, operators: Iterable[OperatorId]) -> Changelog:
        """Returns a copy with further domains, of which only operators and versions are known."""
        copy = Changelog()
        copy._changes, copy._newest = dict(self._changes), dict(self._newest)
        copy._pages, copy.documented = self._pages, self.documented
        for operator in sorted(operators):
            copy._changes.setdefault((operator.domain, operator.op_type), []).append(
                (operator.since_version, None)
            )
            copy._newest[operator.domain] = max(
                copy._newest.get(operator.domain, 0), operator.since_version
            )
        return copy

    def add(self, data: bytes, origin: str, *, missing: bool = False) -> None:
        """Adds the content of a database file; raises BadTarget if a domain occurs twice.

        With `missing`, domains that are already in the database are skipped.
        """
        try:
            raw = OpsetChangelog.FromString(data)
        except DecodeError as error:
            raise BadTarget(f"{origin} is not an opset changelog: {error}") from None
        self.__dict__.pop("_beginning", None)
        for domain in raw.domains:
            if domain.name in self._newest:
                if missing:
                    continue
                raise BadTarget(
                    f"{origin} describes {domain.name or 'ai.onnx'!r} a second time; remove it"
                )
            self._newest[domain.name] = max((v.version for v in domain.versions), default=0)
            self._pages[domain.name] = domain.documentation
            for version in domain.versions:
                for change in version.changes:
                    key = (domain.name, change.op_type)
                    self._changes.setdefault(key, []).append((version.version, change))

    def add_documents(self) -> None:
        """Adds the operator sets of documents, except domains that a package describes."""
        self.documented = frozenset(document.domain for document in described.sets()) - self.domains
        for (domain, op), operators in described.described().items():
            if domain in self.documented:
                self._changes[domain, op] = [
                    (implementation.schema.since, implementation.change())
                    for implementation in operators
                ]
        for document in described.sets():
            domain = document.domain
            if domain in self.documented:
                self._newest[domain] = max(document.version, self._newest.get(domain, 0))

    def newest(self, domain: str) -> int | None:
        """Returns the newest version in the database, or None for an unknown domain."""
        return self._newest.get(domain)

    def operators(self, domain: str) -> list[str]:
        return sorted(op for d, op in self._changes if d == domain)

    def history(self, domain: str, op_type: str) -> tuple[Entry, ...]:
        entries = self._entries.get((domain, op_type))
        if entries is None:
            changes = self._changes.get((domain, op_type), ())
            page = self._pages.get(domain, "").replace("{op}", op_type)
            entries = tuple(_entry(domain, op_type, *change, page) for change in changes)
            self._entries[domain, op_type] = entries
        return entries

    def meaning(self, domain: str, op_type: str, version: int) -> Entry | None:
        """Returns the implementation of an operator in a model that imports `version`, or None."""
        entries = self.history(domain, op_type)
        at = bisect.bisect_right(entries, version, key=lambda entry: entry.operator.since_version)
        return entries[at - 1] if at else None

    def changed(self, domain: str, version: int) -> frozenset[str]:
        """Returns the operators with an implementation that begins at `version`."""
        return self._beginning.get((domain, version), frozenset())

    @functools.cached_property
    def _beginning(self) -> dict[tuple[str, int], frozenset[str]]:
        by_version: dict[tuple[str, int], set[str]] = {}
        for (domain, op), changes in self._changes.items():
            for version, _ in changes:
                by_version.setdefault((domain, version), set()).add(op)
        return {place: frozenset(ops) for place, ops in by_version.items()}

    def deltas(self, domain: str, start: int, to: int) -> Iterator[Delta]:
        """Yields the operators whose implementations at `start` and `to` differ."""
        for op in self.operators(domain):
            before, after = self.meaning(domain, op, start), self.meaning(domain, op, to)
            if before != after:
                yield Delta(op, before, after)


def _entry(domain: str, op_type: str, version: int, change: Change | None, page: str) -> Entry:
    operator = OperatorId(domain, op_type, version)
    if change is None:
        return Entry(operator, False, (), False, "", ())
    return Entry(
        operator,
        change.deprecated,
        tuple(change.replaced_by),
        change.has_function_body,
        change.fingerprint,
        tuple(change.types),
        Details(change, page),
    )


def latest(domain: str) -> int | None:
    """Returns the newest version of a domain that the database and the installed onnx have."""
    return reached(domain, default().newest(domain))


def is_experimental(domain: str, op_type: str, version: int) -> bool:
    """Returns whether the implementation of an operator at a version is experimental."""
    entry = default().meaning(domain, op_type, version)
    return entry is not None and entry.details.change.experimental


def reached(domain: str, newest: int | None) -> int | None:
    """Returns the newest version of a domain that the installed onnx has, at most `newest`."""
    if newest is None or domain not in versions.DOMAINS:
        return newest
    return min(newest, versions.installed().version(domain)) or None


@described.remembered
def default() -> Changelog:
    """Returns the shipped database, completed by the data of installed packages."""
    changelog = Changelog()
    changelog.add(plugins.data("opshift.opsets", FILE), FILE)
    for point in plugins.offered(GROUP):
        data = plugins.data(point.load().__name__, FILE)
        changelog.add(data, f"{FILE} of {point.value}")
    changelog.add_documents()
    changelog.add(plugins.data("opshift.opsets", VENDORS), VENDORS, missing=True)
    return changelog

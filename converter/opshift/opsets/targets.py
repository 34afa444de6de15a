# SPDX-License-Identifier: Apache-2.0
"""The table of runtimes and of what they lack, from `targets.toml` and users' files."""

from __future__ import annotations

import datetime
import fnmatch
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opshift import plugins, terms, versions
from opshift.errors import BadTarget
from opshift.json_form import Form, Versions
from opshift.lazy import deferred
from opshift.opsets import columns as column_tables
from opshift.opsets import fields as field_tables
from opshift.opsets import kernels as kernel_tables
from opshift.opsets import learned, target_names
from opshift.opsets import probed as probe_tables
from opshift.records import dataclass
from opshift.text import suggestion

if TYPE_CHECKING:
    from opshift import toml
else:
    toml = deferred("opshift.toml")  # the shipped table needs none

GROUP = "opshift.targets"
SHIPPED = "targets.json"  # the JSON form of targets.toml, which is read forty times faster
CONFIG = "OPSHIFT_TARGETS"
COMMENT = "//"  # the JSON key of a comment
DESCRIBED = "fields"  # the table of `targets.toml` that describes columns, which is not a runtime
# the date on which the releases of onnx were compared with its version table
TABLE_READ = "2026-11-22"
FIELDS = {"onnx": "", "ml": versions.ML, "training": versions.TRAINING}
ALL = "all"  # the word for all runtimes
Key = tuple[str, str]  # (domain, operator)


@dataclass(frozen=True, slots=True)
class Fact:
    """The source of a value in the table, and the date on which it was read or measured."""

    source: str
    """The page, or a sentence about the measurement."""
    date: str
    """The day on which the page was read, or the measurement was made."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """An operator that a runtime cannot read in some versions: from `since` to below `before`."""

    pattern: str
    """The operator; `*` stands for any letters."""
    since: int = 1
    """The first of the versions."""
    before: int = 1 << 30
    """The first version above the versions."""

    @staticmethod
    def parse(text: str) -> Lacking:
        """Parses a text such as `LayerNormalization`, `Reduce*>=18` or `TopK<10`."""
        name, _, since = text.partition(">=")
        name, _, before = name.partition("<")
        return Lacking(name, int(since or 1), int(before or 1 << 30))

    @property
    def shown(self) -> str:
        since = f">={self.since}" if self.since > 1 else ""
        return f"{self.pattern}{since}" + (f"<{self.before}" if self.before < 1 << 30 else "")

    @property
    def is_whole(self) -> bool:
        """Whether the runtime cannot read any version of the operator."""
        return self.since == 1 and self.before == 1 << 30

    def others(self) -> Iterator[Lacking]:
        """Yields the other versions of the operator, which the runtime can read."""
        if self.since > 1:
            yield Lacking(self.pattern, before=self.since)
        if self.before < 1 << 30:
            yield Lacking(self.pattern, self.before)

    def names(self, key: Key) -> bool:
        """Returns whether the pattern matches an operator, regardless of the version."""
        domain, _, op = self.pattern.rpartition("::")
        if key[0] != domain:
            return False
        return key[1] == op or ("*" in op and fnmatch.fnmatchcase(key[1], op))

    def meets(self, key: Key, version: int) -> bool:
        """Returns whether the runtime cannot read an operator at a version of its domain."""
        return self.names(key) and self.since <= version < self.before


@dataclass(frozen=True, slots=True)
class RuntimeRelease(Form):
    """One release of a runtime, or several equal releases: the versions it reads, and its gaps."""

    HIDDEN = ("probed", "columns", "next_release")
    OPTIONAL = ("meant", "between")

    name: str
    """The name of the runtime."""
    versions: str
    """The releases."""
    imports: Versions
    """The highest versions that the runtime reads, by domain."""
    ir: int | None
    """The highest IR version; null if it is not known."""
    source: str
    """The page that states the versions, or a sentence about the measurement."""
    same_as: str = ""
    """The release of another runtime that is equal; empty without one."""
    floors: Versions = field(default_factory=dict)
    """The lowest versions that the runtime reads, by domain."""
    date: str = ""
    """The day on which the source was read, or the measurement was made."""
    ir_source: str = ""
    """The source of the IR version."""
    prefer: int | None = None
    """The opset at which most models were measured to run; null if it is not known."""
    without: tuple[Lacking, ...] = ()
    """The operators that the runtime does not read."""
    only: tuple[Lacking, ...] = ()
    """The operators of ai.onnx that the runtime reads; empty if they are not known."""
    kernels: str = ""
    """The name of the table of kernels of the release; empty without a table."""
    closed: bool = False
    """Whether the runtime has no other domains than those listed."""
    functions: bool = True
    """Whether the runtime runs functions of a model."""
    other_forms: tuple[str, ...] = ()
    """The operators of ai.onnx that conversions write in another form if possible."""
    also: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of the release, with a remark for each."""
    remark: str = ""
    """The assumption that led from the request of the caller to this release."""
    asked: str = ""
    """The release in the request of the caller."""
    provider: str = ""
    """The execution provider; empty for the CPU."""
    probed: probe_tables.ReleaseTable | None = None  # the outcomes of a probe
    # the stated cells of the columns that targets.toml describes
    columns: Mapping[str, column_tables.Cell] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """The sources of single fields, by field; the other fields have the source of the release."""
    meant: tuple[str, str] = ("", "")
    """The runtime and the release that `same_as` names; empty texts without it."""
    between: str = ""
    """The release in the request if it lies between this release and the next one; else empty."""
    next_release: RuntimeRelease | None = None  # after the unknown release
    _lacking: dict[Key, list[Lacking]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _owned: list[frozenset[str]] = field(
        default_factory=list, init=False, compare=False, repr=False
    )

    @property
    def shown(self) -> str:
        release = self.asked or self.versions.partition(",")[0]
        named = f"{self.name}=={release}" if release else self.name
        return f"{named}:{self.provider}" if self.provider else named

    @property
    def stands_for(self) -> str:
        """The target in the user's request, which may lie between two releases of the table."""
        return replace(self, asked=self.between).shown if self.between else self.shown

    @property
    def release(self) -> str:
        """The requested release, or the first release of the entry."""
        return (self.asked or self.versions).partition(",")[0].partition("..")[0]

    @property
    def origin(self) -> tuple[str, str]:
        """The runtime, and its release, that executes the models of this target."""
        return self.meant if self.meant[0] else (self.name, self.release)

    def reads(self, imported: Mapping[str, int], ir_version: int) -> bool:
        """Returns whether the release reads these versions of operator sets and this IR version."""
        fits = all(imported.get(domain, 0) <= top for domain, top in self.imports.items())
        return fits and (self.ir is None or ir_version <= self.ir)

    def flag(self, name: str) -> bool:
        """Returns the cell of a column that is true or false."""
        return bool(self.cell(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns the texts in the cell of a column."""
        cell = self.cell(name)
        assert isinstance(cell, tuple)
        return cell

    def pairs(self, name: str) -> Mapping[str, str]:
        """Returns the pairs of texts in the cell of a column."""
        cell = self.cell(name)
        assert isinstance(cell, Mapping)
        return cell

    def cell(self, name: str) -> column_tables.Cell:
        """Returns the cell of a column that targets.toml describes."""
        return self.columns.get(name, described()[name].empty)

    def is_strict_at(self, opset: int | None) -> bool:
        """Returns whether the release rejects declared shapes that inference contradicts."""
        return self.flag("strict") and opset == self.imports.get("")

    def lacking(self, key: Key) -> list[Lacking]:
        """Returns the versions of an operator that the release cannot read."""
        if (lacking := self._lacking.get(key)) is None:
            lacking = self._lacking[key] = self._find_lacking(key)
        return lacking

    def _find_lacking(self, key: Key) -> list[Lacking]:
        named = [lacking for lacking in self.without if lacking.names(key)]
        if named or not self.only or key[0]:
            return named
        listed = [lacking for lacking in self.only if lacking.names(key)]
        return (
            [other for lacking in listed for other in lacking.others()]
            if listed
            else [Lacking(key[1])]
        )

    def no_kernels(self, key: Key, since: int, opset: int = 0) -> kernel_tables.Missing | None:
        """Returns the element types of an operator version for which the release has no kernel.

        `opset` is the opset of the model, if it is later than the version.
        """
        table = kernel_tables.shipped().get(self.kernels)
        if table is None:
            return self.probed.missing(key, since) if self.probed else None
        if not self.versions:
            known = _knowing(self.kernels, key[0], max(since, opset))
            return table.missing_in(key, since, known, opset)
        return table.missing(key, since, self.origin[1], opset)

    def is_strange(self, key: Key) -> bool:
        """Returns whether only other releases of the runtime have this operator."""
        missing = self.no_kernels(key, 1)
        return missing is not None and not missing.variables and bool(missing.choices)

    def ran(self, key: Key) -> bool:
        """Returns whether a probe ran an operator."""
        return self.probed is not None and bool(self.probed.runs_at(key, 1))

    def unread(self, key: Key, version: int) -> str:
        """Returns why the release cannot read an operator version, or "" if it may read it."""
        if any(lacking.meets(key, version) for lacking in self.lacking(key)):
            return f"{self.shown} does not read {key[1]} {version}"
        outcome = self.probed.unread(key, version) if self.probed else ""
        if not outcome:
            return ""
        return f"{key[1]} {version} {probe_tables.WORDS[outcome].format(self.shown)}"

    def names(self, key: Key) -> bool:
        """Returns whether the release is known to fail for some nodes of the operator."""
        return bool(self.lacking(key)) or (self.probed is not None and self.probed.fails(key))

    def lacks_operator(self, key: Key) -> bool:
        """Returns whether the release is known to lack an operator in all versions."""
        named = any(lacking.is_whole for lacking in self.lacking(key))
        return named or (self.probed is not None and self.probed.lost(key))

    @property
    def is_measured(self) -> bool:
        """Whether the kernels of all ONNX operators were measured in this release."""
        table = kernel_tables.shipped().get(self.kernels)
        listed = self.probed is not None or (table is not None and table.covers(self.origin[1]))
        return self.name == "onnx" or listed

    def is_measured_of(self, key: Key) -> bool:
        """Returns whether a table of measurements contains a vendor's operator."""
        kernels = kernel_tables.shipped().get(self.kernels)
        fields = field_tables.shipped().get(self.kernels)
        has_kernels = kernels is not None and key in kernels.lacks
        return has_kernels or (fields is not None and key in fields.unknown)

    def unknown_fields(self, key: Key) -> frozenset[str]:
        """Returns the attributes, inputs and outputs of an operator that the release lacks."""
        table = field_tables.shipped().get(self.kernels)
        return table.of(key, self.origin[1]) if table else frozenset()

    def may_lack(self, key: Key) -> bool:
        """Returns whether the release lacks some version, type or attribute of an operator."""
        table = kernel_tables.shipped().get(self.kernels)
        lacks_kernel = table is not None and table.mentions(key, self.origin[1])
        return lacks_kernel or bool(self.unknown_fields(key)) or self.names(key)

    @property
    def built_on(self) -> str | None:
        """The release of onnx with the same operators: the first with this opset."""
        release = versions.release_of("", self.imports.get("", 0)) if self.imports.get("") else None
        return release.name if release is not None else None

    def lacks_facts_about(self, domain: str) -> bool:
        """Returns whether the tables leave open if the release has a domain other than ai.onnx."""
        return bool(domain) and domain not in self.imports and not self.lacks(domain)

    def lacks(self, domain: str) -> bool:
        """Returns whether the release is known to lack a domain."""
        if domain in self.imports:
            return False
        if domain in versions.DOMAINS and "" in self.imports:
            release = versions.release_of("", self.imports[""])
            if release is not None and release.version(domain) == 0:
                return True
        return self.closed and (domain in versions.DOMAINS or domain in self._owned_domains())

    def _owned_domains(self) -> frozenset[str]:
        """Returns the domains that runtimes define, which the first call stores."""
        if not self._owned:
            self._owned.append(owned())
        return self._owned[0]


# -- the data ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime: its name, other spellings of the name, and its releases."""

    name: str
    releases: tuple[RuntimeRelease, ...]
    aliases: tuple[str, ...] = ()
    default: str = ""  # the release if a request names none
    answer: str = ""  # the message if no release is known
    # providers, with their spellings
    providers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tables: tuple[str, ...] = ()  # the texts of its tables of probes

    def with_rows_of(self, other: Runtime) -> Runtime:
        """Returns the runtime with the releases of a probe, which replace equal releases."""
        probed = [release.versions for release in other.releases]
        unprobed = (release for release in self.releases if release.versions not in probed)
        releases = sorted(
            (*unprobed, *other.releases),
            key=lambda release: target_names.numbers(release.release),
        )
        default = self.default or other.default or (probed[-1] if not self.releases else "")
        return replace(
            self, releases=tuple(releases), answer="", default=default,
            tables=(*self.tables, *other.tables),
        )  # fmt: skip

    def having_probes(self, release: RuntimeRelease) -> RuntimeRelease:
        """Returns a release with the outcomes of its probe."""
        name, release_name = release.origin
        table = probe_table(name, self.tables)
        return release if table is None else replace(release, probed=table.at(release_name))


def find(text: str) -> RuntimeRelease:
    """Returns the release that a text means, such as `onnxruntime==1.10` or `win10-2004`."""
    require_text(text)
    runtimes = _runtimes()
    every = {"cpu", *(name for entry in runtimes.values() for name in entry.providers)}
    plain, provider = target_names.split_provider(text, every)
    request = target_names.parse(plain, {n: (n, *entry.aliases) for n, entry in runtimes.items()})
    runtime = runtimes[request.name]
    provider = provider or _provider(runtime, request.spelling)
    if runtime.answer:
        answer = terms.translated(runtime.answer)
        raise BadTarget(f"no versions are known for {text.strip()!r}: {answer}")
    if ":" in request.version:
        raise _no_provider(runtime, request.version.rpartition(":")[2])
    wanted_release = request.version or runtime.default
    if not request.version and wanted_release:
        request = replace(
            request,
            remark=f"no release of {runtime.name} is named; release {wanted_release} is used",
        )
    choice = target_names.choose(
        runtime.name,
        wanted_release,
        [(release.versions, release.also) for release in runtime.releases],
    )

    def complete(number: int, wanted_release: str) -> RuntimeRelease:
        release = replace(_resolved(runtime.releases[number], runtimes), asked=wanted_release)
        release = runtime.having_probes(release)
        release = _with_fact(
            release, learned.fact_about(release.shown, own_file().with_name(learned.FILE))
        )
        return release if provider in ("", "cpu") else _elsewhere(release, runtime, provider)

    release = complete(choice.row, "" if choice.remark else wanted_release)
    remarks = filter(None, (request.remark, choice.remark, release.remark))
    release = replace(release, remark="; ".join(remarks))
    if choice.next_row is None:
        return release
    return replace(release, between=wanted_release, next_release=complete(choice.next_row, ""))


def _provider(runtime: Runtime, spelling: str) -> str:
    """Returns the execution provider of the package with this spelling, or ""."""
    word = target_names.squeezed(spelling)
    named = runtime.providers.items()
    return next(
        (
            provider_name
            for provider_name, also in named
            if word in map(target_names.squeezed, also)
        ),
        "",
    )


def _with_fact(release: RuntimeRelease, learned_fact: learned.Learned | None) -> RuntimeRelease:
    """Returns a release with the corrections that were measured in the user's runtime."""
    if learned_fact is None:
        return release
    fact = Fact(learned_fact.source, learned_fact.date)
    floors, facts = dict(release.floors), dict(release.facts)
    if learned_fact.prefer is not None:
        facts["prefer"] = fact
    if learned_fact.lowest is not None:
        floors[""] = max(floors.get("", 1), learned_fact.lowest)
    facts |= {field: fact for field in learned.LISTS if getattr(learned_fact, field)}
    if not learned_fact.functions:
        facts["functions"] = fact
    return replace(
        release, prefer=learned_fact.prefer or release.prefer, floors=floors, facts=facts,
        other_forms=(*release.other_forms, *learned_fact.other_forms),
        without=(*release.without, *map(Lacking.parse, learned_fact.without)),
        functions=release.functions and learned_fact.functions,
    )  # fmt: skip


def _elsewhere(release: RuntimeRelease, runtime: Runtime, provider: str) -> RuntimeRelease:
    """Returns a release without its CPU kernels, because another provider has other kernels."""
    if provider not in runtime.providers:
        raise _no_provider(runtime, provider)
    return replace(release, provider=provider, kernels="", probed=None)


def _no_provider(runtime: Runtime, provider: str) -> BadTarget:
    """Makes the error for an execution provider that a runtime does not have."""
    listed = ", ".join(("cpu", *runtime.providers))
    return BadTarget(f"{runtime.name} has no provider {provider!r}; give one of {listed}")


@functools.cache
def some_release() -> RuntimeRelease:
    """Returns a release that lacks only what all releases of onnxruntime lack at any version."""
    return RuntimeRelease("onnxruntime", "", {}, None, "", kernels="onnxruntime")


@functools.cache
def _knowing(runtime: str, domain: str, since: int) -> frozenset[int]:
    """Returns the numbers of the measured releases that read a version of a domain."""
    releases = kernel_tables.shipped()[runtime].releases
    tops = (find(f"{runtime}=={release}").imports.get(domain, 0) for release in releases)
    return frozenset(number for number, top in enumerate(tops) if top >= since)


def require_text(name: object) -> None:
    """Raises TypeError if the name of a runtime is not a text."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a runtime is a text, not {type(name).__name__}")


def require_list(option: str, names: object) -> None:
    """Raises BadTarget if a single text, or no list, is given where an option takes names."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        example = names if isinstance(names, str) else "onnxruntime"
        raise BadTarget(f"{option} is {names!r}; give a list of names such as [{example!r}]")


def releases_of(word: str) -> list[RuntimeRelease]:
    """Returns all releases of a runtime, or the one release that a text names.

    The word "all" means every release of every runtime, except onnx itself.
    """
    require_text(word)
    if word.strip().lower() == ALL:
        return [release for release in table() if release.name != "onnx"]
    name = called(word)
    if name and _runtimes()[name].answer:
        find(word)
    return [release for release in table() if release.name == name] if name else [find(word)]


def table() -> list[RuntimeRelease]:
    """Returns every release of every target; a user's file overrides equal names."""
    runtimes = _runtimes()
    return [
        runtime.having_probes(_resolved(release, runtimes))
        for _, runtime in sorted(runtimes.items())
        for release in runtime.releases
    ]


def names() -> dict[str, tuple[str, ...]]:
    """Returns the names of all targets, with their other spellings."""
    return {name: runtime.aliases for name, runtime in sorted(_runtimes().items())}


def called(word: str) -> str | None:
    """Returns the name of the runtime that a spelling means, or None."""
    spellings = {
        target_names.squeezed(spelling): name
        for name, also in names().items()
        for spelling in (name, *also)
    }
    return spellings.get(target_names.squeezed(word))


def is_in_own_table(name: str, release: str) -> bool:
    """Returns whether opshift's own table of runtimes has an entry for a release of a runtime."""
    runtime = _read(SHIPPED, _shipped()).get(name)
    listed = [entry.versions for entry in runtime.releases] if runtime is not None else []
    return any(
        target_names.fits(listed_versions, release) is not None for listed_versions in listed
    )


def owned() -> frozenset[str]:
    """Returns the domains that runtimes define, apart from ONNX's domains."""
    return _owned(tuple(_texts()))


@functools.lru_cache(maxsize=4)
def _owned(texts: tuple[tuple[str, str], ...]) -> frozenset[str]:
    runtimes = _runtimes_of(texts).values()
    domains = (d for runtime in runtimes for release in runtime.releases for d in release.imports)
    return frozenset(domains).difference(versions.DOMAINS)


def _runtimes() -> Mapping[str, Runtime]:
    return _runtimes_of(tuple(_texts()))


@functools.lru_cache(maxsize=4)
def _runtimes_of(texts: tuple[tuple[str, str], ...]) -> Mapping[str, Runtime]:
    """Returns the runtimes of all tables; the texts are the key, as the user's file may change."""
    runtimes = {"onnx": _releases_of_onnx()}
    for origin, text in texts:
        for name, runtime in _read(origin, text).items():
            earlier = runtimes.get(name)
            runtimes[name] = (
                earlier.with_rows_of(runtime) if earlier and runtime.tables else runtime
            )
    return runtimes


def probe_table(name: str, texts: tuple[str, ...] = ()) -> probe_tables.ProbeTable | None:
    """Returns the probe results of a runtime, from the shipped table and the given texts."""
    shipped = _shipped_probes().get(name)
    return _merged((shipped, *texts) if shipped else texts)


@functools.lru_cache(maxsize=64)
def _merged(texts: tuple[str, ...]) -> probe_tables.ProbeTable | None:
    return probe_tables.merged(map(probe_tables.read, texts))


@functools.cache
def _shipped_probes() -> dict[str, str]:
    """Returns the texts of the shipped probe tables, by runtime."""
    text = plugins.data("opshift.opsets", "probed.txt").decode()
    tables = text.split("\nruntime ")[1:]
    return {table.partition("\n")[0]: f"runtime {table}" for table in tables}


def _texts() -> Iterator[tuple[str, str]]:
    """Yields the shipped data, the data of installed packages, and the user's own file."""
    yield SHIPPED, _shipped()
    for point in plugins.offered(GROUP):
        origin = f"targets.toml of {point.value}"
        yield origin, plugins.data(point.load().__name__, "targets.toml").decode()
    path = own_file()
    if os.environ.get(CONFIG) or path.is_file():
        yield str(path), path.read_text("utf-8")


def own_file() -> Path:
    """Returns the path of the user's own table of targets, which may not exist."""
    configured = os.environ.get(CONFIG)
    return Path(configured) if configured else Path.home() / ".config" / "opshift" / "targets.toml"


@functools.cache
def _shipped() -> str:
    return plugins.data("opshift.opsets", SHIPPED).decode()


@functools.cache
def described() -> Mapping[str, column_tables.Column]:
    """Returns the columns that the shipped table describes."""
    return column_tables.described(json.loads(_shipped())[DESCRIBED])


def shipped_of(text: str) -> str:
    """Returns the shipped data for the text of targets.toml."""
    content = {COMMENT: "python -m tools.author update targets, format 1", **toml.loads(text)}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


@functools.lru_cache(maxsize=16)
def _read(origin: str, text: str) -> dict[str, Runtime]:
    loads = json.loads if origin == SHIPPED else toml.loads
    try:
        apart = (COMMENT, DESCRIBED) if origin == SHIPPED else ()
        rows = {name: raw for name, raw in loads(text).items() if name not in apart}
        return {name.lower(): _runtime(name, raw) for name, raw in rows.items()}
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise BadTarget(f"{origin} is not a list of targets; correct it: {error}") from error


# The fields of a runtime and of a release, with the types of their values.
_OF_NAME: dict[str, tuple[type, ...]] = {
    "aliases": (list,), "default": (str,), "answer": (str,), "providers": (dict,),
    "releases": (list,), "probed": (str,),
}  # fmt: skip
_OF_ROW: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(FIELDS, (int, list)), "versions": (str,), "ir": (int,), "same_as": (str,),
    "domains": (dict,), "source": (str,), "date": (str, datetime.date), "prefer": (int,),
    "without": (list,), "kernels": (str,), "closed": (bool,), "also": (list, dict),
    "functions": (bool,), "only": (list,), "other_forms": (list,), "facts": (list,),
}  # fmt: skip
_OF_COLUMN: dict[str, tuple[type, ...]] = {"flag": (bool,), "texts": (list,), "pairs": (dict,)}
_CALLED: dict[type, str] = {
    bool: "true or false", datetime.date: "a date", dict: "a table", int: "a number",
    list: "a list", str: "a text",
}  # fmt: skip


def _require_fields(
    place: str, raw: object, fields: Mapping[str, tuple[type, ...]], needed: str
) -> None:
    """Raises ValueError for a field that does not exist, is missing, or has another type."""
    if not isinstance(raw, dict):
        raise ValueError(f"{place} is {raw!r}; give a table")
    for name, value in raw.items():
        if name not in fields:
            near = suggestion(name, list(fields))
            raise ValueError(f"{place} has the unknown field {name!r}{near}")
        if not isinstance(value, fields[name]):
            kinds = " or ".join(_CALLED[kind] for kind in fields[name])
            raise ValueError(f"{name} of {place} is {value!r}; give {kinds}")
    if needed and raw.get(needed) in (None, []):
        raise ValueError(f"{place} has no {needed}; add this field")


def _runtime(name: str, raw: Mapping[str, Any]) -> Runtime:
    of_row = _OF_ROW | {field: _OF_COLUMN[col.kind] for field, col in described().items()}
    needed = "" if isinstance(raw, dict) and {"answer", "probed"} & raw.keys() else "releases"
    _require_fields(name, raw, _OF_NAME | of_row, needed)
    common = {key: value for key, value in raw.items() if key not in _OF_NAME}
    rows = raw.get("releases", [])
    for row in rows:
        whole = {**common, **row} if isinstance(row, dict) else row
        _require_fields(f"a release of {name}", whole, of_row, "versions")
    return Runtime(
        name.lower(), tuple(_row(name, _with_common(row, common)) for row in rows),
        tuple(raw.get("aliases", ())), raw.get("default", ""), raw.get("answer", ""),
        {name: tuple(also) for name, also in raw.get("providers", {}).items()},
        (raw["probed"],) if "probed" in raw else (),
    )  # fmt: skip


def _with_common(row: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row with the fields of its runtime; it also lacks what the runtime lacks."""
    lacked = [*common.get("without", ()), *row.get("without", ())]
    return {**common, **row} | ({"without": lacked} if lacked else {})


def _row(name: str, row: Mapping[str, Any]) -> RuntimeRelease:
    ranges = {FIELDS[key]: row[key] for key in FIELDS if key in row} | row.get("domains", {})
    floors = {d: int(r[0]) for d, r in ranges.items() if isinstance(r, list)}
    tops = {d: r[-1] if isinstance(r, list) else int(r) for d, r in ranges.items()}
    imports = {d: int(top) for d, top in tops.items() if top}  # 0: there is no ceiling
    for domain, top in imports.items():
        if floors.get(domain, top) > top:
            shown = f"[{floors[domain]}, {top}]"
            raise ValueError(f"a range of {name} is {shown}; give the lowest version first")
    ir, ir_source = row.get("ir"), row.get("source", "")
    release = versions.release_of("", imports.get("", 0)) if imports.get("") else None
    if ir is None and release is not None:
        ir_source = f"the IR of onnx {release.name}, the first release with its ai.onnx version"
        ir = release.ir
    also = row.get("also", {})
    facts = {fact["name"]: Fact(fact["source"], str(fact["date"])) for fact in row.get("facts", ())}
    row_fact = Fact(row.get("source", ""), str(row.get("date", "")))
    return RuntimeRelease(
        name.lower(), row["versions"], imports, ir, row_fact.source, row.get("same_as", ""),
        floors, row_fact.date, ir_source, row.get("prefer"),
        tuple(map(Lacking.parse, row.get("without", ()))),
        tuple(map(Lacking.parse, row.get("only", ()))),
        str(row.get("kernels", "")), bool(row.get("closed", False)),
        bool(row.get("functions", True)), tuple(row.get("other_forms", ())),
        also if isinstance(also, dict) else dict.fromkeys(also, ""),
        columns={name: col.read(row[name]) for name, col in described().items() if name in row},
        facts={name: fact for name, fact in sorted(facts.items()) if name in row},
    )  # fmt: skip


def _resolved(release: RuntimeRelease, runtimes: Mapping[str, Runtime]) -> RuntimeRelease:
    """Returns the entry; for an entry with `same_as`, a copy of the other entry, renamed."""
    if not release.same_as:
        return release
    name, _, version = release.same_as.partition("==")
    if name not in runtimes:
        raise BadTarget(f"{release.shown} refers to {release.same_as}, which is not in the list")
    rows = runtimes[name].releases
    choice = target_names.choose(name, version, [(r.versions, r.also) for r in rows])
    referred = _resolved(rows[choice.row], runtimes)
    source, date = release.source or referred.source, release.date or referred.date
    origin = (
        referred.origin
        if choice.remark or referred.same_as
        else (name, version or referred.release)
    )
    return replace(
        referred, name=release.name, versions=release.versions, source=source, date=date,
        same_as=release.same_as, also=release.also, remark=choice.remark, meant=origin,
    )  # fmt: skip


def _releases_of_onnx() -> Runtime:
    names = {release.name for release in versions.RELEASES}
    rows = []
    for release in versions.RELEASES:
        minor = ".".join(release.name.split(".")[:2])
        listed = release.name if minor in names else f"{minor}, {release.name}"
        imports = {"": release.onnx, versions.ML: release.ml}
        for domain in (versions.TRAINING, versions.PREVIEW):
            if release.version(domain):
                imports[domain] = release.version(domain)
        source = "onnx's own version table"
        row = RuntimeRelease(
            "onnx", listed, imports, release.ir, source, date=TABLE_READ, closed=True
        )
        rows.append(row)
    return Runtime("onnx", tuple(rows))

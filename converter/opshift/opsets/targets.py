"""Targets by name: what a runtime takes at most, read from data that users can extend."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from opshift import toml, versions
from opshift.errors import BadTarget

GROUP = "opshift.targets"
CONFIG = "OPSHIFT_TARGETS"
FIELDS = {"onnx": "", "ml": versions.ML, "training": versions.TRAINING}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What one release of a runtime takes at most; a domain that is missing is not limited."""

    name: str
    versions: str
    imports: Mapping[str, int]
    ir: int | None
    source: str
    same_as: str = ""

    @property
    def shown(self) -> str:
        return f"{self.name}=={self.versions}" if self.versions else self.name


@dataclass(frozen=True, slots=True)
class Wanted:
    """A target that depends on the model: under a ceiling, at least or exactly some versions."""

    ceiling: Ceiling | None = None
    exact: Mapping[str, int] = field(default_factory=dict)
    at_least: Mapping[str, int] = field(default_factory=dict)

    def goal(self, present: Mapping[str, int]) -> dict[str, int]:
        """The version of each domain: the model's own where nothing forbids it."""
        limits = self.ceiling.imports if self.ceiling else {}
        found = {d: min(v, limits[d]) for d, v in present.items() if d in limits}
        for domain, floor in self.at_least.items():
            found[domain] = max(found.get(domain, present.get(domain, floor)), floor)
        found.update(self.exact)
        for domain, version in found.items():
            if domain in limits and version > limits[domain] and self.ceiling:
                raise BadTarget(
                    f"{self.ceiling.shown} takes {domain or 'ai.onnx'} up to {limits[domain]},"
                    f" not {version}"
                )
        return found

    def ir(self, wanted: str | int, current: int, goal: Mapping[str, int]) -> str | int:
        """The IR version: the model's own or what the goal pairs with, under the ceiling."""
        limit = self.ceiling.ir if self.ceiling else None
        if limit is None or self.ceiling is None:
            return wanted
        if isinstance(wanted, int) and wanted > limit:
            raise BadTarget(f"{self.ceiling.shown} takes IR up to {limit}, not {wanted}")
        if isinstance(wanted, int):
            return wanted
        raised = self.at_least or self.exact
        return min(limit, max(current, versions.ir_for(goal)) if raised else current)


def wanted(
    target: int | str | Mapping[str, int] | None,
    at_least: Mapping[str, int] | int | None = None,
) -> int | Mapping[str, int] | Wanted:
    """What a caller means by a target; nothing at all is a target that names no domain."""
    floors = {"": at_least} if isinstance(at_least, int) else dict(at_least or {})
    if isinstance(target, str):
        if target.isdecimal():
            raise BadTarget(f"the target of ai.onnx is a whole number, not {target!r}")
        return Wanted(find(target), at_least=floors)
    if target is None:
        return Wanted(at_least=floors) if floors else {}
    if floors:
        raise BadTarget("at_least goes with a target by name or none, not with exact versions")
    return target


def find(text: str) -> Ceiling:
    """The release that `onnxruntime==1.10`, `winml:win10-2004` or `sentis` means."""
    name, version = re.fullmatch(r"\s*(.*?)\s*(?:(?:==|:)\s*(.*?))?\s*", text).groups()  # type: ignore[union-attr]  # it matches anything
    known = table()
    rows = [row for row in known if row.name == name.lower()]
    if not rows:
        names = sorted({row.name for row in known})
        near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        listed = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(names)}"
        raise BadTarget(f"no target is called {name!r}; {listed} (see `opshift targets`)")
    fitting = [(fit, row) for row in rows if (fit := _fit(row.versions, version or "")) is not None]
    if not fitting:
        listed = ", ".join(row.versions for row in rows)
        wrong = f"{name} {version} is not known" if version else f"say which {name}"
        raise BadTarget(f"{wrong}; known are {listed}")
    return max(fitting, key=lambda pair: pair[0])[1]


def table() -> list[Ceiling]:
    """Every release of every target; a user's file replaces names of the same spelling."""
    names = {"onnx": _releases_of_onnx()}
    for origin, text in _texts():
        try:
            names.update(_read(toml.loads(text)))
        except (toml.TOMLDecodeError, TypeError, KeyError, AttributeError) as error:
            raise BadTarget(f"{origin} is not a list of targets: {error}") from error
    return [_resolved(row, names) for name in sorted(names) for row in names[name]]


def _texts() -> Iterator[tuple[str, str]]:
    """The shipped data, then that of installed packages, then the user's own file."""
    yield "targets.toml", files("opshift.opsets").joinpath("targets.toml").read_text("utf-8")
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        origin = f"targets.toml of {point.value}"
        yield origin, files(point.load()).joinpath("targets.toml").read_text("utf-8")
    own = os.environ.get(CONFIG)
    path = Path(own) if own else Path.home() / ".config" / "opshift" / "targets.toml"
    if own or path.is_file():
        yield str(path), path.read_text("utf-8")


def _read(raw: Mapping[str, Any]) -> dict[str, list[Ceiling]]:
    return {
        name.lower(): [_row(name, one, row) for row in one["releases"]] for name, one in raw.items()
    }


def _row(name: str, raw: Mapping[str, Any], row: Mapping[str, Any]) -> Ceiling:
    unknown = row.keys() - FIELDS.keys() - {"versions", "ir", "same_as", "domains"}
    if unknown:
        raise KeyError(f"{name} has the unknown field {', '.join(sorted(unknown))}")
    imports = {FIELDS[key]: int(row[key]) for key in FIELDS if key in row}
    imports.update(row.get("domains", {}))
    return Ceiling(
        name.lower(), row["versions"], imports, row.get("ir"), raw.get("source", ""),
        row.get("same_as", ""),
    )  # fmt: skip


def _resolved(row: Ceiling, names: Mapping[str, list[Ceiling]]) -> Ceiling:
    if not row.same_as:
        return row
    name, _, version = row.same_as.partition("==")
    for other in names.get(name, ()):
        if _fit(other.versions, version) is not None:
            return Ceiling(row.name, row.versions, other.imports, other.ir, row.source, row.same_as)
    raise BadTarget(f"{row.shown} is said to be {row.same_as}, which is not known")


def _releases_of_onnx() -> list[Ceiling]:
    names = {release.name for release in versions.RELEASES}
    rows = []
    for release in versions.RELEASES:
        minor = ".".join(release.name.split(".")[:2])
        listed = release.name if minor in names else f"{minor}, {release.name}"
        imports = {"": release.onnx, versions.ML: release.ml}
        for domain in (versions.TRAINING, versions.PREVIEW):
            if release.version(domain):
                imports[domain] = release.version(domain)
        rows.append(Ceiling("onnx", listed, imports, release.ir, "onnx's own version table"))
    return rows


def _fit(listed: str, asked: str) -> tuple[int, int] | None:
    """How closely a version is meant by a list of versions and ranges; None when it is not."""
    found = [fit for one in listed.split(",") if (fit := _fits_one(one.strip(), asked)) is not None]
    return max(found, default=None)


def _fits_one(one: str, asked: str) -> tuple[int, int] | None:
    if one.lower() == asked.lower():
        return 1, 0
    low, dots, high = one.partition("..")
    parts = _parts(asked)
    if dots and parts:
        above = _parts(low) <= parts or parts == _parts(low)[: len(parts)]
        top = _parts(high)
        return (0, len(top)) if above and (not top or parts[: len(top)] <= top) else None
    if one == "":
        return 0, 0
    single = _parts(one)
    return (0, len(single)) if single and parts[: len(single)] == single else None


def _parts(version: str) -> tuple[int, ...]:
    """Numbers of a version, nothing for one that is not made of numbers."""
    pieces = version.split(".")
    return tuple(map(int, pieces)) if all(piece.isdecimal() for piece in pieces) else ()

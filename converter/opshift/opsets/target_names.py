# SPDX-License-Identifier: Apache-2.0
"""Parses the names of runtimes in the spellings that people use."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence

from opshift import terms
from opshift.errors import BadTarget
from opshift.records import dataclass
from opshift.versions import is_version

# A sign with a version, a number with or without a dash, or a dash and a word with a number.
_NUMBER = r"\d+(?:[.+-](?:\w+|\*))*(?:ea|ga|(?:a|b|rc)\d+)?"
_PRERELEASE = r"(?:\.[x*])+$|(?:(?:a|b|rc)\d+|\.(?:dev|post)\d+)?(?:\+[\w.]+)?$"
_VERSION = rf"(?:-*(==?|>=|~=|:|@)-*v?(\S*?)|-*v?({_NUMBER})|-+([a-z]+\d\S*?))?-*"


@dataclass(frozen=True, slots=True)
class Name:
    """A known runtime name, the version after it, and a remark on what was assumed."""

    name: str
    version: str
    remark: str = ""
    spelling: str = ""  # the spelling that was typed


def parse(text: str, runtimes: Mapping[str, Sequence[str]]) -> Name:
    """Splits a text into a known runtime name, in any of its spellings, and a version."""
    plain = _plain(text)
    _require_runtime(text, plain)
    if re.match(r"(>=|~=)", plain) and "onnxruntime" in runtimes:
        default = parse(f"onnxruntime{plain}", runtimes)
        return Name(
            default.name, default.version, f"{text.strip()!r} names no runtime; onnxruntime is used"
        )
    spelled = sorted(
        (
            (_plain(spelling_of), name)
            for name, spellings in runtimes.items()
            for spelling_of in spellings
        ),
        key=lambda pair: -len(pair[0]),
    )
    for spelling, name in spelled:
        match = re.fullmatch(_pattern(spelling) + _VERSION, plain)
        if match is not None:
            version = re.sub(_PRERELEASE, "", match[2] or match[3] or match[4] or "")
            version = re.sub(r"-(ea|ga)$", r"\1", version)
            if match[1] and not version:
                raise BadTarget(f"{text.strip()!r} has no release after {match[1]!r}; give one")
            lower = (
                f"{text.strip()!r}: release {version} is used, and later releases run its models"
                " too"
            )
            remark = lower if match[1] in (">=", "~=") and version else ""
            return Name(name, version, remark, spelling)
    raise BadTarget(_unknown(text, list(dict.fromkeys(spelling for spelling, _ in spelled))))


def split_provider(text: str, providers: Collection[str]) -> tuple[str, str]:
    """Splits a text such as `onnxruntime==1.20:cuda` into the rest and the provider."""
    name, colon, last = text.strip().rpartition(":")
    provider = squeezed(last)
    return (name, provider) if colon and provider in providers else (text, "")


def _advice() -> str:
    versions = f"{terms.option('target', 'N')} and {terms.option('ir_version', 'M')}"
    return f"if you know the versions that the runtime reads, convert with {versions}"


def _require_runtime(text: str, plain: str) -> None:
    """Raises BadTarget if a text is an opset, or an upper limit such as `<1.10`."""
    version = re.sub(r"^opset-*", "", plain)
    if is_version(version):
        only_command = version == "latest" and terms.caller() is not terms.Caller.COMMAND
        how = "the number of the version" if only_command else "it as the version"
        value = terms.option("target", "N" if only_command else version)
        raise BadTarget(f"{text!r} is a version and not a runtime; give {how}: {value}")
    if "<" in plain:
        raise BadTarget(
            f"{text!r} names the newest release; give the oldest one that has to run the model,"
            " such as onnxruntime==1.10"
        )


def squeezed(name: str) -> str:
    """Returns a name in lower case, without blanks, dashes and underscores."""
    return re.sub(r"[\s_-]+", "", name.lower())


def _plain(text: str) -> str:
    return re.sub(r"[\s_]+", "-", text.strip().lower())


@functools.lru_cache(maxsize=512)  # few spellings, but each name is compared with all of them
def _pattern(spelling: str) -> str:
    """Returns a regular expression for a name that ignores dashes."""
    return "-*".join(map(re.escape, spelling.replace("-", "")))


def _unknown(text: str, spellings: Sequence[str]) -> str:
    import difflib

    name = re.split(rf"\s*(?:[=:<>~@]|[\s-]v?{_NUMBER}\s*$)", text.strip(), maxsplit=1)[0]
    near = difflib.get_close_matches(_plain(name), spellings, n=3, cutoff=0.75) if name else []
    listed = f"did you mean {', '.join(near)}?" if near else _advice()
    return f"no target is called {name!r}; {listed} (`opshift targets` lists all targets)"


@dataclass(frozen=True, slots=True)
class Choice:
    """The entry of the table that a version selects, by number, with a remark on assumptions."""

    row: int
    remark: str = ""
    next_row: int | None = None  # the row after an unknown release that lies between two rows


def choose(name: str, version: str, rows: Sequence[tuple[str, Mapping[str, str]]]) -> Choice:
    """Returns the entry of the table of targets that a version selects.

    An unknown release selects the nearest earlier entry and, if it exists, the nearest later entry.
    If an operator is missing in only one of the two entries, the release may have it.
    """
    for number, (_, also) in enumerate(rows):
        if version in also:
            return Choice(number, also[version])
    fitting = [
        (fit, number) for number, (listed, _) in enumerate(rows) if (fit := fits(listed, version))
    ]
    if fitting:
        return Choice(max(fitting)[1])
    listed = ", ".join(listed for listed, _ in rows)
    if not version:
        raise BadTarget(f"{name} is given without a release; give one of {listed}")
    within = [
        (parts, n) for n, (text, _) in enumerate(rows) for parts in _releases_of(text, version)
    ]
    if within:
        oldest, number = min(within)
        shown = ".".join(map(str, oldest))
        remark = (
            f"{name} {version} stands for several releases; the oldest known one, {shown}, is used"
        )
        return Choice(number, remark)
    earlier = [
        (end, n) for n, (text, _) in enumerate(rows) for end in _ends(text, numbers(version))
    ]
    if not earlier:
        raise BadTarget(
            f"{name} {version} is not known; the known releases are {listed}; {_advice()}"
        )
    end, number = max(earlier)
    shown = ".".join(map(str, end))
    later = [
        (first_release, n)
        for n, (text, _) in enumerate(rows)
        for first_release in _starts(text, numbers(version))
    ]
    if not later:
        newer = f"{name} {version} is newer than the known releases; release {shown} is used"
        return Choice(number, newer)
    start, after = min(later)
    remark = (
        f"{name} {version} is not known; the nearest releases {shown} and"
        f" {'.'.join(map(str, start))} are used, as far as they agree"
    )
    return Choice(number, remark, after)


def fits(listed: str, version: str) -> tuple[int, int] | None:
    """Returns how closely a list of versions and ranges matches a version, or None."""
    matches = [
        fit for part in listed.split(",") if (fit := _fits_one(part.strip(), version)) is not None
    ]
    return max(matches, default=None)


def _fits_one(part: str, version: str) -> tuple[int, int] | None:
    if part.lower() == version.lower():
        return 1, 0
    low, dots, high = part.partition("..")
    parts = numbers(version)
    if dots and parts:
        above = numbers(low) <= parts
        top = numbers(high)
        return (0, len(top)) if above and (not top or parts[: len(top)] <= top) else None
    if part == "":
        return 0, 0
    single = numbers(part)
    return (0, len(single)) if single and parts[: len(single)] == single else None


def between(first: str, release: str, last: str) -> bool:
    """Returns whether a release is in a range; an end such as 1.2 includes all its patches."""
    parts, low, high = numbers(release), numbers(first), numbers(last)
    return bool(parts) and low <= parts and parts[: len(high)] <= high


def _releases_of(listed: str, series: str) -> list[tuple[int, ...]]:
    """Returns the releases of a list that belong to a series such as 2022 or 4."""
    series_numbers = numbers(series)
    starts = (numbers(part.strip().partition("..")[0]) for part in listed.split(","))
    return [
        start
        for start in starts
        if series_numbers and start[: len(series_numbers)] == series_numbers
    ]


def _ends(listed: str, before: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the last releases of versions and ranges that come before a version."""
    ends = [numbers(part.strip().rpartition("..")[2]) for part in listed.split(",")]
    return [end for end in ends if end and end < before]


def _starts(listed: str, after: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the first releases of versions and ranges that come after a version."""
    starts = [numbers(part.strip().partition("..")[0]) for part in listed.split(",")]
    return [start for start in starts if start > after]


def numbers(version: str) -> tuple[int, ...]:
    """Returns the numbers of a version, or an empty tuple if it has other parts."""
    pieces = version.split(".")
    return tuple(map(int, pieces)) if all(piece.isdecimal() for piece in pieces) else ()

# SPDX-License-Identifier: Apache-2.0
"""Lists the releases of onnx with their IR versions and operator-set versions."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
from collections.abc import Mapping

from opshift.records import dataclass

ML = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"
PREVIEW = "ai.onnx.preview"
_METADATA = re.compile(r"onnx-(.*)\.dist-info")
DOMAINS = ("", ML, TRAINING, PREVIEW)

_VERSION = re.compile(r"\d+|latest|(?:ai\.onnx|com)[\w.]*=(?:\d+|latest)")


@dataclass(frozen=True, slots=True)
class Release:
    """One release of onnx."""

    name: str
    """The release."""
    ir: int
    """The IR version."""
    onnx: int
    """The version of ai.onnx."""
    ml: int
    """The version of ai.onnx.ml."""
    training: int = 0
    """The version of ai.onnx.preview.training; 0 if the release does not have it."""
    preview: int = 0
    """The version of ai.onnx.preview; 0 if the release does not have it."""

    def version(self, domain: str) -> int:
        """Returns the release's version of a domain; 0 if the release does not have the domain."""
        named = {"": self.onnx, ML: self.ml, TRAINING: self.training, PREVIEW: self.preview}
        return named.get(domain, 0)


RELEASES = (
    Release("1.0", 3, 1, 1),
    Release("1.1", 3, 5, 1),
    Release("1.1.2", 3, 6, 1),
    Release("1.2", 3, 7, 1),
    Release("1.3", 3, 8, 1),
    Release("1.4.1", 4, 9, 1),
    Release("1.5", 5, 10, 1),
    Release("1.6", 6, 11, 2),
    Release("1.7", 7, 12, 2, 1),
    Release("1.8", 7, 13, 2, 1),
    Release("1.9", 7, 14, 2, 1),
    Release("1.10", 8, 15, 2, 1),
    Release("1.11", 8, 16, 3, 1),
    Release("1.12", 8, 17, 3, 1),
    Release("1.13", 8, 18, 3, 1),
    Release("1.14", 9, 19, 3, 1),
    Release("1.15", 9, 20, 4, 1),
    Release("1.16", 10, 21, 5, 1),
    Release("1.17", 10, 22, 5, 1),
    Release("1.18", 11, 23, 5, 1),
    Release("1.19", 12, 24, 5, 1),
    Release("1.20", 13, 25, 5, 1),
    Release("1.21", 13, 26, 5, 1),
    Release("1.22", 13, 27, 5, 1, 1),
    Release("1.23", 14, 28, 5, 1, 1),
)
NEWEST_IR = RELEASES[-1].ir


@functools.cache
def installed_name() -> str:
    """Returns the version of the installed onnx, taken from the name of its metadata folder."""
    package = importlib.util.find_spec("onnx")
    places = package.submodule_search_locations if package is not None else None
    beside = {os.path.dirname(place) for place in places or ()}
    named = [name for folder in beside for name in os.listdir(folder) if _METADATA.fullmatch(name)]
    if len(named) == 1:
        return _METADATA.sub(r"\1", named[0])
    return str(importlib.import_module("onnx").__version__)  # as of onnx-weekly


@functools.cache
def installed() -> Release:
    """Returns the installed release of onnx, or the newest known release before it."""
    numbers = _numbers(installed_name())
    return max((r for r in RELEASES if _numbers(r.name) <= numbers), key=lambda r: _numbers(r.name))


def is_version(word: str) -> bool:
    """Returns whether a word is a version, such as `21`, `latest` or `ai.onnx.ml=3`."""
    return _VERSION.fullmatch(word) is not None


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split(".")[:3] if part.isdecimal())


@functools.cache
def release_of(domain: str, version: int) -> Release | None:
    """Returns the first release of onnx that has this version of a domain."""
    for release in RELEASES:
        if release.version(domain) >= version:
            return release
    return None


def ir_for(imports: Mapping[str, int]) -> int:
    """Returns the highest IR version of the releases that introduced these operator sets."""
    releases = [release_of(domain, version) for domain, version in imports.items()]
    return max((release.ir for release in releases if release), default=RELEASES[0].ir)


def paired(imports: Mapping[str, int], domain: str, ir_version: int = 0) -> int:
    """Returns the version of a domain in the onnx release of these imports or this IR version."""
    releases = [r for d, v in imports.items() if (r := release_of(d, v)) is not None]
    newest = max(releases, key=RELEASES.index, default=None)
    return max((newest or first_of(ir_version)).version(domain), 1)


def last_of(ir_version: int) -> Release:
    """Returns the last release of onnx with this IR version or a lower one."""
    return [release for release in RELEASES if release.ir <= ir_version][-1]


def first_of(ir_version: int) -> Release:
    """Returns the first release with this IR version; for the oldest IR version, the last release.

    Several releases share the oldest IR version. No current runtime has the operators of the
    first releases with this IR version.
    """
    oldest = [release for release in RELEASES if release.ir == RELEASES[0].ir][-1]
    later = (r for r in RELEASES if oldest.ir < r.ir and r.ir >= ir_version)
    return oldest if ir_version <= oldest.ir else next(later, RELEASES[-1])

# SPDX-License-Identifier: Apache-2.0
"""Holds the options for all models of a run, and a digest of the options and the code."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import opshift.versions
from opshift import plugins
from opshift.author.registry import GROUP
from opshift.convert.request import Request
from opshift.opsets.wanted import Wanted
from opshift.records import dataclass
from opshift.release import VERSION
from opshift.text import show_versions


@dataclass(frozen=True)
class Recipe:
    """Everything that a result depends on, except the bytes of the model."""

    request: Request
    external: str = "copy"
    fingerprint: str = ""
    verify: str = ""  # the runtime that verifies results, with its version
    runtimes: tuple[str, ...] = ()  # runtimes in which each model is checked

    @property
    def target(self) -> Mapping[str, int] | Wanted:
        """The versions by domain, or the runtime, to which models are converted."""
        target = self.request.target
        return {"": target} if isinstance(target, int) else target

    @property
    def target_text(self) -> str:
        """The target as text for the report."""
        if not isinstance(self.target, Wanted):
            return show_versions(self.target)
        name = self.target.release.shown if self.target.release else ""
        return ", ".join(part for part in (name, show_versions(self.target.exact)) if part)

    @property
    def as_options(self) -> str:
        """The target as arguments of `opshift plan`."""
        versions, words = self.target, list[str]()
        if isinstance(versions, Wanted):
            words += [f"--for '{versions.release.shown}'"] if versions.release else []
            versions = versions.exact
        words += [f"--to {domain + '=' if domain else ''}{to}" for domain, to in versions.items()]
        return " ".join(words)

    @functools.cached_property
    def digest(self) -> str:
        """A digest of all options but the checked runtimes, the same in each process."""
        content = repr(_ordered(replace(self, runtimes=())))
        return hashlib.sha256(content.encode()).hexdigest()


def _ordered(value: object) -> object:
    """Returns a value with data classes, mappings and sets as lists in an order that is fixed."""
    if isinstance(value, type):
        return value.__qualname__
    if is_dataclass(value):  # a field without `compare` is a cache
        value = {part.name: getattr(value, part.name) for part in fields(value) if part.compare}
    if isinstance(value, Mapping):
        return sorted((repr(key), _ordered(part)) for key, part in value.items())
    if isinstance(value, Set):
        return sorted(map(repr, value))
    return list(map(_ordered, value)) if isinstance(value, list | tuple) else value


@functools.cache
def fingerprint() -> str:
    """Returns a digest of release, installed onnx, and files of engine and adapters."""
    digest = hashlib.sha256(f"{VERSION} {opshift.versions.installed_name()}".encode())
    for package in sorted({"opshift", *(p.module for p in plugins.offered(GROUP))}):
        spec = importlib.util.find_spec(package)
        for folder in sorted(spec.submodule_search_locations or ()) if spec else ():
            paths = (path for path in Path(folder).rglob("*.*") if path.is_file())
            for path in sorted(path for path in paths if path.suffix != ".pyc"):
                digest.update(f"{package} {path.relative_to(folder)}\n".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()

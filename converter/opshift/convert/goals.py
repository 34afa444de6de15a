"""Versions: those a model has, those it is to have, those it could have as it is."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from opshift import versions
from opshift.errors import BadTarget
from opshift.model.document import Document
from opshift.model.scope import Root
from opshift.opsets import schemas


def goal(document: Document, target: int | Mapping[str, int]) -> dict[str, int]:
    """The wanted version of each domain, or a BadTarget that says what is wrong with it."""
    wanted = dict(target) if isinstance(target, Mapping) else {"": target}
    found: dict[str, int] = {}
    for raw, version in wanted.items():
        domain = schemas.normal(raw)
        shown = domain or "ai.onnx"
        if isinstance(version, bool) or not isinstance(version, int):
            raise BadTarget(f"the target of {shown} is a whole number, not {version!r}")
        if domain in found and found[domain] != version:
            raise BadTarget(f"{shown} is asked for at {found[domain]} and at {version}")
        _in_range(domain, shown, version)
        if not any(domain in root.imports for root in document.roots):
            if domain or isinstance(target, Mapping):
                raise BadTarget(f"the model does not import {shown}; leave it out of the target")
            continue
        found[domain] = version
    return found


def checkable(ir_version: str | int) -> None:
    """Refuses an IR version at which the result could not be checked."""
    if isinstance(ir_version, int) and ir_version > onnx.IR_VERSION:
        raise BadTarget(
            f"IR {ir_version} is above {onnx.IR_VERSION}, the newest that the installed onnx"
            f" {onnx.__version__} can check; install a newer onnx, or go on with check=False"
        )


def _in_range(domain: str, shown: str, version: int) -> None:
    newest = schemas.latest(domain)
    if newest is None:
        raise BadTarget(
            f"nothing is known about the versions of {shown!r}; install the package that describes"
            " it or leave it out of the target"
        )
    if version < 1:
        raise BadTarget(f"versions of {shown} begin at 1, not {version}")
    if version > newest and domain not in versions.DOMAINS:
        raise BadTarget(f"{shown} {version} is above {newest}, the newest that is described")
    if version > newest:
        release = versions.release_of(domain, version)
        brings = f"onnx {release.name} brings it" if release else "no known release of onnx has it"
        short = newest < (schemas.known().newest(domain) or 0)  # onnx, not the database
        who = f"the installed onnx {onnx.__version__}" if short else "opshift's operator database"
        raise BadTarget(
            f"{shown} {version} is above {newest}, the newest that {who} knows; {brings}"
        )


def present(document: Document, domain: str) -> list[int]:
    """The versions of a domain that the model and its functions import."""
    found = {
        version for root in document.roots if (version := root.imports.get(domain)) is not None
    }
    return sorted(found)


def spans(document: Document) -> dict[str, tuple[int, int]]:
    """For each known domain, the versions at which every node means what it means now."""
    found: dict[str, tuple[int, int]] = {}
    for root in document.roots:
        for domain in root.imports:
            newest = schemas.latest(domain)
            if newest is not None:
                low, high = found.get(domain, (1, newest))
                own = _span(root, domain, newest)
                found[domain] = max(low, own[0]), min(high, own[1])
    return found


def _span(root: Root, domain: str, newest: int) -> tuple[int, int]:
    version = root.imports[domain]
    low, high = 1, newest
    for key in root.index:
        if key[0] == domain:
            begins = [schema.since for schema in schemas.history(*key)]
            low = max([low, *(since for since in begins if since <= version)])
            high = min([high, *(since - 1 for since in begins if since > version)])
    return low, high

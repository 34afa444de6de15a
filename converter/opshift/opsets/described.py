# SPDX-License-Identifier: Apache-2.0
"""The operator sets that documents describe: given, installed, or beside a model."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opshift import plugins
from opshift.errors import BadTarget

if TYPE_CHECKING:
    from opshift.opsets.operator_set import Operator, OperatorSet
    from opshift.protos import FunctionProto

GROUP = "opshift.opsets"
VARIABLE = "OPSHIFT_OPSETS"  # paths of documents, which the child processes use too
SUFFIX = ".onnxopset"
HEAD = b"\n\x09ONNXOPSET"  # the first field of an OperatorSetProto, its magic

_sets: dict[tuple[str, int], tuple[OperatorSet, bytes, str]] = {}


def give(paths: Iterable[str]) -> dict[str, int]:
    """Makes this process, and those that it starts, use some documents; tells their versions."""
    listed = [os.path.abspath(path) for path in paths]
    found = dict(sorted(map(_read, listed)))  # of two versions of a domain, the later one
    known = list(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))
    added = [path for path in listed if path not in known]
    if added:
        os.environ[VARIABLE] = os.pathsep.join([*known, *added])
    return found


def is_document(path: str) -> bool:
    """Whether a file holds an operator set and no model; nothing is read from a pipe."""
    if not os.path.isfile(path):
        return False
    if path.endswith(SUFFIX):
        return True
    with open(path, "rb") as file:
        return file.read(len(HEAD)) == HEAD


def beside(path: str) -> None:
    """Uses the documents in the folder of a model; a folder is looked at once."""
    _in_folder(os.path.dirname(os.path.abspath(path)))


@functools.cache
def _in_folder(folder: str) -> None:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
    except OSError:  # opening the model reports what is wrong with the folder
        return
    for name in names:
        _read(os.path.join(folder, name), foreign_only=True)


def sets() -> list[OperatorSet]:
    """All operator sets that are described, by domain and version."""
    _find()
    return [_sets[key][0] for key in sorted(_sets)]


@functools.cache
def described() -> dict[tuple[str, str], list[Operator]]:
    """The implementations of each operator that is described, oldest first.

    An operator that a later set of its domain lacks is deprecated from that set on. Where one set
    states the signature and another does not, the stated one counts.
    """
    found: dict[tuple[str, str], dict[int, Operator]] = {}
    last: dict[str, dict[str, Operator]] = {}
    for one in sets():
        present = {operator.schema.name: operator for operator in one.operators}
        for name, operator in last.get(one.domain, {}).items():
            if name not in present:
                schema = replace(operator.schema, since=one.version, deprecated=True)
                found[one.domain, name][one.version] = replace(operator, schema=schema)
        last[one.domain] = present
        for operator in one.operators:
            schema = operator.schema
            same = found.setdefault((one.domain, schema.name), {})
            known = same.setdefault(schema.since, operator).schema
            if known.stated < schema.stated:
                same[schema.since] = operator
            elif known.stated == schema.stated and known != schema:
                raise BadTarget(
                    f"{one.domain}.{schema.name}:{schema.since} is described in two ways; an"
                    " operator that changes needs another since_version"
                )
    return {key: [same[since] for since in sorted(same)] for key, same in found.items()}


def body(domain: str, op: str, since: int) -> FunctionProto | None:
    """The function body of an operator that is described."""
    for one in sets():
        for operator in one.operators if one.domain == domain else ():
            if operator.schema.name == op and operator.schema.since == since:
                return one.body(op)
    return None


@functools.cache
def _find() -> None:
    """Reads what the environment and installed packages name."""
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        _read(path)
    for point in plugins.offered(GROUP):
        from importlib.resources import files

        for file in files(point.load()).iterdir():
            if file.name.endswith(SUFFIX):
                _add(file.read_bytes(), f"{file.name} of {point.value}")


def _read(path: str, *, foreign_only: bool = False) -> tuple[str, int]:
    with open(path, "rb") as file:
        return _add(file.read(), path, foreign_only=foreign_only)


def _add(data: bytes, origin: str, *, foreign_only: bool = False) -> tuple[str, int]:
    """Adds one document and tells its version; who described it with other words is named.

    A document of ONNX's own domains is an error, or passed over with `foreign_only`.
    """
    from opshift import versions
    from opshift.opsets import changelog, operator_set, schemas

    found = operator_set.read(data, origin)
    key = (found.domain, found.version)
    if found.domain in versions.DOMAINS:
        if foreign_only:
            return key
        raise BadTarget(
            f"{origin} describes {found.domain or 'ai.onnx'}, which ONNX describes; leave it out"
        )
    if key in _sets:
        if _sets[key][1] != data:
            raise BadTarget(
                f"{origin} and {_sets[key][2]} describe {key[0]} {key[1]} differently; leave one"
                " out"
            )
        return key
    _sets[key] = found, data, origin
    forget: tuple[Any, ...] = (described, changelog.default, *schemas.REMEMBERED)
    for one in forget:
        one.cache_clear()
    return key

# SPDX-License-Identifier: Apache-2.0
"""Manages operator sets from documents that a caller gives, packages install, or models have.

Sets of a caller and of packages apply to the whole process. A document next to a model applies only
to the work on this model; see `using`.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from opshift import plugins
from opshift.errors import BadTarget

if TYPE_CHECKING:
    from opshift.opsets.operator_set import Operator, OperatorSet
    from opshift.protos import FunctionProto

GROUP = "opshift.opsets"
VARIABLE = "OPSHIFT_OPSETS"  # paths of documents, which the child processes use too
SUFFIX = ".onnxopset"
HEAD = b"\n\x09ONNXOPSET"  # the first field of an OperatorSetProto is its magic string
LARGEST = 16 << 20  # bytes of a document
_Answer = TypeVar("_Answer", bound=Callable[..., Any])


class DescribedSet(NamedTuple):
    """An operator set, with the bytes and the name of its document."""

    content: OperatorSet
    data: bytes
    origin: str


_Sets = dict[tuple[str, int], DescribedSet]  # by domain and version
_sets: _Sets = {}  # of the whole process
_forgetting: list[Callable[[], None]] = []  # functions that clear caches when a set is added


class _SetsOfWork:
    """All operator sets that apply to one task, and the values computed from them."""

    __slots__ = ("answers", "documents", "sets")

    def __init__(self, documents: tuple[tuple[str, bytes], ...]) -> None:
        _find()
        self.documents, self.sets = documents, dict(_sets)
        self.answers: dict[Hashable, Any] = {}
        for origin, data in documents:
            _add(self.sets, data, origin, foreign_only=True)


_present: ContextVar[_SetsOfWork | None] = ContextVar("sets_of_work", default=None)
_sets_of_work = functools.lru_cache(maxsize=2)(_SetsOfWork)
_forgetting.append(_sets_of_work.cache_clear)


@contextlib.contextmanager
def using(documents: Iterable[tuple[str, bytes]]) -> Iterator[None]:
    """Adds operator-set documents (name and content) for the work in this context and thread."""
    outer, added = _present.get(), tuple(documents)
    if not added:
        yield
        return
    listed = (*(outer.documents if outer else ()), *added)
    token = _present.set(_sets_of_work(tuple(dict.fromkeys(listed))))
    try:
        yield
    finally:
        _present.reset(token)


def remembered(function: _Answer) -> _Answer:
    """Caches a function of operator definitions; the cache depends on the active documents."""
    usual = functools.cache(function)
    _forgetting.append(usual.cache_clear)

    @functools.wraps(function)
    def answer(*arguments: Any) -> Any:
        work = _present.get()
        if work is None:
            return usual(*arguments)
        key = (function, arguments)
        if key not in work.answers:
            work.answers[key] = function(*arguments)
        return work.answers[key]

    answer.cache_clear = usual.cache_clear  # type: ignore[attr-defined]
    return answer  # type: ignore[return-value]


def give(paths: Iterable[str]) -> dict[str, int]:
    """Makes this process and its children use operator-set documents; returns their versions."""
    listed = [os.path.abspath(path) for path in paths]
    versions = dict(sorted(map(_read, listed)))  # the later of two versions of a domain wins
    active = list(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))
    added = [path for path in listed if path not in active]
    if added:
        os.environ[VARIABLE] = os.pathsep.join([*active, *added])
    return versions


def is_document(path: str) -> bool:
    """Returns whether a file contains an operator set instead of a model; pipes are not read."""
    if not os.path.isfile(path):
        return False
    if path.endswith(SUFFIX):
        return True
    with open(path, "rb") as file:
        return file.read(len(HEAD)) == HEAD


def sets() -> list[OperatorSet]:
    """Returns all operator sets that documents describe, by domain and version."""
    _find()
    work = _present.get()
    active = _sets if work is None else work.sets
    return [active[key].content for key in sorted(active)]


@remembered
def described() -> dict[tuple[str, str], list[Operator]]:
    """Returns the implementations of each operator that documents describe, oldest first.

    An operator that a later set of its domain lacks is deprecated from that set on. If only one of
    two sets states the signature of an operator, this signature is used.
    """
    implementations: dict[tuple[str, str], dict[int, Operator]] = {}
    last: dict[str, dict[str, Operator]] = {}
    for document in sets():
        present = {operator.schema.name: operator for operator in document.operators}
        for name, operator in last.get(document.domain, {}).items():
            if name not in present:
                schema = replace(operator.schema, since=document.version, deprecated=True)
                implementations[document.domain, name][document.version] = replace(
                    operator, schema=schema
                )
        last[document.domain] = present
        for operator in document.operators:
            schema = operator.schema
            same = implementations.setdefault((document.domain, schema.name), {})
            earlier = same.setdefault(schema.since, operator).schema
            if earlier.stated < schema.stated:
                same[schema.since] = operator
            elif earlier.stated == schema.stated and earlier != schema:
                raise BadTarget(
                    f"{document.domain}.{schema.name}:{schema.since} is described in two ways; an"
                    " operator that changes needs another since_version"
                )
    return {key: [same[since] for since in sorted(same)] for key, same in implementations.items()}


def operator(domain: str, op: str, since: int) -> Operator | None:
    """Returns one implementation of an operator that documents describe, or None."""
    same = described().get((domain, op), ())
    return next(
        (implementation for implementation in same if implementation.schema.since == since), None
    )


def body(domain: str, op: str, since: int) -> FunctionProto | None:
    """Returns the function body of an operator that documents describe, or None."""
    for document in sets():
        for operator in document.operators if document.domain == domain else ():
            if operator.schema.name == op and operator.schema.since == since:
                return document.body(op)
    return None


@functools.cache
def _find() -> None:
    """Reads the operator sets that the environment and installed packages name."""
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        _read(path)
    for point in plugins.offered(GROUP):
        from importlib.resources import files

        for file in files(point.load()).iterdir():
            if file.name.endswith(SUFFIX):
                _add(_sets, file.read_bytes(), f"{file.name} of {point.value}")


def _read(path: str) -> tuple[str, int]:
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise BadTarget(f"{path} has more than {LARGEST >> 20} MiB; it is not an operator set")
    return _add(_sets, data, path)


def _add(sets: _Sets, data: bytes, origin: str, *, foreign_only: bool = False) -> tuple[str, int]:
    """Adds a document and returns its version; raises if another document contradicts it.

    A document of ONNX's own domains is an error, or is skipped if `foreign_only` is set.
    """
    from opshift import versions
    from opshift.opsets import operator_set

    content = operator_set.read(data, origin)
    key = (content.domain, content.version)
    if content.domain in versions.DOMAINS:
        if foreign_only:
            return key
        raise BadTarget(
            f"{origin} describes {content.domain or 'ai.onnx'}, which ONNX describes; leave it out"
        )
    if (same := sets.get(key)) is None:
        sets[key] = DescribedSet(content, data, origin)
        if sets is _sets:
            for forget in _forgetting:
                forget()
    elif same.data != data:
        raise BadTarget(
            f"{origin} and {same.origin} describe {key[0]} {key[1]} differently; leave one out"
        )
    return key

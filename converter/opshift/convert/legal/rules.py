# SPDX-License-Identifier: Apache-2.0
"""Everything that is wrong with a model, with the rules that onnx's checker does not enforce."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from opshift.author import registry
from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.convert.ir import needs
from opshift.convert.legal import checker, ir_rules, validate
from opshift.convert.legal.ir_rules import ERROR, INFO, WARNING
from opshift.errors import InvalidModel
from opshift.model import weights
from opshift.model.document import Document
from opshift.model.scope import Root, Scope
from opshift.opsets import schemas
from opshift.protos import AttributeProto, GraphProto, ModelProto
from opshift.records import dataclass
from opshift.report import SCHEMA_VERSION
from opshift.text import Line, Role, Shown, counted


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that is broken.

    A warning is about what every runtime tolerates; info is about what computes nothing and
    breaks no rule. `about` holds the names of what the finding is about.
    """

    level: str
    text: str
    rule: str
    about: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.level}: {self.text}"

    def as_dict(self) -> dict[str, str]:
        return {"level": self.level, "rule": self.rule, "text": self.text}


_ROLES = {ERROR: Role.BAD, WARNING: Role.CAUTION, INFO: Role.FAINT}


@dataclass(frozen=True, slots=True, repr=False)
class Findings(Shown):
    """All that was found in a model, errors first."""

    found: tuple[Finding, ...]

    def fails(self, *, strict: bool) -> bool:
        grave = {ERROR, WARNING} if strict else {ERROR}
        return any(finding.level in grave for finding in self.found)

    def beyond(self, before: Findings) -> tuple[Finding, ...]:
        """The errors and warnings that the model of which this one was made does not have."""
        known: dict[str, set[str]] = {}
        for one in before.found:
            known.setdefault(one.rule, set()).update(one.about)
        return tuple(
            one
            for one in self.found
            if one.level != INFO and not one.about <= known.get(one.rule, set())
        )

    def as_dict(self) -> dict[str, Any]:
        """The documented JSON form, `docs/reference/json.md`."""
        found = [finding.as_dict() for finding in self.found]
        return {"schema_version": SCHEMA_VERSION, "kind": "check", "findings": found}

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2, sort_keys=True)

    def lines(self) -> Iterator[Line]:
        """How many rules are broken, then each finding."""
        levels = [finding.level for finding in self.found]
        errors, warnings = levels.count(ERROR), levels.count(WARNING)
        told = [counted(n, what) for n, what in ((errors, ERROR), (warnings, WARNING)) if n]
        role = Role.BAD if errors else Role.CAUTION if warnings else Role.GOOD
        yield Line(f"{', '.join(told)}." if told else "Nothing is wrong.", role)
        for finding in self.found:
            yield Line(f"  {finding}", _ROLES[finding.level])


def check_model(model: ModelProto | str | os.PathLike[str]) -> Findings:
    """Check a model and return every rule that it breaks.

    Parameters
    ----------
    model : ModelProto or path
        The model.

    Returns
    -------
    Findings
        `.found` are the findings, errors first. A model without findings is legal.

    Raises
    ------
    InvalidModel
        The file is not an ONNX model.

    Examples
    --------
    >>> import opshift
    >>> opshift.check_model("model.onnx").fails(strict=False)
    False
    """
    if isinstance(model, ModelProto):
        skeleton, store = weights.carve_model(model)
    else:
        skeleton, store = weights.carve_file(model)
    try:
        validate.header(skeleton)
        document = Document(skeleton)
    except InvalidModel as error:
        return Findings((_error("INVALID_MODEL", str(error)),))
    adapters = registry.default()
    texts = [*validate.findings(document, adapters), *broken(document, adapters)]
    errors = [_error("SPECIFICATION", text) for text in texts]
    if store.file is not None:  # a model in memory has no folder
        errors += [_error("EXTERNAL_DATA", text) for text in weights.flaws(skeleton, store)]
    view = weights.checkable(skeleton)
    if not errors and (objection := checker.whole(view, adapters, full=True)) is not None:
        about = frozenset({_NODE.sub("", objection)})  # a conversion may write another operator
        errors.append(Finding(ERROR, f"the checker rejects it: {objection}", "CHECKER", about))
    facts = Facts(document, store, adapters, lambda: view)
    order = [ERROR, WARNING, INFO]
    found = [*errors, *_too_new(document, facts), *beyond_the_checker(document)]
    return Findings(tuple(sorted(dict.fromkeys(found), key=lambda one: order.index(one.level))))


_NODE = re.compile(r"\(op_type:[^)]*\): ")


def _error(rule: str, text: str) -> Finding:
    return Finding(ERROR, text, rule, frozenset({text}))


def beyond_the_checker(document: Document, *, visit_all: bool = True) -> Iterator[Finding]:
    """The rules of the IR documents that onnx's checker leaves out."""
    for rule in ir_rules.RULES:
        for about, text in rule.find(document) if visit_all or not rule.visits_all else ():
            yield Finding(rule.level, text, rule.code, about)


def broken(document: Document, adapters: Registry) -> Iterator[str]:
    """The rules that the checker leaves out and a runtime may rely on."""
    for root in document.roots:
        for scope in root.scopes:
            yield from _shadowing(scope)
            yield from _fields(scope)
        yield from _deprecated(root, adapters)
        yield from _other_imports(document, root)


def unenforced(document: Document, *, visit_all: bool = False) -> Iterator[Finding]:
    """The errors and warnings that a conversion looks for, before and after, beside the checker."""
    for root in document.roots:
        for found in (*map(_shadowing, root.scopes), _other_imports(document, root)):
            yield from (_error("SPECIFICATION", text) for text in found)
    found_too = beyond_the_checker(document, visit_all=visit_all)
    yield from (one for one in found_too if one.level != INFO)


def _shadowing(scope: Scope) -> Iterator[str]:
    """A name means one value along a chain of scopes."""
    if scope.parent is None or not isinstance(scope.proto, GraphProto):
        return
    own = {*scope.inputs, *scope.initializers, *scope.sparse, *scope.producers}
    for name in sorted(own):
        owner = scope.parent.owner(name)
        if owner is not None:
            yield f"{name!r} in graph {scope.proto.name!r} is defined around it too; rename one"


def _fields(scope: Scope) -> Iterator[str]:
    """Fields that must be there at the model's IR version."""
    for node in scope.proto.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.UNDEFINED:
                name = node.name or next((o for o in node.output if o), "")
                yield (
                    f"attribute {attribute.name!r} of {node.op_type} {name!r} has no type, which"
                    " every IR version from 2 on requires"
                )


def _deprecated(root: Root, adapters: Registry) -> Iterator[str]:
    for (domain, op), places in sorted(root.index.items()):
        version = root.imports.get(domain)
        schema = schemas.schema(domain, op, version) if version else None
        if schema is None and (retired := adapters.retired(domain, op)) is not None:
            named = ", ".join(sorted(retired.emits)) or "other operators"
            yield f"{op} was removed from {domain or 'ai.onnx'}; a conversion writes {named}"
        if schema is None or not schema.deprecated:
            continue
        instead = adapters.get(domain, op, schema.since - 1, schema.since)
        named = ", ".join(sorted(instead.emits)) if instead else ""
        way = f"use {named}, or convert from {schema.since - 1}" if named else "replace it"
        yield (
            f"{op} ({len(places)} nodes in {root.name}) is deprecated from"
            f" {domain or 'ai.onnx'} {schema.since} on; {way}"
        )


def _other_imports(document: Document, root: Root) -> Iterator[str]:
    """A function may import another version only where its operators mean the same."""
    if root.function is None:
        return
    for domain, op in sorted(root.index):
        own, theirs = root.imports.get(domain), document.imports.get(domain)
        if own is None or theirs is None or own == theirs:
            continue
        if schemas.schema(domain, op, own) != schemas.schema(domain, op, theirs):
            yield (
                f"{root.name} imports {domain or 'ai.onnx'} {own} and the model {theirs}, where"
                f" {op} is another operator; convert both to one version"
            )


def _too_new(document: Document, facts: Facts) -> Iterator[Finding]:
    """Content that a later IR version brought; readers skip what computes nothing."""
    says = document.model.ir_version
    for one in needs.held(document, facts, says):
        about = frozenset({one.says})
        if one.computes:
            text = f"{one.says} needs IR {one.ir}, and the model states IR {says}"
            text = f"{text}; raise it with --ir"
            yield Finding(WARNING, text, "FIELD_ABOVE_IR", about)
        else:
            text = f"{one.says} came with IR {one.ir}; readers of IR {says} skip it"
            yield Finding(INFO, text, "SKIPPED_ABOVE_IR", about)

# SPDX-License-Identifier: Apache-2.0
"""Decides by ONNX's versioning rules whether a consumer of certain versions can use a model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from opshift import terms
from opshift.author import registry
from opshift.convert import model_opening
from opshift.convert.cheapest_strategy import opener_of
from opshift.convert.legal import diagnose, opening
from opshift.errors import BadTarget
from opshift.look.accepts import Acceptance, require_valid
from opshift.model import imports
from opshift.model.bytes import documents
from opshift.model.model_version import ModelVersion, VersionFormat
from opshift.opsets import changelog
from opshift.opsets.identity import normal
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.text import show_versions


@dataclass(frozen=True, slots=True)
class Consumer:
    """The versions that a program reads; a version that is not given is not checked."""

    opsets: Mapping[str, int] = field(default_factory=dict)
    ir: int | None = None
    model_version: ModelVersion | None = None  # of the model that it was written for

    def __post_init__(self) -> None:
        if not (self.opsets or self.ir or self.model_version):
            raise BadTarget(
                "the consumer is not described; give its opsets, its IR version, or the version of"
                " the model that it was written for"
            )

    def __str__(self) -> str:
        supported = show_versions({**self.opsets, **({"IR": self.ir} if self.ir else {})})
        model = f"model version {self.model_version}" if self.model_version else ""
        return f"a consumer that supports {', '.join(filter(None, (supported, model)))}"


def written_for(text: str) -> ModelVersion:
    """Parses the version of the model that a consumer was written for; `1.2` means 1.2.0."""
    short = re.fullmatch(r"\d+\.\d+", text, re.ASCII)
    return ModelVersion.parse(f"{text}.0" if short else text)


@diagnose.protobuf_errors()
def may_use(model: ModelProto | str | os.PathLike[str], consumer: Consumer) -> Acceptance:
    """Returns whether a consumer can use a model without a conversion."""
    with documents.beside(model):
        open_skeleton = opener_of(model)
        skeleton, _ = open_skeleton()
        model_opening.mend_imports(skeleton, registry.default())
        opening.header(skeleton)
        reasons, remarks = list(_ir(skeleton, consumer)), list[str]()
        conditions: list[str] = []
        for domain, knows in _above(skeleton, consumer):
            text, unchanged = _later(skeleton, domain, knows)
            (conditions if unchanged else reasons).append(text)
        if consumer.model_version is not None:
            stored = ModelVersion.unpack(skeleton.model_version)
            reasons += _breaking(stored, consumer.model_version)
            remarks += _not_stored(stored, consumer.model_version)
        if not reasons:  # a model of unknown versions already has a reason
            require_valid(open_skeleton)
        unknown = tuple(_not_asked(skeleton, consumer))
    return Acceptance(str(consumer), tuple(reasons), unknown, tuple(remarks), tuple(conditions))


def _ir(model: ModelProto, consumer: Consumer) -> Iterator[str]:
    if consumer.ir is not None and model.ir_version > consumer.ir:
        yield (
            f"the model has IR {model.ir_version}, but the consumer reads IR up to {consumer.ir};"
            f" convert it with {terms.option('ir_version', consumer.ir)}"
        )


def _above(model: ModelProto, consumer: Consumer) -> Iterator[tuple[str, int]]:
    """Yields the imported versions that are above the consumer's, with the consumer's version."""
    for domain, version in sorted(_newest(model).items()):
        knows = consumer.opsets.get(domain)
        if knows is not None and version > knows:
            yield domain, knows


def _later(model: ModelProto, domain: str, knows: int) -> tuple[str, bool]:
    """Returns a sentence on a version above the consumer's, and whether operators stay equal.

    Strictly by ONNX's rules, a consumer must refuse an operator set that it does not fully know.
    Many runtimes check only the operators of the model.
    """
    shown, option = domain or "ai.onnx", f"{domain}={knows}" if domain else knows
    changed = sorted(_changed(model, domain, knows))
    if domain not in changelog.default().domains:
        why = "no installed package describes its operators"
    elif changed:
        why = f"{', '.join(changed)} changed since that version"
    else:
        why = "no operator of the model changed since that version"
    text = (
        f"the model imports {shown} {_newest(model)[domain]}, but the consumer supports {shown} up"
        f" to {knows} ({why}); convert it with {terms.option('target', option)}"
    )
    return text, not changed and domain in changelog.default().domains


def _changed(model: ModelProto, domain: str, knows: int) -> set[str]:
    """Returns the operators of a model that mean something else at the consumer's version."""
    database, changed = changelog.default(), set()
    for node, versions in imports.operators(model):
        if normal(node.domain) == domain and versions.get(domain, 0) > knows:
            pair = (database.meaning(domain, node.op_type, v) for v in (knows, versions[domain]))
            if len(set(pair)) > 1 or database.meaning(domain, node.op_type, knows) is None:
                changed.add(node.op_type)
    return changed


def _newest(model: ModelProto) -> dict[str, int]:
    """Returns the newest version of each domain that a model or its functions import."""
    newest: dict[str, int] = {}
    function_domains = {normal(function.domain) for function in model.functions}
    for owner in imports.owners(model):
        for domain, version in imports.versions(owner).items():
            if domain not in function_domains:
                newest[domain] = max(version, newest.get(domain, 0))
    return newest


def _not_asked(model: ModelProto, consumer: Consumer) -> Iterator[str]:
    """Yields questions on domains for which the consumer states no version."""
    used = {normal(node.domain) for node, _ in imports.operators(model)}
    for domain, version in sorted(_newest(model).items()):
        if consumer.opsets and domain not in consumer.opsets and domain in used:
            shown = domain or "ai.onnx"
            yield f"whether the consumer supports {shown} {version}; give --opset {shown}=N"


def _breaking(stored: ModelVersion, wanted: ModelVersion) -> Iterator[str]:
    """Yields breaking differences between this model and the model that the consumer expects."""
    fact = f"the model is version {stored}, but the consumer was written for {wanted}"
    if VersionFormat.NUMBER in (stored.form, wanted.form):
        if stored != wanted:
            yield f"{fact}; a plain number does not show whether the change breaks the consumer"
    elif stored.major != wanted.major:
        yield f"{fact}; another MAJOR version breaks programs that use the model"
    elif not stored.major and stored.minor != wanted.minor:
        yield f"{fact}; below 1.0.0 each MINOR version may break programs that use the model"
    elif stored.minor < wanted.minor:  # a PATCH version changes nothing that a consumer depends on
        yield f"{fact}; an older model may lack what the consumer needs"


def _not_stored(stored: ModelVersion, wanted: ModelVersion) -> Iterator[str]:
    parts = [part for part in (wanted.pre_release, wanted.build) if part]
    if parts:
        yield (
            f"whether the model has the version {wanted}: model files do not store"
            f" {' and '.join(parts)}, so opshift compared {stored} with {wanted.stored}"
        )

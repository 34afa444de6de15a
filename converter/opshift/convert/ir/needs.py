# SPDX-License-Identifier: Apache-2.0
"""Computes the IR version of a result from its operator sets and its content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opshift import terms, versions
from opshift.convert.ir.features import FEATURES, TYPES, Feature, TypedContent
from opshift.model.bytes.outline import Content, read_as
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.author.facts import Facts
    from opshift.protos import ModelProto


@dataclass(frozen=True, slots=True)
class Need:
    """An IR version, and a sentence on the content that requires it."""

    ir: int
    """The IR version."""
    reason: str
    """The content of the model that requires the IR version."""


def wanted_ir(current: int, imports: Mapping[str, int], wanted: str | int, moved: bool) -> int:
    """Returns the wanted IR version, before the content of the model is considered.

    `auto` means the IR version that belongs to the imports if an operator set changed (`moved`). If
    no operator set changed, `auto` never means a lower IR version than the present one.
    """
    if wanted == "keep":
        return current
    if wanted == "auto":
        paired = versions.ir_for(imports)
        return paired if moved else max(current, paired)
    return int(wanted)


def features_above(facts: Facts, above: int) -> list[Feature]:
    """Returns the content of a model that an IR version later than `above` introduced."""
    document = facts.document
    bare = any(n not in scope.inputs for scope in document.scopes() for n in scope.initializers)
    content = read_as(Content, document.model.SerializeToString())
    return of_content(content, _types(facts, above), bare=bare, above=above)


def _types(facts: Facts, above: int) -> frozenset[str]:
    """Returns the element types of a model that an IR version later than `above` introduced."""
    from opshift.author.present_types import collect_present_types

    later_types = frozenset(facts.present_types & TYPES.keys())
    if all(TYPES[name] <= above for name in later_types):
        return later_types
    document = facts.document
    now = type(document)(document.model, document.prefix)
    return frozenset(collect_present_types(now) & TYPES.keys())


def of_content(
    content: Content, types: Iterable[str], *, bare: bool, above: int = 3
) -> list[Feature]:
    """Returns the kinds of content of a model; with `bare`, some initializers are not inputs."""
    whole = TypedContent(content, frozenset(types), bare)
    features = [feature for feature in FEATURES if feature.ir > above and feature.find(whole)]
    return sorted(features, key=lambda feature: (-feature.ir, feature.says))


def sentence(model: ModelProto, feature: Feature) -> str:
    """Returns a sentence: the content that needs a later IR version, its place, what to do."""
    place = next(feature.where(model), "")
    return f"{feature.says} needs IR {feature.ir}{place and f' ({place})'}; {feature.remedy}"


def note_raised(feature: Feature) -> str:
    """Returns the note on content that requires a higher IR version."""
    return f"the IR version stays at {feature.ir}, because of {feature.says}"


def note_skipped(features: Iterable[Feature], ir: int) -> list[str]:
    """Returns one note on all fields of the result that readers of its IR version ignore."""
    names = [feature.says for feature in features]
    if not names:
        return []
    listed = ", ".join(names)
    return [
        f"kept content that does not affect results and that readers of IR {ir} ignore:"
        f" {listed}; use {terms.option('drop_metadata')} to remove it"
    ]

# SPDX-License-Identifier: Apache-2.0
"""The published schema describes the fields of the classes of outcomes, and their types."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import types
import typing
from typing import Any

import pytest
from json_schema import SCHEMA
from opshift.codes.page_text import CodeText
from opshift.errors import RefusedNode
from opshift.look.accepts import Acceptance
from opshift.look.document_info import DocumentInfo
from opshift.look.info import Info
from opshift.look.lowest import Lowest, Reach
from opshift.look.plan import Hop, Path, Plan
from opshift.opsets.targets import RuntimeRelease, described
from opshift.report import Report, Site, StepReport, Work
from opshift.verify.verification import Verification
from opshift.zoo.audit import Audit
from opshift.zoo.outcome import Blocker

HEAD = {"schema_version", "kind", "model"}  # of every object that a command prints
# The class of each object, and the fields that are computed from others or added by a command.
CLASSES: dict[str, tuple[type, set[str]]] = {
    "report": (Report, {"trials", "verification"}),
    "step": (StepReport, set()),
    "work": (Work, set()),
    "site": (Site, set()),
    "hop": (Hop, set()),
    "path": (Path, set()),
    "reach": (Reach, set()),
    "plan": (Plan, {"possible"}),
    "lowest": (Lowest, {"lowest_ir"}),
    "info": (Info, set()),
    "operator_set": (DocumentInfo, set()),
    "accepts": (Acceptance, {"accepted", "answer"}),
    "audit": (Audit, {"answer"}),
    "verification": (Verification, {"different", "equal"}),
    "blocker": (Blocker, set()),
    "page": (CodeText, set()),
}
LISTS = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Collection)
PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def kinds_of(hint: Any) -> set[str]:
    """The JSON types of the values that a type hint allows; none if it allows every value."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return set().union(*map(kinds_of, typing.get_args(hint)))
    if origin is typing.Literal:
        return set().union(*(kinds_of(type(one)) for one in typing.get_args(hint)))
    if hint in PLAIN:
        return {PLAIN[hint]}
    if (origin or hint) in LISTS or hasattr(hint, "_fields"):
        return {"array"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"string"}
    if dataclasses.is_dataclass(hint) or (
        isinstance(origin or hint, type) and issubclass(origin or hint, collections.abc.Mapping)
    ):
        return {"object"}
    return set()


def kinds_in(schema: dict[str, Any]) -> set[str]:
    """The JSON types that a part of the schema allows."""
    if "$ref" in schema:
        return kinds_in(SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in schema or "oneOf" in schema:
        return set().union(*map(kinds_in, [*schema.get("anyOf", ()), *schema.get("oneOf", ())]))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return {PLAIN[type(one)] for one in values}
    named = schema["type"]
    return {named} if isinstance(named, str) else set(named)


@pytest.mark.parametrize("name", CLASSES)
def test_an_object_has_the_fields_of_its_class_and_no_other(name):
    cls, computed = CLASSES[name]
    fields = {one.name for one in dataclasses.fields(cls)}
    described = set(SCHEMA["$defs"][name]["properties"]) - HEAD
    assert described == (fields | computed) - HEAD


@pytest.mark.parametrize("name", CLASSES)
def test_a_field_has_the_type_of_its_hint(name):
    cls, _ = CLASSES[name]
    hints, properties = typing.get_type_hints(cls), SCHEMA["$defs"][name]["properties"]
    for one in dataclasses.fields(cls):
        if wanted := kinds_of(hints[one.name]):
            assert kinds_in(properties[one.name]) == wanted, one.name


def test_a_refusal_has_the_fields_of_its_node_and_the_cure():
    """The cure names the assumption, the types or the shape that would help."""
    fields = {one.name for one in dataclasses.fields(RefusedNode)} - {"missed", "shape", "types"}
    assert set(SCHEMA["$defs"]["refusal"]["properties"]) == fields | {"cure"}


def test_a_release_of_a_runtime_has_the_fields_of_its_row():
    row = SCHEMA["$defs"]["targets"]["properties"]["targets"]["items"]["properties"]
    fields = {
        one.name for one in dataclasses.fields(RuntimeRelease) if not one.name.startswith("_")
    }
    computed = {"built_on", "forms"}
    assert set(row) == (fields - {"columns"}) | described().keys() | computed

# SPDX-License-Identifier: Apache-2.0
"""The schema of outcomes follows from the declarations of their classes."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from json_schema import SCHEMA, faults
from opshift.cli import outcome_schema
from opshift.codes.refusals import Why
from opshift.json_form import Form, Part, Versions
from opshift.opsets import targets
from opshift.records import dataclass


class Color(str, enum.Enum):
    """An enumeration."""

    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    """Something inside.

    Only the first paragraph counts.
    """

    size: int = 0
    """The size."""


@dataclass(frozen=True, slots=True)
class Outer(Form):
    """Something around.

    Attributes
    ----------
    name : str
        The name,
        on two lines.
    """

    ALSO = ("doubled",)
    HIDDEN = ("secret",)
    MERGED = ("inner",)
    LEFT_OUT = ("extra",)
    OPTIONAL = ("later",)

    name: str
    secret: UnknownType  # noqa: F821 - as a name that only mypy imports
    inner: Inner
    later: str = ""
    """It came later."""
    extra: Inner | None = None
    """It may lack."""
    _private: int = 0

    @property
    def doubled(self) -> int:
        """The doubled size."""
        return 2 * self.inner.size


def test_an_object_has_the_fields_and_properties_of_its_class():
    found = outcome_schema._object(Outer)
    described = {name: one["description"] for name, one in found["properties"].items()}
    assert described == {
        "name": "The name, on two lines.", "size": "The size.", "later": "It came later.",
        "extra": "It may lack.", "doubled": "The doubled size.",
    }  # fmt: skip
    assert found["description"] == "Something around."
    assert found["required"] == ["name", "size", "doubled"]
    assert found["properties"]["extra"]["type"] == "object"
    for made in (Outer("a", 1, Inner(3)), Outer("a", 1, Inner(3), "b", Inner(4))):
        assert not list(faults(made.as_dict(), found))
        assert json.loads(made.to_json()) == made.as_dict()
    assert "extra" not in Outer("a", 1, Inner(3)).as_dict()


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (str, {"type": "string"}),
        (int | None, {"type": ["integer", "null"]}),
        (tuple[bool, ...], {"type": "array", "items": {"type": "boolean"}}),
        (tuple[int, int], {"type": "array", "items": {"type": "integer"}, "minItems": 2,
                           "maxItems": 2}),
        (frozenset[str], {"type": "array", "items": {"type": "string"}}),
        (Mapping[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Mapping[str, Any], {"type": "object"}),
        (Annotated[str, "a", "b"], {"enum": ["a", "b"]}),
        (Annotated[str, True, False, None], {"type": ["boolean", "null"]}),
        (Annotated[str, Part("it", "")] | None,
         {"anyOf": [{"$ref": "#/$defs/it"}, {"type": "null"}]}),
        (Versions, {"$ref": "#/$defs/imports"}),
        (Color, {"enum": ["red"]}),
        (Why, {"type": "string"}),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_has_its_schema(hint, expected):
    assert outcome_schema._of(hint) == expected


def test_a_release_has_the_columns_that_the_table_of_runtimes_describes():
    found = SCHEMA["$defs"]["targets"]["properties"]["targets"]["items"]["properties"]
    for column in targets.described().values():
        assert found[column.name]["description"] == column.says


def test_every_value_has_a_type():
    """A part without a type accepts every value."""

    def open_parts(schema, at):
        if not schema.keys() & {"$ref", "type", "enum", "const", "anyOf", "oneOf"}:
            yield at
        if "array" in schema.get("type", ()):
            yield from open_parts(schema["items"], f"{at}[]")
        for name, one in schema.get("properties", {}).items():
            yield from open_parts(one, f"{at}.{name}")

    assert not [at for name, one in SCHEMA["$defs"].items() for at in open_parts(one, name)]

# SPDX-License-Identifier: Apache-2.0
"""A validator for the part of JSON Schema that opshift's schema of outcomes uses.

It is stricter than JSON Schema in one way: a field of an object whose fields are listed must be
one of them, so that a field that nobody has documented makes a test fail.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from typing import Any

SCHEMA: dict[str, Any] = json.loads(pkgutil.get_data("opshift", "outcomes.schema.json") or b"")
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,),
    "number": (int, float), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip
USED = set[tuple[int, str]]()  # the fields of the schema that a value had, by their object
KNOWN = {
    "$ref", "type", "properties", "required", "additionalProperties", "items", "minItems",
    "maxItems", "enum", "const", "anyOf", "oneOf", "description", "title",
}  # fmt: skip


def faults(value: Any, schema: dict[str, Any] | None = None, at: str = "$") -> Iterator[str]:
    """Each place of a value that breaks the schema of outcomes, or a part of it."""
    schema = {"$ref": SCHEMA["$ref"]} if schema is None else schema
    if unknown := schema.keys() - KNOWN:
        raise NotImplementedError(f"{at}: {unknown}")
    if "$ref" in schema:
        yield from faults(value, _named(schema["$ref"]), at)
    for word in ("anyOf", "oneOf"):
        yield from _choices(value, schema.get(word, []), at)
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{at}: {value!r} is not of type {schema['type']}"
    elif isinstance(value, dict):
        yield from _of_object(value, schema, at)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{at}: {len(value)} items"
        for i, item in enumerate(value):
            yield from faults(item, schema.get("items", {}), f"{at}[{i}]")


def unused(schema: Any = SCHEMA, at: str = "") -> Iterator[str]:
    """The fields of the schema that no value had since the start of the process."""
    if isinstance(schema, dict):
        listed = schema.get("properties", {})
        yield from (f"{at}: {name}" for name in listed if (id(listed), name) not in USED)
        for key, inner in schema.items():
            yield from unused(inner, f"{at}/{key}")


def _named(reference: str) -> dict[str, Any]:
    definition: dict[str, Any] = SCHEMA["$defs"][reference.removeprefix("#/$defs/")]
    return definition


def _choices(value: Any, choices: list[dict[str, Any]], at: str) -> Iterator[str]:
    """Yields the faults of a value for which not exactly one choice is valid."""
    faults_of_choices = [list(faults(value, choice, at)) for choice in choices]
    if choices and sum(not choice_faults for choice_faults in faults_of_choices) != 1:
        kinds = [
            _named(choice["$ref"]).get("properties", {}) if "$ref" in choice else {}
            for choice in choices
        ]
        same_kind = [
            choice_faults for choice_faults, kind in zip(faults_of_choices, kinds, strict=True)
            if isinstance(value, dict) and kind.get("kind", {}).get("const") == value.get("kind")
        ]  # fmt: skip
        yield from (
            same_kind[0]
            if same_kind and same_kind[0]
            else [f"{at}: no choice, or several, fit {value!r:.200}"]
        )


def _is(value: Any, kinds: str | list[str]) -> bool:
    names = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, TYPES[name]) for name in names)


def _of_object(value: dict[str, Any], schema: dict[str, Any], at: str) -> Iterator[str]:
    listed = schema.get("properties", {})
    yield from (f"{at}: no {name!r}" for name in schema.get("required", ()) if name not in value)
    for name, item in value.items():
        if name in listed:
            USED.add((id(listed), name))
            yield from faults(item, listed[name], f"{at}.{name}")
        elif "additionalProperties" in schema:
            yield from faults(item, schema["additionalProperties"], f"{at}.{name}")
        elif listed:
            yield f"{at}: {name!r} is not documented"

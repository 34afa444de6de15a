# SPDX-License-Identifier: Apache-2.0
"""Generates the JSON Schema of outcomes from the declarations of their classes.

`python -m tools.author update schema` writes the schema, and `opshift schema` prints the file.
"""

from __future__ import annotations

import ast
import collections.abc
import dataclasses
import enum
import importlib
import inspect
import itertools
import json
import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import opshift
from opshift.codes.refusals import Why
from opshift.json_form import Form, Part, Versions, members, plain
from opshift.opsets import targets
from opshift.opsets.columns import Cell

FILE = "outcomes.schema.json"
OPEN = {Why}  # enumerations that get new members
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}
OF_CELL = {"flag": bool, "texts": tuple[str, ...], "pairs": Mapping[str, str]}
TITLE = re.compile(r"Printed by `([^`]+)`")
VERSION = {"const": 1, "description": "The version of this form. Within it, fields are only added."}
MODEL = {"type": "string", "description": "The model, if the command has several."}
Schema: TypeAlias = "dict[str, Any]"


def text() -> str:
    """Returns the content of the file."""
    comment = {"$comment": "python -m tools.author update schema, format 1"}
    return json.dumps({**comment, **schema()}, indent=1) + "\n"


def schema() -> Schema:
    """Returns the schema of every object that a command prints."""
    classes = sorted(_forms(), key=lambda cls: (len(cls.MERGED), cls.__qualname__))
    part = typing.get_args(Versions)[1]
    parts = {part.name: {**_of(Mapping[str, int]), "description": part.says}}
    parts |= {cls.PART: _object(cls) for cls in classes if vars(cls).get("PART")}
    kinds = sorted({cls.KIND for cls in classes} - {""})
    outcomes = {kind: _outcome(kind, [c for c in classes if kind == c.KIND]) for kind in kinds}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The outcomes of opshift",
        "description": "Every object that a command of opshift prints with --output-format json or"
        " jsonl. Readers must ignore fields that they do not know.",
        "$ref": "#/$defs/outcome",
        "$defs": {
            **parts,
            **outcomes,
            "outcome": {
                "description": "Any outcome; `kind` states which.",
                "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds],
            },
        },
    }


def _forms() -> Iterator[type[Form]]:
    """Yields all classes with a JSON form."""
    home = Path(opshift.__path__[0])
    for path in sorted(home.rglob("*.py")):
        if re.search(r"^    (KIND|PART) = ", path.read_text("utf-8"), re.MULTILINE):
            place = path.relative_to(home.parent).with_suffix("")
            importlib.import_module(".".join(place.parts).removesuffix(".__init__"))
    waiting = [Form]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if getattr(sys.modules[cls.__module__], cls.__name__) is cls:  # not the class without slots
            yield cls


def _outcome(kind: str, classes: list[type[Form]]) -> Schema:
    """Returns the schema of a kind; a field that one of its classes lacks is optional."""
    objects = [_object(cls) for cls in classes]
    properties = {
        "schema_version": VERSION,
        "kind": {"const": kind, "description": "The kind of outcome."},
    }
    for schema in objects:
        properties |= schema["properties"]
    if classes[0].MODEL:
        properties.setdefault("model", MODEL)
    required = [n for n in properties if all(n in schema["required"] for schema in objects)]
    title = next(
        title_match[1] for cls in classes if (title_match := TITLE.search(cls.__doc__ or ""))
    )
    return {
        **objects[0], "properties": properties,
        "required": ["schema_version", "kind", *required], "title": title,
    }  # fmt: skip


def _object(cls: type) -> Schema:
    """Returns the schema of a class."""
    properties: Schema = {}
    optional = {*getattr(cls, "OPTIONAL", ())}
    says = _descriptions(cls)
    for name, is_merged, may_be_left_out in members(cls):
        hint = _hint(cls, name)
        if is_merged:
            merged = _merged(hint)
            properties |= merged["properties"]
            optional |= merged["properties"].keys() - merged["required"]
            continue
        if may_be_left_out:  # the object lacks the field if it is null
            optional.add(name)
            hint = next(iter(typing.get_args(hint)), hint)
        described = says.get(name) or _first(getattr(cls, name).__doc__)
        properties[name] = _of(hint) | {"description": described}
    return {
        "type": "object", "description": _first(cls.__doc__), "properties": properties,
        "required": [name for name in properties if name not in optional],
    }  # fmt: skip


def _hint(cls: type, name: str) -> Any:
    """Returns the type of a field or a property; other hints may name what only mypy imports."""
    base = next(
        base_class
        for base_class in cls.__mro__
        if name in (vars(base_class) | base_class.__annotations__)
    )
    hint = vars(base).get(name)
    text = hint.fget.__annotations__["return"] if isinstance(hint, property) else None
    return eval(text or base.__annotations__[name], vars(sys.modules[base.__module__]))


def _merged(hint: Any) -> Schema:
    """Returns the schema of a field whose own fields belong to the object around it."""
    if isinstance(hint, type):
        return _object(hint)
    columns = targets.described().values()
    assert Cell in typing.get_args(hint)
    fields = {
        column.name: _of(OF_CELL[column.kind]) | {"description": column.says} for column in columns
    }
    return {
        "properties": fields,
        "required": [column.name for column in columns if not column.later],
    }


def _descriptions(cls: type) -> dict[str, str]:
    """Returns the sentence about each field: below it, or in the section "Attributes"."""
    descriptions: dict[str, str] = {}
    _, _, section = inspect.cleandoc(cls.__doc__ or "").partition("Attributes\n----------\n")
    for names, text in re.findall(r"^(\w[\w, ]*) : .*\n((?:    .*\n?)+)", section, re.MULTILINE):
        descriptions |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    for base in cls.__mro__[-2::-1]:
        if dataclasses.is_dataclass(base):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            body = getattr(tree, "body", ())
            for field, text in itertools.pairwise(body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    descriptions[ast.unparse(field.target)] = _first(ast.literal_eval(text.value))
    return descriptions


def _first(text: str | None) -> str:
    """Returns the first paragraph of a docstring as one line."""
    return " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())


def _of(hint: Any) -> Schema:
    """Returns the schema of the values of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        values = hint.__metadata__
        part = next((value for value in values if isinstance(value, Part)), None)
        return {"$ref": f"#/$defs/{part.name}"} if part else _values(values)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (argument for argument in arguments if argument is not types.NoneType)
        schema = _of(inner)
        if "$ref" in schema:
            return {"anyOf": [schema, {"type": "null"}]}
        return {**schema, "type": [schema["type"], "null"]}
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    cls = origin or hint
    if name := getattr(cls, "PART", "") or getattr(cls, "KIND", ""):
        return {"$ref": f"#/$defs/{name}"}
    if issubclass(cls, enum.Enum):
        return {"type": "string"} if cls in OPEN else {"enum": [plain(member) for member in cls]}
    if getattr(cls, "AS_TEXT", False):
        return {"type": "string"}
    if issubclass(cls, collections.abc.Mapping):
        values = {} if arguments[1] is Any else {"additionalProperties": _of(arguments[1])}
        return {"type": "object", **values}
    if issubclass(cls, collections.abc.Collection):
        return _list(arguments)
    return _object(cls)


def _list(arguments: tuple[Any, ...]) -> Schema:
    schema: Schema = {"type": "array", "items": _of(arguments[0])}
    if len(arguments) > 1 and arguments[1] is not ...:
        schema |= {"minItems": len(arguments), "maxItems": len(arguments)}
    return schema


def _values(values: Sequence[Any]) -> Schema:
    kinds = {PLAIN[type(value)] for value in values}
    return {"type": ["boolean", "null"]} if kinds == {"boolean", "null"} else {"enum": [*values]}

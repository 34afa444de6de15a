# SPDX-License-Identifier: Apache-2.0
"""The JSON form of outcomes, which `opshift schema` describes."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

from opshift.records import dataclass

SCHEMA_VERSION = 1
EMPTY = (None, "")


class Form:
    """A data class whose fields and properties are the fields of a JSON object.

    A sentence under a field, in the docstring of a property, or in the section "Attributes" of the
    class describes the field in the schema.
    """

    __slots__ = ()

    KIND: ClassVar[str] = ""  # the kind of an object that a command prints
    PART: ClassVar[str] = ""  # the name of an object that several others contain
    ALSO: ClassVar[tuple[str, ...]] = ()  # properties that are fields of the object
    HIDDEN: ClassVar[tuple[str, ...]] = ()  # fields of the class that the object lacks
    MERGED: ClassVar[tuple[str, ...]] = ()  # fields whose own fields are fields of the object
    LEFT_OUT: ClassVar[tuple[str, ...]] = ()  # fields that the object lacks if they are empty
    MODEL: ClassVar[bool] = True  # whether a command with several models adds the name of each
    OPTIONAL: ClassVar[tuple[str, ...]] = ()  # fields that objects of older releases lack

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON form that `opshift schema` describes."""
        found: dict[str, Any] = {}
        if self.KIND:
            found = {"schema_version": SCHEMA_VERSION, "kind": self.KIND}
        return found | _fields(self)

    def to_json(self) -> str:
        """Returns the JSON form as text."""
        import json

        return json.dumps(self.as_dict(), indent=2, sort_keys=True)


def members(cls: type) -> Iterator[tuple[str, bool, bool]]:
    """Yields each field of a JSON object: its name, whether it is merged, and may be left out."""
    hidden, merged, left_out = (getattr(cls, name, ()) for name in ("HIDDEN", "MERGED", "LEFT_OUT"))
    names = (field.name for field in dataclasses.fields(cls))
    for name in (*names, *getattr(cls, "ALSO", ())):
        if name not in hidden and not name.startswith("_"):
            yield name, name in merged, name in left_out


def _fields(record: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, is_merged, may_be_left_out in members(type(record)):
        value = getattr(record, name)
        if is_merged:
            fields |= plain(value)
        elif not (may_be_left_out and value in EMPTY):
            fields[name] = plain(value)
    return fields


def parsed(text: str | bytes) -> Any:
    """Parses JSON that another program may have written; each fault is a JSONDecodeError."""
    import json

    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:  # nested deeply, or a number of many digits
        raise json.JSONDecodeError(str(error), "", 0) from None


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: objects as dictionaries, and enumerations by their names."""
    if isinstance(value, Form):
        return value.as_dict()
    if getattr(type(value), "AS_TEXT", False):
        return str(value)
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value, str) else value.name
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return list(map(plain, value))
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value))
    return value


@dataclass(frozen=True)
class Part:
    """The name and the description of a type that many objects of the schema share."""

    name: str
    says: str


Versions: TypeAlias = Annotated[
    Mapping[str, int],
    Part(
        "imports",
        "Versions by domain. The empty text stands for the domain ai.onnx, and IR for the IR"
        " version.",
    ),
]

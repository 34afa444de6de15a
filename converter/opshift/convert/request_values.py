# SPDX-License-Identifier: Apache-2.0
"""Reads the numbers of a caller, and the options whose values are mappings."""

from __future__ import annotations

import fnmatch
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from opshift.errors import BadTarget
from opshift.opsets.elements import T
from opshift.opsets.type_pairs import BY_NAMES, name_of_type

LARGEST_SIZE = T.INT64.element.limits[1]  # that a model can contain


def python_numbers(versions: Any) -> Any:
    """Returns whole numbers of other libraries, such as numpy, as numbers of Python."""
    if isinstance(versions, Mapping):
        return {domain: python_numbers(version) for domain, version in versions.items()}
    is_whole = isinstance(versions, numbers.Integral) and not isinstance(versions, bool)
    return int(versions) if is_whole else versions


def shapes_of(shape: object) -> dict[str, tuple[int, ...]] | None:
    """Returns the shapes of the option `shape` by input, or None if the option is empty."""
    if not shape:
        return None
    if not isinstance(shape, Mapping):
        raise BadTarget(f"shape is {shape!r}; give a mapping such as {{'image': (1, 3, 224, 224)}}")
    shapes: dict[str, tuple[int, ...]] = {}
    for name, dims in shape.items():
        if not isinstance(dims, Sequence) or isinstance(dims, str) or not all(map(_is_size, dims)):
            raise BadTarget(
                f"the shape of {name!r} is {dims!r}; give a list of whole numbers from 0 to"
                f" {LARGEST_SIZE}"
            )
        shapes[str(name)] = tuple(map(int, dims))
    return dict(sorted(shapes.items()))


def sizes_of(dim: object) -> dict[str, int] | None:
    """Returns the sizes of the option `dim` by symbol, or None if the option is empty."""
    if not dim:
        return None
    if not isinstance(dim, Mapping):
        raise BadTarget(f"dim is {dim!r}; give a mapping such as {{'batch': 1}}")
    for name, size in dim.items():
        if not _is_size(size):
            raise BadTarget(
                f"the size of dimension {name!r} is {size!r}; give a whole number from 0 to"
                f" {LARGEST_SIZE}"
            )
    return {str(name): int(dim[name]) for name in sorted(dim)}


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_SIZE


def types_of(types: object) -> dict[str, str] | None:
    """Returns the changes of the option `types`, or None if the option is empty."""
    if not types:
        return None
    if not isinstance(types, Mapping):
        raise BadTarget(f"types is {types!r}; give a mapping such as {{'bfloat16': 'float'}}")
    new_types: dict[str, str] = {}
    for start, to in types.items():
        pattern, name = name_of_type(str(start)), name_of_type(str(to))
        same = [
            present
            for present, new in BY_NAMES
            if fnmatch.fnmatchcase(present, pattern) and new == name
        ]
        if not same:
            pairs = [pair for pair in BY_NAMES if pair[0] == pattern] or BY_NAMES
            offered = ", ".join(f"{present}={new}" for present, new in pairs)
            raise BadTarget(f"types cannot change {start!r} to {to!r}; possible changes: {offered}")
        new_types.update(dict.fromkeys(same, name))
    return dict(sorted(new_types.items()))

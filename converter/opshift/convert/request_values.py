# SPDX-License-Identifier: Apache-2.0
"""Reads the values of a caller: numbers of any library, flags, paths, and options as mappings."""

from __future__ import annotations

import fnmatch
import math
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

from opshift.errors import BadTarget
from opshift.opsets.elements import T
from opshift.opsets.type_pairs import BY_NAMES, name_of_type

LARGEST_SIZE = T.INT64.element.limits[1]  # that a model can contain


def python_numbers(versions: Any) -> Any:
    """Returns whole numbers of other libraries, such as numpy, as numbers of Python."""
    if isinstance(versions, Mapping):
        return {domain: python_numbers(version) for domain, version in versions.items()}
    number = _index(versions)
    return versions if number is None else number


def whole(name: str, value: object, low: int = 0, high: int = LARGEST_SIZE) -> int:
    """Returns a whole number of any library as a number of Python, or raises BadTarget."""
    number = _index(value)
    if number is None or not low <= number <= high:
        raise BadTarget(f"{name} is {value!r}; give a whole number from {low} to {high}")
    return number


def real(name: str, value: Any, *, positive: bool = False) -> float:
    """Returns a finite number of any library that is not negative, or raises BadTarget."""
    real_number = isinstance(value, numbers.Real) or not isinstance(value, numbers.Complex)
    try:
        number = float(value) if real_number and not _is_text_or_flag(value) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (positive and not number):
        least = "a finite number above 0" if positive else "a finite number from 0"
        raise BadTarget(f"{name} is {value!r}; give {least}")
    return number


def flag(name: str, value: object) -> bool:
    """Returns a truth value of Python or numpy, or raises BadTarget."""
    if not _is_flag(value):
        raise BadTarget(f"{name} is {value!r}; give True or False")
    return bool(value)


def path(name: str, value: object) -> str:
    """Returns a path as a text, or raises TypeError."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {type(value).__name__}")
    return os.fsdecode(value)


def _index(value: Any) -> int | None:
    """Returns a whole number, which may be a scalar of numpy or of a tensor library, or None."""
    try:
        return None if _is_flag(value) else int(operator.index(value))
    except (TypeError, ValueError):
        return None


def _is_text_or_flag(value: object) -> bool:
    return isinstance(value, (str, bytes)) or _is_flag(value)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool")


def shapes_of(shape: object) -> dict[str, tuple[int, ...]] | None:
    """Returns the shapes of the option `shape` by input, or None if the option is empty."""
    if not _is_given(shape):
        return None
    if not isinstance(shape, Mapping):
        raise BadTarget(f"shape is {shape!r}; give a mapping such as {{'image': (1, 3, 224, 224)}}")
    shapes: dict[str, tuple[int, ...]] = {}
    for name, dims in shape.items():
        read = [_index(size) for size in dims] if _is_list(dims) else [None]
        sizes = [size for size in read if size is not None and 0 <= size <= LARGEST_SIZE]
        if len(sizes) < len(read):
            raise BadTarget(
                f"the shape of {name!r} is {dims!r}; give a list of whole numbers from 0 to"
                f" {LARGEST_SIZE}"
            )
        shapes[str(name)] = tuple(sizes)
    return dict(sorted(shapes.items()))


def _is_given(option: object) -> bool:
    """Returns whether an option is neither None nor empty."""
    return option is not None and not (isinstance(option, (Mapping, list, tuple)) and not option)


def _is_list(value: object) -> bool:
    """Returns whether a value is a list of numbers, which may be an array of numpy."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return False
    return bool(getattr(value, "ndim", 1))


def sizes_of(dim: object) -> dict[str, int] | None:
    """Returns the sizes of the option `dim` by symbol, or None if the option is empty."""
    if not _is_given(dim):
        return None
    if not isinstance(dim, Mapping):
        raise BadTarget(f"dim is {dim!r}; give a mapping such as {{'batch': 1}}")
    sizes = {str(name): whole(f"the size of dimension {name!r}", dim[name]) for name in dim}
    return dict(sorted(sizes.items()))


def types_of(types: object) -> dict[str, str] | None:
    """Returns the changes of the option `types`, or None if the option is empty."""
    if not _is_given(types):
        return None
    if not isinstance(types, Mapping):
        raise BadTarget(f"types is {types!r}; give a mapping such as {{'bfloat16': 'float'}}")
    new_types: dict[str, str] = {}
    for start, to in types.items():
        pattern, name = name_of_type(_text(start)), name_of_type(_text(to))
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


def _text(value: object) -> str:
    """Returns a text; the str of a member of an Enum would be the name of the member."""
    return str.__str__(value) if isinstance(value, str) else str(value)

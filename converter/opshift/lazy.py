# SPDX-License-Identifier: Apache-2.0
"""Names of a package, and whole modules, that are imported when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        self.__dict__.update(vars(module))
        return getattr(module, name)


def deferred(name: str) -> Any:
    """A module that is imported when something in it is first used."""
    return _Deferred(name)


def lazy(
    package: str, homes: Mapping[str, tuple[str, ...]], packages: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` for a package whose names are defined in `homes`.

    A name of `packages` is a package inside, which can be used without an import of its own.
    A command that only prints its help must not wait for onnx.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def getattribute(name: str) -> Any:
        if name in packages:
            return importlib.import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)

    def names() -> list[str]:
        return sorted([*home_of, *packages])

    return getattribute, names

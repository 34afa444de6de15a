# SPDX-License-Identifier: Apache-2.0
"""Names of a package, and whole modules, that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
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


class _CallablePackage(ModuleType):
    """A package that can be called like the function of its name, and shows its documentation."""

    _function: tuple[str, str]

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _function_of(self)(*args, **options)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The docstring of the function, where a user looks for it."""
        doc: str | None = _function_of(self).__doc__
        return doc

    @property
    def __signature__(self) -> Any:
        import inspect

        return inspect.signature(_function_of(self))


def _function_of(package: _CallablePackage) -> Any:
    home, name = package._function
    return getattr(importlib.import_module(f"{package.__name__}.{home}"), name)


def make_callable(package: str, home: str, function: str) -> None:
    """Lets a package be called like a function in one of its modules.

    A user expects the function under the name of the package. Python binds a package to its parent
    as soon as any module in it is imported, so that a function of this name would vanish.
    """
    module = sys.modules[package]
    module.__class__ = _CallablePackage
    module.__dict__["_function"] = home, function


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

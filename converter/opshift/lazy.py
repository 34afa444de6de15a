# SPDX-License-Identifier: Apache-2.0
"""Imports the names of a package, and whole modules, only on their first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        self.__dict__.update(vars(module))
        return getattr(module, name)


def deferred(name: str) -> Any:
    """Returns a module that is imported on the first use of one of its names."""
    return _Deferred(name)


if TYPE_CHECKING:
    import numpy as numpy
else:
    numpy = deferred("numpy")


class _CallablePackage(ModuleType):
    """A package that can be called like its function and has the docstring of that function."""

    _function: tuple[str, str]

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _function_of(self)(*args, **options)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """Returns the docstring of the function, because users call `help` on the package."""
        doc: str | None = _function_of(self).__doc__
        return doc

    @property
    def __signature__(self) -> Any:
        import inspect

        return inspect.signature(_function_of(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the package by its name, as functions are, so that process pools can call it."""
        return importlib.import_module, (self.__name__,)


def _function_of(package: _CallablePackage) -> Any:
    home, name = package._function
    return getattr(importlib.import_module(f"{package.__name__}.{home}"), name)


def make_callable(package: str, home: str, function: str) -> None:
    """Makes a package callable: a call of it runs a function of one of its modules.

    Users call the function by the name of the package. Python binds the package to this name in its
    parent as soon as one of its modules is imported, which would replace a function of the same
    name.
    """
    module = sys.modules[package]
    module.__class__ = _CallablePackage
    module.__dict__["_function"] = home, function


def lazy(
    package: str, homes: Mapping[str, tuple[str, ...]], packages: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` for a package whose names the modules `homes` define.

    A name in `packages` is a subpackage that is imported on its first use. A command that only
    prints its help must not wait for the import of onnx.
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

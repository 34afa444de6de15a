# SPDX-License-Identifier: Apache-2.0
"""Loads the C library and the messages of onnx without the package around them.

The package imports numpy and other modules that a conversion does not need, which would take most
of the time of a short command. The modules are registered under their usual names, so that an
import of onnx elsewhere, before or after, gets the same message classes and the same C library.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = "onnx"
LIBRARY, MESSAGES = "onnx_cpp2py_export", "onnx_ml_pb2"


def load(part: str) -> None:
    """Imports LIBRARY or MESSAGES without the package onnx if this is safe, else the package.

    Raises an ImportError if a package that onnx needs is incompatible.
    """
    name = f"{PACKAGE}.{part}"
    if name in sys.modules:
        return
    try:
        _load(name)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # protobuf raises errors of its own for incompatible messages
        raise ImportError(
            f"the installed onnx cannot be loaded, because it needs another version of a package:"
            f" {error}; install compatible versions of onnx and protobuf:"
            " pip install --upgrade onnx protobuf",
            name=name,
        ) from error


def _load(name: str) -> None:
    """Imports one module of onnx, or the whole package if another thread may import it too."""
    spec = None if _is_shared() else _spec(name)
    if spec is None or spec.loader is None:
        importlib.import_module(PACKAGE)
        return
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _is_shared() -> bool:
    """Returns whether the package is already imported, or another thread might import it."""
    threading = sys.modules.get("threading")
    return PACKAGE in sys.modules or (threading is not None and threading.active_count() > 1)


def _spec(name: str) -> ModuleSpec | None:
    package = _package()
    places = package.submodule_search_locations if package is not None else None
    return importlib.machinery.PathFinder.find_spec(name, places) if places else None


@functools.cache
def _package() -> ModuleSpec | None:
    """Finds the package, and makes later imports of onnx load it from there."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not hasattr(spec.loader, "exec_module"):
        return None
    sys.meta_path.insert(0, _Binding(spec))
    return spec


class _Binding:
    """Lets a later import of onnx find the package, and adds the already loaded modules to it."""

    def __init__(self, package: ModuleSpec) -> None:
        assert package.loader is not None
        self.package = package
        self.run = package.loader.exec_module
        package.loader.exec_module = self.bind  # type: ignore[method-assign]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the specification of the package; None for every other name."""
        return self.package if name == PACKAGE else None

    def bind(self, module: ModuleType) -> None:
        """Runs the package with its already loaded modules as attributes."""
        for part in (LIBRARY, MESSAGES):
            if (loaded := sys.modules.get(f"{PACKAGE}.{part}")) is not None:
                setattr(module, part, loaded)
        self.run(module)

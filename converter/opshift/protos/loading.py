# SPDX-License-Identifier: Apache-2.0
"""The C library and the messages of onnx, loaded without the package around them.

The package imports numpy and much that a conversion does not need: most of the time of a short
command. The modules are put where the package has them, so an import of onnx by anybody, before or
after, finds the same message classes and the same C library.
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
    """Makes LIBRARY or MESSAGES importable without the package, or with it if that is safer.

    Raises an ImportError if a package that onnx needs does not fit it.
    """
    name = f"{PACKAGE}.{part}"
    if name in sys.modules:
        return
    try:
        _load(name)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # protobuf has errors of its own for messages that it cannot read
        raise ImportError(
            f"the installed onnx cannot be loaded, because a package that it needs does not fit:"
            f" {error}; install an onnx and a protobuf that fit:"
            " pip install --upgrade onnx protobuf",
            name=name,
        ) from error


def _load(name: str) -> None:
    """Imports a part of the package; all of it if other code may import it meanwhile."""
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
    """Whether the package is imported already, or another thread might import it meanwhile."""
    threading = sys.modules.get("threading")
    return PACKAGE in sys.modules or (threading is not None and threading.active_count() > 1)


def _spec(name: str) -> ModuleSpec | None:
    package = _package()
    places = package.submodule_search_locations if package is not None else None
    return importlib.machinery.PathFinder.find_spec(name, places) if places else None


@functools.cache
def _package() -> ModuleSpec | None:
    """Where the package is; whoever imports it from now on gets it from there."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not hasattr(found.loader, "exec_module"):
        return None
    sys.meta_path.insert(0, _Binding(found))
    return found


class _Binding:
    """Finds the package, and binds its loaded modules to it, as its own imports would do."""

    def __init__(self, package: ModuleSpec) -> None:
        assert package.loader is not None
        self.package = package
        self.run = package.loader.exec_module
        package.loader.exec_module = self.bind  # type: ignore[method-assign]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where the package is; nothing for every other name."""
        return self.package if name == PACKAGE else None

    def bind(self, module: ModuleType) -> None:
        """Runs the package."""
        for part in (LIBRARY, MESSAGES):
            if (loaded := sys.modules.get(f"{PACKAGE}.{part}")) is not None:
                setattr(module, part, loaded)
        self.run(module)

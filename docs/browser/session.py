# SPDX-License-Identifier: Apache-2.0
"""Runs commands of opshift on the files of the page; the page shows what a terminal would show.

numpy has no WebAssembly wheel outside of Pyodide's own distribution. Without numpy, the adapters
are still imported, because most of them name it only in their examples; what computes with an
array then ends in a sentence.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NoReturn

from opshift.cli.entry import main
from opshift.errors import MissingExtra

MISSING = "this page was built without numpy, which this needs; use the command on your machine"
ADAPTERS = "opshift_adapters"


class Placeholder:
    """The placeholder that an adapter gets from numpy while it is imported."""

    importing = 0  # adapters that are being imported

    def __getattr__(self, name: str) -> Placeholder:
        if not Placeholder.importing or name.startswith("__"):
            self._refuse()
        return Placeholder()

    def __call__(self, *args: Any, **options: Any) -> Placeholder:
        return self.__getattr__("called")

    def _computed(self, *args: Any) -> Placeholder:
        return self.__getattr__("computed")

    def _refuse(self, *args: Any) -> NoReturn:
        raise MissingExtra(MISSING)

    __neg__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _computed
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _computed
    __getitem__ = __lt__ = __le__ = __gt__ = __ge__ = _computed
    __bool__ = __iter__ = __len__ = __int__ = __float__ = __index__ = _refuse


class StandIn(ModuleType):
    """The module numpy of an adapter that is being imported."""

    def __getattr__(self, name: str) -> Any:
        return Placeholder().__getattr__(name)


class WithoutNumpy:
    """Finds a stand-in for numpy while adapters are imported, and refuses it at other times."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of an adapter that is imported with the stand-in; None for other modules."""
        if name.partition(".")[0] in ("numpy", "ml_dtypes"):
            raise MissingExtra(MISSING)
        if name.partition(".")[0] != ADAPTERS or path is None:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def guarded(module: ModuleType) -> None:
                with stand_in():
                    run(module)

            spec.loader.exec_module = guarded  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """Lets `import numpy` succeed for the module that is imported meanwhile."""
    Placeholder.importing += 1
    sys.modules.setdefault("numpy", StandIn("numpy"))
    try:
        yield
    finally:
        Placeholder.importing -= 1
        if not Placeholder.importing:
            del sys.modules["numpy"]


def start(folder: str) -> bool:
    """Prepares the folder of the models; returns whether arrays can be computed with."""
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    os.environ["NO_COLOR"] = "1"
    complete = importlib.util.find_spec("numpy") is not None
    if not complete:
        sys.meta_path.insert(0, WithoutNumpy())  # type: ignore[arg-type]
    return complete


def run(words: Sequence[str]) -> str:
    """The exit code and the text of a command, as JSON."""
    text = io.StringIO()
    before, sys.argv = sys.argv, ["opshift", *words]
    try:
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code = main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    return json.dumps({"code": int(code or 0), "text": text.getvalue()})

# SPDX-License-Identifier: Apache-2.0
"""The conversion of one model. The package itself can be called: `opshift.convert(model, 13)`.

`opshift.convert` is the name that a user expects for the function, and the name of this package.
Python binds a package to its parent as soon as any module in it is imported, so that a function of
this name would vanish. Therefore the package object has a class with `__call__`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A package that can be called like the function of its name."""

    def __call__(self, model: Any, target: Any = None, **wishes: Any) -> Any:
        """Convert a model; `opshift.convert.__doc__` explains every option."""
        from opshift.convert.api import convert_with_report

        return convert_with_report(model, target, **wishes)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The docstring of the function, where a user looks for it."""
        from opshift.convert.api import convert_with_report

        return convert_with_report.__doc__

    @property
    def __signature__(self) -> Any:
        import inspect

        from opshift.convert.api import convert_with_report

        return inspect.signature(convert_with_report)


sys.modules[__name__].__class__ = _Callable

# SPDX-License-Identifier: Apache-2.0
"""Registers kernels: each is a function for some versions of an operator."""

from collections.abc import Callable
from typing import Any

from opshift.records import dataclass

NEWEST = 1000


@dataclass(frozen=True, slots=True)
class Kernel:
    """Our own implementation of an operator for the versions from `since` to `until`."""

    since: int
    until: int
    run: Callable[..., Any]
    scoped: bool
    """Whether `run` takes the interpreter's frame first, for subgraphs and random numbers."""

    @property
    def why(self) -> str:
        """The reason for the kernel, which is the first line of its docstring."""
        return (self.run.__doc__ or "").partition("\n")[0]


KERNELS: dict[tuple[str, str], list[Kernel]] = {}


def kernel(
    ops: str, *, since: int = 1, until: int = NEWEST, domain: str = "", scoped: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers `run(call, *inputs)` for `ops`; if `scoped`, `run(frame, call, *inputs)`."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        for op in ops.split():
            rows = KERNELS.setdefault((domain, op), [])
            if any(since <= row.until and row.since <= until for row in rows):
                raise ValueError(f"{op} has two kernels for one version")
            rows.append(Kernel(since, until, run, scoped))
        return run

    return register


def find(domain: str, op: str, since: int) -> Kernel | None:
    """Returns the kernel for a version of an operator, or None."""
    for row in KERNELS.get((domain, op), ()):
        if row.since <= since <= row.until:
            return row
    return None

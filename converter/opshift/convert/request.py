"""What a caller wants of a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from opshift.errors import BadTarget

if TYPE_CHECKING:
    from opshift.opsets.targets import Wanted

Target: TypeAlias = "int | Mapping[str, int]"


# How much is checked: "full" adds onnx's two calls for whole models to what is checked anyway.
CHECKS: dict[bool | str, bool | str] = {
    True: True,
    False: False,
    "default": True,
    "full": "full",
    "none": False,
}


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller wants of a conversion."""

    target: Target | Wanted
    ir_version: str | int = "auto"
    allow_approximate: bool = False
    check: bool | str = True  # CHECKS; "default" is True and "none" False afterwards
    drop_metadata: bool = False
    drop_training: bool = False
    prune_imports: bool | None = None
    unknown_domains: str = "keep"
    bump_model_version: bool = False
    minimal: bool = False
    strict_ir: bool = False  # content that computes nothing holds up an IR version, too
    node_budget: int | None = None  # nodes that steps may write before a rehearsal gives up

    def __post_init__(self) -> None:
        if self.check not in CHECKS:
            raise BadTarget(f"check is 'default', 'full' or 'none', not {self.check!r}")
        object.__setattr__(self, "check", CHECKS[self.check])

    @property
    def only_ir(self) -> bool:
        """Whether nothing is asked for but another IR version."""
        asked = replace(
            self, check=True, allow_approximate=False, drop_metadata=False, drop_training=False,
            strict_ir=False,
            prune_imports=self.prune_imports or None,
        )  # fmt: skip
        return isinstance(self.ir_version, int) and asked == Options({}, self.ir_version)

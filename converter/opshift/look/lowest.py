# SPDX-License-Identifier: Apache-2.0
"""Finds the versions that a model can have, without a rewrite and by conversion."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.convert.cheapest_strategy import opener_of
from opshift.convert.ir import needs
from opshift.convert.legal.opening import known_versions
from opshift.convert.request import (
    ConversionOptions,
    Request,
    request_or_default,
    require_effects,
    takes_options,
)
from opshift.convert.target_versions import spans
from opshift.errors import RefusedNode, blocking_nodes
from opshift.json_form import Form
from opshift.look.plan import OUTGROWN
from opshift.look.rehearse import Rehearsals, newest
from opshift.model.bytes import documents
from opshift.opsets import schemas
from opshift.protos import ModelProto, isolation
from opshift.records import dataclass
from opshift.text import Line, Role, Shown, table

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, slots=True)
class Reach(Form):
    """The versions of a domain that a model can have, and the nodes that block the next one."""

    PART = "reach"

    domain: str
    """The domain."""
    version: int
    """The version that the model imports."""
    same_from: int
    """The lowest version at which no operator of the model changes."""
    same_to: int
    """The highest version at which no operator of the model changes."""
    lowest: int
    """The lowest version that a conversion reaches."""
    highest: int
    """The highest version that a conversion reaches."""
    below: tuple[RefusedNode, ...]
    """The nodes that block a lower version."""
    above: tuple[RefusedNode, ...]
    """The nodes that block a higher version."""
    outgrown: bool = False
    """Whether not all versions were tried, because the model became too large."""


@dataclass(frozen=True, slots=True, repr=False)
class Lowest(Shown):
    """The versions to which a model can be converted, and the content that needs an IR version.

    Printed by `opshift lowest`.

    Attributes
    ----------
    domains : tuple of Reach
        For each domain, the `lowest` and `highest` version that the model can have, and the nodes
        that block lower and higher versions (`below`, `above`). `found[""]` is for ai.onnx.
    ir_version : int
        The IR version of the model.
    ir_needs : tuple of Need
        The content of the model that requires an IR version, with this version.

    Examples
    --------
    >>> import opshift
    >>> found = opshift.lowest_versions("model.onnx")
    >>> found[""].lowest, found.lowest_ir
    (5, 4)
    """

    KIND = "lowest"
    ALSO = ("lowest_ir",)

    domains: tuple[Reach, ...]
    ir_version: int = 3
    ir_needs: tuple[needs.Need, ...] = ()

    @property
    def lowest_ir(self) -> int:
        """The smallest IR version that supports all content of the model."""
        return max((need.ir for need in self.ir_needs), default=3)

    @property
    def minimal(self) -> dict[str, int]:
        """The lowest version of each domain at which no operator of the model changes."""
        return {reach.domain: reach.same_from for reach in self.domains}

    def __getitem__(self, domain: str) -> Reach:
        return next(reach for reach in self.domains if reach.domain == schemas.normal(domain))

    def lines(self) -> Iterator[Line]:
        """Yields the reachable versions, a table of domains, then the blocking nodes."""
        far = ", ".join(
            f"{reach.domain or 'opset'} {reach.lowest} to {reach.highest}" for reach in self.domains
        )
        yield Line(f"Reachable: {far or 'only the present versions'}.", Role.GOOD)
        rows = (
            (reach.domain or "ai.onnx", str(reach.version), f"{reach.same_from} to {reach.same_to}")
            for reach in self.domains
        )
        header = ("domain", "now", "without a rewrite")
        yield from table(header, rows, indent="  ")
        yield Line(f"  IR version {self.ir_version}; the content needs {self.lowest_ir} or higher.")
        for need in self.ir_needs:
            yield Line(f"    IR {need.ir}: {need.reason}")
        for reach in self.domains:
            yield from blocking_nodes(reach.below, f"  below {reach.lowest}: ")
            yield from blocking_nodes(reach.above, f"  above {reach.highest}: ")
            if reach.outgrown:
                yield Line(f"  {OUTGROWN.format(reach.domain or 'ai.onnx')}")


@takes_options
def lowest_versions(
    model: ModelProto | str | os.PathLike[str],
    request: Request | None = None,
    *,
    isolate: bool | None = None,
    **options: Unpack[ConversionOptions],
) -> Lowest:
    """Find the lowest and the highest versions that a model can have. Nothing is changed.

    Parameters
    ----------
    model : ModelProto or path
        The model.
    request : Request, optional
        The options of a conversion as one value. Its target is ignored.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, because a model may end or hang it.
        By default the environment variable OPSHIFT_ISOLATE decides.
    **options
        The options of a conversion.

    Returns
    -------
    Lowest
        For each domain, the versions that the model can have without a rewrite, and by conversion.

    Raises
    ------
    InvalidModel, BadTarget, TypeError, OSError
        As `opshift.convert_version`.

    Examples
    --------
    >>> import opshift
    >>> opshift.lowest_versions("model.onnx")[""].same_from
    12
    """
    asked = require_effects(Request.of(request_or_default(request), **options))
    with documents.beside(model), isolation.isolated(isolate):
        return _lowest(model, dataclasses.replace(asked, target={}), registry.default())


def _lowest(
    model: ModelProto | str | os.PathLike[str], asked: Request, adapters: Registry
) -> Lowest:
    runs = Rehearsals(opener_of(model), asked, adapters)
    opened = runs.opened()
    present = dict(opened.document.imports)
    return Lowest(
        tuple(
            _reach(runs, domain, present, span)
            for domain, span in sorted(spans(opened.document).items())
            if domain in present
        ),
        opened.skeleton.ir_version,
        tuple(
            needs.Need(feature.ir, feature.says)
            for feature in needs.features_above(opened.facts, 3)
            if feature.computes
        ),
    )


def _reach(runs: Rehearsals, domain: str, present: dict[str, int], same: tuple[int, int]) -> Reach:
    known_versions(domain, [present[domain]])
    low = runs.furthest(domain, present, 1)
    high = runs.furthest(domain, present, newest(domain, present))
    outgrown = low.outgrown or high.outgrown
    return Reach(
        domain, present[domain], *same, low.version, high.version, low.refusals, high.refusals,
        outgrown,
    )  # fmt: skip

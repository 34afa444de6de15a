# SPDX-License-Identifier: Apache-2.0
"""Declares legal nodes that some releases of a runtime refuse or compute wrongly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from opshift.author.example import Draft, Example, drafted, listed, spread
from opshift.author.node import Node
from opshift.author.traits import DeclaredRules, Trait, answer_of
from opshift.opsets import target_names
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.author.surroundings import Surroundings
    from opshift.opsets.targets import RuntimeRelease

Key = tuple[str, str]  # (domain, operator)
NEWEST = 1 << 30  # a number above every opset
NO_TEXT = "{op} of this form fails or computes other numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misread(Trait):
    """Legal nodes of an operator that releases of a runtime refuse or compute wrongly."""

    table = "misread"
    runtime: str
    releases: str  # as for a runtime in `targets.toml`: "1.9..1.10" or "2022.1, 2023.0"
    says: str
    source: str
    date: str
    run: Callable[..., bool | None]
    since: int = 1  # the lowest opset in which nodes can have the form
    before: int = NEWEST
    neighbours: bool = False  # whether the form depends on the nodes around a node
    wider: str = ""  # inputs; if one has a wider type, the runtime reads the node correctly
    processors: str = ""  # the only processors on which the node is misread; empty for all
    examples: tuple[Example, ...] = ()

    def concerns(self, release: RuntimeRelease) -> bool:
        """Returns whether a release of a runtime misreads these nodes."""
        name, release_name = release.origin
        return name == self.runtime and target_names.fits(self.releases, release_name) is not None

    def is_uncertain(self, release: RuntimeRelease) -> bool:
        """Returns whether only some processors misread the nodes.

        The nodes were measured with the CPU provider, so they are uncertain for other providers.
        """
        return bool(self.processors or release.provider)

    def is_form(self, node: Node, version: int, around: Surroundings | None = None) -> bool | None:
        """Returns whether a node is misread, which may depend on the nodes around it.

        The answer is None if it depends on an unknown fact about the node.
        """
        if not self.since <= version < self.before or not node.fits:
            return False
        if not self.neighbours:
            return answer_of(self.run, node)
        return around is not None and answer_of(lambda node: self.run(node, around), node)

    def described(self, op: str) -> str:
        """Returns a description of the misread nodes and of the effect."""
        where = f" on {self.processors}" if self.processors else ""
        return self.says.replace("{op}", op) + where


def misread(
    ops: str,
    releases: str,
    says: str = "",
    *,
    source: str,
    since: int = 1,
    before: int = NEWEST,
    wider: str = "",
    processors: str = "",
    domain: str = "",
) -> Callable[[Callable[..., bool | None] | Draft], Misread]:
    """Declares legal nodes of operators that releases of a runtime misread.

    `releases` names the runtime and its releases: `"onnxruntime 1.6..1.16"`. The decorated function
    returns whether a node is misread, at the opsets from `since` to below `before`, or None if the
    answer depends on an unknown fact; the support is then "not known". If the function has a second
    parameter, it receives the `Surroundings` of the node. Its docstring, or the text `says`,
    describes the fault; `{op}` in it stands for the name of the operator. The parameter `wider`
    names inputs: the runtime reads the node correctly if such an input is cast to a wider element
    type. If only some `processors` misread the node, its support is "not known". If the support is
    "not known", a conversion writes an `@alternative` or a wider type. The text `source` begins
    with a date, after which it names the measured releases and nodes.
    """
    runtime, _, listed_releases = releases.partition(" ")
    names = listed(ops)
    date, _, source = source.partition(" ")

    def declare(below: Callable[..., bool | None] | Draft) -> Misread:
        draft = drafted(below)
        # Python -OO has no docstrings
        text = says or (inspect.getdoc(draft.run) or NO_TEXT).removesuffix(".")
        return Misread(
            ops=names, domain=domain, runtime=runtime, releases=listed_releases, says=text,
            source=source, date=date, run=draft.run, since=since, before=before,
            neighbours=len(inspect.signature(draft.run).parameters) > 1,
            wider=wider, processors=processors,
            examples=spread(draft.examples, names),
        )  # fmt: skip

    return declare


def misreadings(rules: DeclaredRules, release: RuntimeRelease, key: Key) -> Iterator[Misread]:
    """Yields the kinds of an operator's nodes that a release misreads on some or all processors."""
    yield from (
        misread for misread in rules.traits(Misread).get(key, ()) if misread.concerns(release)
    )


def all_misreadings(rules: DeclaredRules, release: RuntimeRelease) -> list[tuple[str, Misread]]:
    """Returns every kind of node that a release misreads, with its operator, in a fixed order.

    The order of the rules depends on which modules the process imported first.
    """
    kinds = [one for one in rules.each(Misread) if one.concerns(release)]
    return sorted(
        ((op, one) for one in kinds for op in one.ops),
        key=lambda pair: (pair[0], pair[1].since, pair[1].says, pair[1].source, pair[1].releases),
    )

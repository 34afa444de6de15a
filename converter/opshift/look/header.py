# SPDX-License-Identifier: Apache-2.0
"""Plans a conversion that changes only imports, without loading onnx."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from opshift.errors import BadTarget, InvalidModel
from opshift.model.bytes import foreign, wire
from opshift.model.bytes import outline_pb2 as outline
from opshift.model.bytes.outline import Content, skeleton
from opshift.model.bytes.source import Opened, is_text
from opshift.model.illegible import require_legible
from opshift.opsets import changelog
from opshift.opsets.identity import normal, require_one_version
from opshift.opsets.wanted import Wanted
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease

Key = tuple[str, str]  # (domain, op_type)


@dataclass(frozen=True, slots=True)
class HeaderOnly:
    """A conversion that changes only imports, and the operators that stay unchanged."""

    source: dict[str, int]
    target: dict[str, int]
    operators: tuple[tuple[Key, int], ...]

    @property
    def result(self) -> dict[str, int]:
        return {**self.source, **self.target}


@dataclass(frozen=True, slots=True)
class _Root:
    """The contents of the model or of a function, with those of its subgraphs."""

    imports: dict[str, int]
    operators: Counter[Key]  # the number of nodes of each operator
    sparse: bool  # whether a graph has a sparse initializer
    repeats: bool  # whether a domain is imported twice


def changes(file: Opened, target: int | Mapping[str, int] | Wanted) -> HeaderOnly | None:
    """Returns a conversion of only the imports of a file, or None if an operator changes."""
    if is_text(file.path):
        return None
    try:
        data = skeleton(file.view)
        require_legible(data)
        listing = outline.Listing.FromString(data)
        roots = list(roots_of(listing))
        if not roots[0].imports:
            return None  # a whole conversion adds the import that the IR version implies
        if any(root.repeats for root in roots):
            return None  # a whole conversion merges the imports
        goal = _goal(target, roots)
        if not _ir_fits(data, listing.ir_version, target, goal or {}):
            return None
    except (wire.Malformed, DecodeError, UnicodeDecodeError, BadTarget, InvalidModel):
        return None  # a whole conversion reports the fault
    if not goal or not all(_unchanged(root, goal) for root in roots):
        return None
    counts = sum((root.operators for root in roots), Counter[Key]())
    named = ((key, count) for key, count in counts.items() if key[0] in goal)
    return HeaderOnly(roots[0].imports, goal, tuple(sorted(named)))


def _goal(target: int | Mapping[str, int] | Wanted, roots: list[_Root]) -> dict[str, int] | None:
    """Returns the target versions, or None if the request may be refused."""
    imported = roots[0].imports
    if isinstance(target, Wanted):
        highest: dict[str, int] = {}
        for root in roots:
            for domain, version in root.imports.items():
                highest[domain] = max(version, highest.get(domain, 0))
        operators = {key for root in roots for key in root.operators}
        release, wished = target.release, target
        target = wished.goal(highest, operators)
        closer = release and (len(roots) > 1 or _looks_closer(release, operators))
        if closer or wished.visits(target, operators):
            return None
    elif not isinstance(target, Mapping):
        target = {"": target}
    versions = {normal(domain): version for domain, version in target.items()}
    for domain, version in versions.items():
        newest = changelog.latest(domain) if domain in imported else None
        if newest is None or type(version) is not int or not 1 <= version <= newest:
            return None
    return versions if len(versions) == len(target) else None


def _looks_closer(release: RuntimeRelease, operators: Collection[Key]) -> bool:
    """Returns whether the nodes must be read, because the runtime may not support an operator."""
    from opshift.author.misreadings import all_misreadings
    from opshift.author.registry import installed  # needed only if the target is a runtime

    named = any(release.may_lack(key) for key in operators)
    foreign = any(domain and domain not in release.imports for domain, _ in operators)
    return bool(release.remark or release.texts("types") or named or foreign) or any(
        (misread.domain, op) in operators for op, misread in all_misreadings(installed(), release)
    )


def _ir_fits(
    data: bytes, current: int, target: int | Mapping[str, int] | Wanted, goal: Mapping[str, int]
) -> bool:
    """Returns whether the runtime's IR version supports all content that affects results."""
    if not isinstance(target, Wanted):
        return True
    goal_ir = target.ir("auto", current, goal, raised=bool(target.at_least or target.exact))
    if not isinstance(goal_ir, int) or goal_ir >= current:
        return True
    from opshift.convert.ir import needs

    content = Content(data)
    features = needs.of_content(
        content, content.types(), bare=content.bare_initializers, above=goal_ir
    )
    return not any(feature.computes for feature in features)


def _unchanged(root: _Root, goal: Mapping[str, int]) -> bool:
    """Returns whether no operator changes between the present and the target versions."""
    database = changelog.default()
    for domain, op in root.operators:
        version = root.imports.get(domain)
        if version is None:
            return False
        if domain not in goal:
            continue
        now = database.meaning(domain, op, version)
        if now is None or now.deprecated or now != database.meaning(domain, op, goal[domain]):
            return False
    return True


def roots_of(listing: outline.Listing) -> Iterator[_Root]:
    """Yields the contents of the model, then of each function."""
    if not listing.HasField("graph"):
        raise InvalidModel(foreign.NO_GRAPH)
    functions = {
        (normal(function.domain.decode()), function.name.decode(), function.overload.decode())
        for function in listing.functions
    }
    graphs = [listing.graph]
    for training in listing.training_info:
        graphs += [training.initialization, training.algorithm]
    yield _root("the model", listing.opset_import, graphs, functions)
    for function in listing.functions:
        where = f"function {function.name.decode()!r}"
        yield _root(where, function.opset_import, [function], functions)


def _root(
    where: str,
    imports: Sequence[outline.Import],
    tops: Iterable[outline.ListedGraph | outline.ListedFunction],
    functions: set[tuple[str, str, str]],
) -> _Root:
    imports_by_domain = {normal(opset.domain.decode()): opset.version for opset in imports}
    repeats = len(imports_by_domain) != len(imports)
    if repeats:
        for name in imports_by_domain:
            same = (entry.version for entry in imports if normal(entry.domain.decode()) == name)
            require_one_version(name, same, where)
    nodes: Counter[tuple[bytes, bytes, bytes]] = Counter()
    waiting, sparse = list(tops), False
    while waiting:
        container = waiting.pop()
        if isinstance(container, outline.ListedGraph):
            sparse = sparse or len(container.sparse_initializer) > 0
        else:  # the default attributes of a function may hold graphs
            waiting += [*container.attribute_proto.g, *container.attribute_proto.graphs]
        for node in container.node:
            nodes[node.domain, node.op_type, node.overload] += 1
            if node.HasField("attribute"):
                waiting += [*node.attribute.g, *node.attribute.graphs]
    operators: Counter[Key] = Counter()
    for (domain, op, overload), count in nodes.items():
        which = normal(domain.decode()), op.decode(), overload.decode()
        if which not in functions:
            operators[which[:2]] += count
    return _Root(imports_by_domain, operators, sparse, repeats)

"""The IR version a model should carry: what its release pairs with, and what its content needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opshift import versions
from opshift.errors import BadTarget

if TYPE_CHECKING:
    from opshift.author.facts import Facts
    from opshift.model.bytes.outline import Content
    from opshift.model.document import Document

NEWEST = versions.RELEASES[-1].ir
TYPES = {
    "bfloat16": 4,
    "float8e4m3fn": 9,
    "float8e4m3fnuz": 9,
    "float8e5m2": 9,
    "float8e5m2fnuz": 9,
    "uint4": 10,
    "int4": 10,
    "float4e2m1": 11,
    "float8e8m0": 12,
    "uint2": 13,
    "int2": 13,
    "float6e2m3": 14,
    "float6e3m2": 14,
    "seq": 6,
    "map": 6,
    "optional": 8,
    "sparse_tensor": 8,
}


@dataclass(frozen=True, slots=True)
class Need:
    """A piece of content that an older IR version does not have."""

    ir: int
    reason: str

    @property
    def way_out(self) -> str:
        """What a caller can do about it."""
        if self.option is None:
            return f"ask for IR {self.ir}, or convert to an operator set without it"
        flag = self.option.replace("_", "-")
        return f"drop it with {self.option} (--{flag}), or ask for IR {self.ir}"

    @property
    def option(self) -> str | None:
        """What drops it, if no result of inference depends on it."""
        if self.reason == "training information":
            return "drop_training"
        words = ("metadata", "a device configuration", "a quantization", "types recorded")
        return "drop_metadata" if self.reason.startswith(words) else None


def aim(current: int, imports: Mapping[str, int], wanted: str | int, went_down: bool) -> int:
    """The IR version to go for, whatever the content needs."""
    if wanted == "keep":
        return current
    if wanted == "auto":
        paired = versions.ir_for(imports)
        return min(current, paired) if went_down else max(current, paired)
    return int(wanted)


def holding(document: Document, facts: Facts, aimed: int) -> list[Need]:
    """What keeps the content of a model above the IR version that is aimed at."""
    if aimed >= document.model.ir_version and (aimed >= 4 or not document.added_initializers):
        return []
    return [need for need in needs(document, facts) if need.ir > aimed]


def check_wanted(wanted: str | int) -> None:
    """Refuses an IR version that nobody can mean."""
    if wanted in ("auto", "keep"):
        return
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 3 <= wanted <= NEWEST:
        raise BadTarget(f"ir_version is 'auto', 'keep' or a number from 3 to {NEWEST}: {wanted!r}")


def needs(document: Document, facts: Facts) -> list[Need]:
    """Everything in a model that ties it to an IR version above 3, one line for each kind."""
    from opshift.model.bytes.outline import Content

    bare = any(
        name not in scope.inputs
        for root in document.roots
        for scope in root.scopes
        for name in scope.initializers
    )
    content = Content(document.model.SerializeToString())
    return of_content(content, facts.census & TYPES.keys(), bare=bare)


def of_content(content: Content, types: Iterable[str], *, bare: bool) -> list[Need]:
    """The needs of content; `bare` says that there are initializers that are no graph inputs."""
    found: dict[str, Need] = {}
    for need in (
        *(Need(TYPES[name], f"element type or container {name}") for name in sorted(types)),
        *_of_model(content),
        *_of_functions(content),
        *_of_graphs(content),
        *_of_nodes(content),
    ):
        found.setdefault(need.reason, need)
    if bare:
        found["bare"] = Need(4, "an initializer that is not a graph input")
    return sorted(found.values(), key=lambda need: (-need.ir, need.reason))


def _of_model(content: Content) -> Iterator[Need]:
    if content.all.HasField("functions"):
        yield Need(8, "a model-local function")
    if content.all.HasField("training_info"):
        yield Need(7, "training information")
    if content.all.configuration:
        yield Need(11, "a device configuration")


def _of_functions(content: Content) -> Iterator[Need]:
    functions = content.all.functions
    if functions.HasField("attribute_proto"):
        yield Need(9, "a function attribute with a default")
    if any(functions.overload):
        yield Need(10, "a function overload")
    if functions.HasField("value_info"):
        yield Need(10, "types recorded in a function")
    if functions.metadata_props:
        yield Need(10, "metadata of a function")


def _of_graphs(content: Content) -> Iterator[Need]:
    for graph in content.graphs:
        if graph.HasField("sparse_initializer"):
            yield Need(6, "a sparse initializer")
        if graph.quantization_annotation:
            yield Need(5, "a quantization annotation")
    if content.external:
        yield Need(4, "external data")
    noted = [one.metadata_props for one in content.graphs]
    noted += [one.metadata_props for one in content.values]
    noted += [one.metadata_props for one in content.tensors]
    if any(noted):
        yield Need(10, "metadata of a graph, value or tensor")


def _of_nodes(content: Content) -> Iterator[Need]:
    for attribute in content.attributes:
        for kind in _ATTRIBUTES.keys() & set(attribute.type):
            yield _ATTRIBUTES[kind]
    for node in content.nodes:
        if node.metadata_props:
            yield Need(10, "metadata of a node")
        if any(node.overload):
            yield Need(10, "a function overload")
        if node.device_configurations:
            yield Need(11, "a device configuration")


_ATTRIBUTES = {  # kinds of attributes, as AttributeProto numbers them
    11: Need(6, "a sparse tensor in an attribute"),
    12: Need(6, "a sparse tensor in an attribute"),
    13: Need(8, "a type in an attribute"),
    14: Need(8, "a type in an attribute"),
}

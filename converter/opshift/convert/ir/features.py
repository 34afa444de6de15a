# SPDX-License-Identifier: Apache-2.0
"""A table of the content that each IR version introduced. This module does not import onnx."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opshift.opsets.elements import ELEMENTS, OLDEST
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.convert.ir.lower import Lowering
    from opshift.model.bytes.outline import Content
    from opshift.protos import ModelProto

# the options that allow the removal of content
METADATA, TRAINING = "drop_metadata", "drop_training"
SPARSE_IR = 6  # the first IR version with sparse initializers


@dataclass(frozen=True, slots=True)
class TypedContent:
    """The content of a model, its element types, and whether some initializers are not inputs."""

    content: Content
    types: frozenset[str]
    bare: bool  # whether some initializers are not graph inputs


@dataclass(frozen=True, slots=True)
class Feature:
    """A kind of content, the IR version that introduced it, and how to write it for older versions.

    `find` searches a model for the content, and `where` names its places. `lower` rewrites the
    content for older IR versions, with equal results. If `drop` names an option, `lower` removes
    the content if the caller sets this option. With `sooner`, the content may be rewritten before
    the steps, because a step may refuse it. `leads` lists the other kinds of content that `lower`
    may add.
    """

    ir: int
    says: str
    find: Callable[[TypedContent], bool]
    where: Callable[[ModelProto], Iterator[str]]
    lower: Callable[[Lowering], None] | None = None
    drop: str = ""
    sooner: bool = False  # whether lowering may avoid the refusal of a step
    leads: tuple[Feature, ...] = ()

    @property
    def key(self) -> str:
        """The name of this kind of content in the plan table, without spaces."""
        return self.says.replace(" ", "_")

    @property
    def computes(self) -> bool:
        """Whether a reader that ignores this content computes a different result."""
        return self.drop != METADATA

    @property
    def remedy(self) -> str:
        """The suggested action if this content is refused."""
        if not self.drop:
            return f"ask for IR {self.ir}, or convert to an operator set without it"
        flag = self.drop.replace("_", "-")
        return f"drop it with {self.drop} (--{flag}), or ask for IR {self.ir}"


def _widen(work: Lowering) -> None:
    work.widen_constants()


def _densify(work: Lowering) -> None:
    work.densify()


def _places() -> ModuleType:
    """Returns the module `places`, which is imported late because the module needs onnx."""
    from opshift.convert.ir import places

    return places


TYPES = {
    **{row.name: row.ir for row in ELEMENTS.values() if row.ir > OLDEST},
    "seq": 3,  # ZipMap of ai.onnx.ml 1 returns sequences of maps
    "map": 3,
    "optional": 8,
    "sparse_tensor": 8,
}


def _type(name: str) -> Feature:
    return Feature(
        TYPES[name],
        f"element type or container {name}",
        lambda content: name in content.types,
        lambda model: _places().of_type(model, name),
        _widen,
        sooner=True,
    )


def _note(ir: int, says: str, holders: str, field: str, many: str) -> Feature:
    """Returns a `Feature` for a field that affects no result and that older readers ignore.

    `holders` is the function of `places` that finds the messages with this field.
    """
    return Feature(
        ir,
        says,
        lambda held: any(_has(part, field) for part in _parts(held.content, holders)),
        lambda model: _places().with_field(getattr(_places(), holders)(model), field),
        lambda work: work.clear(getattr(_places(), holders)(work.model), field, many),
        METADATA,
    )


def _parts(content: Content, holders: str) -> Iterable[Any]:
    """Returns the parts of a model's outline that a function of `places` finds in the model."""
    whole = {"of_model": content.all, "of_functions": content.all.functions}
    return [whole[holders]] if holders in whole else getattr(content, holders)


def _has(part: Any, name: str) -> bool:
    return any(field.name == name for field, _ in part.ListFields())


def _in_attributes(*kinds: int) -> Callable[[TypedContent], bool]:
    """Returns a test for attributes of certain kinds, given as AttributeProto numbers."""
    return lambda content: any(
        {*kinds} & {*attribute.type} for attribute in content.content.attributes
    )


FUNCTIONS = Feature(
    8, "a model-local function", lambda held: held.content.all.HasField("functions"),
    lambda model: _places().functions(model), lambda work: work.inline_functions(),
)  # fmt: skip
TYPE_IN_ATTRIBUTE = Feature(
    8, "a type in an attribute", _in_attributes(13, 14),
    lambda model: _places().attributes(model, 13, 14),
)  # fmt: skip
BARE = Feature(
    4, "an initializer that is not a graph input", lambda held: held.bare,
    lambda model: _places().nowhere(), lambda work: work.initializers_as_inputs(),
)  # fmt: skip
OF_TYPES = tuple(_type(name) for name in TYPES)

BROUGHT = (*OF_TYPES, TYPE_IN_ATTRIBUTE, BARE)
"""The features that steps may add to a model; other features can only come from the source."""

# Sorted for lowering: calls are lowered before the content of their functions.
FEATURES = (
    Feature(
        7, "training information", lambda held: held.content.all.HasField("training_info"),
        lambda model: _places().nowhere(), lambda work: work.drop_training(), TRAINING,
    ),
    *OF_TYPES,
    FUNCTIONS,
    Feature(
        10, "a function overload",
        lambda held: any(held.content.all.functions.overload)
        or any(any(node.overload) for node in held.content.nodes),
        lambda model: _places().functions(model, "overload"), lambda work: work.rename_overloads(),
    ),
    Feature(
        9, "a function attribute with a default",
        lambda held: held.content.all.functions.HasField("attribute_proto"),
        lambda model: _places().functions(model, "attribute_proto"),
        lambda work: work.write_defaults(), sooner=True,
    ),
    Feature(
        SPARSE_IR, "a sparse initializer",
        lambda held: held.content.sparse_initializers,
        lambda model: _places().sparse_initializers(model), _densify, sooner=True, leads=(BARE,),
    ),
    Feature(
        6, "a sparse tensor in an attribute", _in_attributes(11, 12),
        lambda model: _places().attributes(model, 11, 12), _densify, sooner=True,
    ),
    TYPE_IN_ATTRIBUTE,
    Feature(
        4, "external data", lambda held: held.content.external,
        lambda model: _places().external_tensors(model), lambda work: work.load_external_data(),
    ),
    BARE,
    _note(
        11, "a device configuration of the model",
        "of_model", "configuration", "device configurations",
    ),
    _note(
        11, "a device configuration of a node",
        "nodes", "device_configurations", "device configurations of nodes",
    ),
    _note(10, "metadata of a node", "nodes", "metadata_props", "metadata of nodes"),
    _note(10, "metadata of a graph", "graphs", "metadata_props", "metadata of graphs"),
    _note(10, "metadata of a value", "values", "metadata_props", "metadata of values"),
    _note(10, "metadata of a tensor", "tensors", "metadata_props", "metadata of tensors"),
    _note(10, "metadata of a function", "of_functions", "metadata_props", "metadata of functions"),
    _note(
        10, "types recorded in a function",
        "of_functions", "value_info", "types recorded in functions",
    ),
    _note(
        5, "a quantization annotation",
        "graphs", "quantization_annotation", "quantization annotations",
    ),
)  # fmt: skip

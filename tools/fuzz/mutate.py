# SPDX-License-Identifier: Apache-2.0
"""Changes a model at random, as a faulty exporter could; equal seeds make equal changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import AttributeProto as Attribute
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, defs, helper
from opshift.protos.copies import copied

from tools.conformance import wrap

Mutation: TypeAlias = Callable[[Random, ModelProto, ModelProto], None]

NUMBERS = (0, 1, -1, 2, 3, 4, 7, 13, 100, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
TEXTS = ("", "x", "ai.onnx", "ai.onnx.ml", "acme", "a b", "é\u2028", "opshift_1_const", "y" * 300)
LOCATIONS = (
    "w.bin", "missing.bin", "../secret", "/etc/hostname", "link", "in.onnx", "", ".", "a/b",
)  # fmt: skip
OPERATORS = sorted({(schema.domain, schema.name) for schema in defs.get_all_schemas()})
ATTRIBUTES = sorted({name for schema in defs.get_all_schemas() for name in schema.attributes})


def mutated(rng: Random, model: ModelProto, donor: ModelProto) -> ModelProto:
    """Returns a copy of the model with a few changes; `donor` is a model whose parts are used."""
    copy = copied(model)
    while True:
        with suppress(DecodeError):  # protobuf cannot copy messages that are nested too deeply
            rng.choice(MUTATIONS)(rng, copy, donor)
        if rng.random() < 0.6:
            return copy


# ---------------------------------------------------------------- finding a message


def messages(root: Message) -> Iterator[Message]:
    """Yields the message and every message inside it."""
    yield root
    for field, value in root.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for child in [value] if isinstance(value, Message) else list(value):
                yield from messages(child)


def any_message(rng: Random, root: Message) -> Message:
    """Returns a random message; its type is drawn first, because some types are frequent."""
    kinds: dict[str, list[Message]] = {}
    for message in messages(root):
        kinds.setdefault(message.DESCRIPTOR.name, []).append(message)
    return rng.choice(kinds[rng.choice(sorted(kinds))])


def every(root: Message, kind: type) -> list[Any]:
    """Returns all messages of one type."""
    return [message for message in messages(root) if isinstance(message, kind)]


def drawn(rng: Random, root: Message, kind: type) -> Any:
    """Returns a random message of one type; None if the root has no such message."""
    return rng.choice(every(root, kind) or [None])


def names(root: Message) -> list[str]:
    """Returns every value name that nodes read or write, each once."""
    nodes = every(root, NodeProto)
    return sorted({name for node in nodes for name in (*node.input, *node.output) if name})


# ---------------------------------------------------------------- any field of any message


def set_field(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Sets a random field of a random message to another value, or clears it."""
    message = any_message(rng, model)
    field = rng.choice(message.DESCRIPTOR.fields)
    if rng.random() < 0.3:
        message.ClearField(field.name)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        _graft(rng, message, field, model, donor)
    elif field.is_repeated:
        values, new = getattr(message, field.name), _value(rng, field, model)
        if values and rng.random() < 0.5:
            values[rng.randrange(len(values))] = new
        else:
            values.insert(rng.randint(0, len(values)), new)
    else:
        setattr(message, field.name, _value(rng, field, model))


def _graft(
    rng: Random, message: Message, field: FieldDescriptor, model: ModelProto, donor: ModelProto
) -> None:
    """Puts a copy of a message of the right type, from the model or the donor, into a field."""
    kind = field.message_type.full_name
    every = (*messages(model), *messages(donor))
    alike = [m for m in every if m.DESCRIPTOR.full_name == kind]
    if alike:
        part = type(alike[0])()
        part.CopyFrom(rng.choice(alike))
    if field.is_repeated:
        added = getattr(message, field.name).add()
    else:
        added = getattr(message, field.name)
        added.SetInParent()
    if alike:
        added.CopyFrom(part)


def _value(rng: Random, field: FieldDescriptor, model: ModelProto) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return rng.choice((b"", b"\xff\xfe", rng.randbytes(rng.choice((1, 8, 5000)))))
        case FieldDescriptor.CPPTYPE_STRING:
            return rng.choice((*TEXTS, *names(model)))
        case FieldDescriptor.CPPTYPE_ENUM:
            return rng.choice(field.enum_type.values).number
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return rng.choice((0.0, 1.0, -1.0, 1e30, float("nan"), float("inf")))
        case FieldDescriptor.CPPTYPE_INT32:
            return max(-(2**31), min(_number(rng), 2**31 - 1))
        case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_UINT64:
            return abs(_number(rng)) % 2**32
    return max(-(2**63), min(_number(rng), 2**63 - 1))


def _number(rng: Random) -> int:
    return rng.choice(NUMBERS) if rng.random() < 0.5 else rng.randint(-3, 30)


def reorder(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Drops, repeats or swaps elements of a random list."""
    lists = [
        value
        for _, value in any_message(rng, model).ListFields()
        if not isinstance(value, (Message, str, bytes, int, float))
    ]
    if not lists:
        return
    values = rng.choice(lists)
    here, there = rng.randrange(len(values)), rng.randrange(len(values))
    match rng.randrange(3):
        case 0:
            del values[here]
        case 1:
            values.append(values[here])
        case 2:
            _swap(values, here, there)


def _swap(values: Any, here: int, there: int) -> None:
    """Exchanges two elements, also in lists of messages, which do not support assignment."""
    if not isinstance(values[here], Message):
        values[here], values[there] = values[there], values[here]
    elif here != there:
        kept = type(values[here])()
        kept.CopyFrom(values[here])
        values[here].CopyFrom(values[there])
        values[there].CopyFrom(kept)


# ---------------------------------------------------------------- names and operators


def rewire(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Renames a value of a node: the result is a cycle, a second writer, or an undefined value."""
    if (node := drawn(rng, model, NodeProto)) is not None:
        ends = rng.choice((node.input, node.output))
        name = rng.choice((*names(model), "nobody", ""))
        if ends and rng.random() < 0.7:
            ends[rng.randrange(len(ends))] = name
        else:
            ends.append(name)


def exchange_operator(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Changes the operator of a node, but keeps its inputs and attributes."""
    if (node := drawn(rng, model, NodeProto)) is not None:
        node.domain, node.op_type = rng.choice(OPERATORS)
        if not any(entry.domain == node.domain for entry in model.opset_import):
            model.opset_import.add(domain=node.domain, version=1)


def splice(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Appends the nodes of the donor, or sometimes merges the whole donor into the model."""
    graph = rng.choice(every(model, GraphProto) or [model.graph])
    if rng.random() < 0.3:
        model.MergeFrom(donor)
    else:
        graph.node.extend(donor.graph.node)
        graph.initializer.extend(donor.graph.initializer)


def attribute(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Adds an attribute, or changes the type, value, name or reference of an attribute."""
    if (node := drawn(rng, model, NodeProto)) is None:
        return
    new = helper.make_attribute(
        rng.choice(ATTRIBUTES),
        rng.choice((_number(rng), 1.5, "text", [1, -1], [0.5], ["a", "b"], [2**62] * 3)),
    )
    match rng.randrange(4) if node.attribute else 0:
        case 0:
            node.attribute.append(new)
        case 1:
            rng.choice(node.attribute).CopyFrom(new)
        case 2:
            old = rng.choice(node.attribute)
            new.name = old.name
            old.CopyFrom(new)
        case 3:
            rng.choice(node.attribute).ref_attr_name = rng.choice(ATTRIBUTES)


def versions(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Changes an import or the IR version."""
    if rng.random() < 0.3:
        model.ir_version = rng.choice((0, 1, 2, 3, 4, 8, 9, 10, 11, 13, 99, -1))
    owner = rng.choice((model, *model.functions))
    if not owner.opset_import or rng.random() < 0.2:
        domain = rng.choice(("", "ai.onnx", "ai.onnx.ml", "acme", "ai.onnx.training"))
        owner.opset_import.add(domain=domain, version=_number(rng))
    else:
        rng.choice(owner.opset_import).version = _number(rng)


# ---------------------------------------------------------------- tensors and types


def tensor(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Makes the shape, type and bytes of a tensor contradict each other."""
    if (target := drawn(rng, model, TensorProto)) is None:
        return
    match rng.randrange(6):
        case 0:
            target.raw_data = target.raw_data[: rng.randint(0, len(target.raw_data))]
        case 1:
            target.dims.append(rng.choice((0, 1, 2, -1, 2**40, 2**62)))
        case 2 if target.dims:
            target.dims[rng.randrange(len(target.dims))] = _number(rng)
        case 3:
            target.data_type = rng.randint(0, 30)
        case 4:
            target.float_data.append(1.0)
        case 5:
            target.segment.begin = 1


def large_tensor(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Replaces a tensor by a large one, which may have too few bytes."""
    if (target := drawn(rng, model, TensorProto)) is not None:
        name = target.name
        target.Clear()
        target.name, target.data_type = name, rng.choice((1, 7, 11, 22, 10, 9))
        target.dims.append(5000)
        target.raw_data = bytes(rng.choice((40000, 20000, 5000, 39999)))


def external(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Moves the bytes of a tensor to a file, which may be missing or forbidden."""
    if (target := drawn(rng, model, TensorProto)) is None:
        return
    if rng.random() < 0.7:
        for name in ("raw_data", "float_data", "int64_data", "int32_data", "double_data"):
            target.ClearField(name)
    target.data_location = TensorProto.EXTERNAL
    entries = {"location": rng.choice(LOCATIONS), "offset": rng.choice(("0", "64", "-1", "9" * 30))}
    if rng.random() < 0.5:
        entries["length"] = rng.choice(("4", "16", "99999", "x", "-4"))
    for key in rng.sample(sorted(entries), rng.randint(1, len(entries))):
        target.external_data.add(key=key, value=entries[key])


def element_type(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Gives a declared value another element type or shape."""
    if (proto := drawn(rng, model, TypeProto)) is not None:
        if rng.random() < 0.3:
            proto.Clear()
            proto.sequence_type.elem_type.tensor_type.elem_type = rng.randint(0, 30)
            return
        proto.tensor_type.elem_type = rng.randint(0, 30)
        if rng.random() < 0.5:
            proto.tensor_type.shape.dim.add().dim_value = _number(rng)


def annotations(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Adds content that a conversion must keep: quantization, sparse weights, metadata."""
    graph = rng.choice(every(model, GraphProto) or [model.graph])
    some = rng.choice((*names(model), "nobody"))
    match rng.randrange(3):
        case 0:
            note = graph.quantization_annotation.add(tensor_name=some)
            note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=rng.choice(TEXTS))
        case 1:
            sparse = graph.sparse_initializer.add(dims=[rng.choice((4, -1, 2**62))])
            sparse.values.CopyFrom(helper.make_tensor(some, 1, [2], [1.0, 2.0]))
            sparse.indices.CopyFrom(helper.make_tensor("", 7, [2], [rng.randint(-1, 4), 2]))
        case 2:
            model.metadata_props.add(key=rng.choice(TEXTS), value=rng.choice(TEXTS))


def unknown_field(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Adds an unknown field, or a known field in another encoding."""
    place = any_message(rng, model)
    number = rng.choice((900, 1, 2, 5, 7))
    body = rng.choice((b"\x07", b"\x7f"))
    key = number << 3
    head = bytes([key & 0x7F | 0x80, key >> 7]) if key > 0x7F else bytes([key])
    place.MergeFromString(head + body)


def kind_of_attribute(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Makes the declared type of an attribute contradict its value."""
    if (changed := drawn(rng, model, Attribute)) is not None:
        changed.type = rng.choice(Attribute.AttributeType.values())


MUTATIONS: tuple[Mutation, ...] = (
    set_field, set_field, set_field, reorder, reorder, rewire, rewire, exchange_operator, splice,
    attribute, attribute, versions, tensor, large_tensor, external, element_type, annotations,
    unknown_field, kind_of_attribute, *wrap.MUTATIONS,
)  # fmt: skip

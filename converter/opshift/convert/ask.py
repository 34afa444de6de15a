# SPDX-License-Identifier: Apache-2.0
"""Calls an adapter for one node, and checks its answer."""

from __future__ import annotations

import math

from opshift.author.builder import Builder
from opshift.author.node import KEEP, Keep, Node, Value
from opshift.author.verdicts import (
    LEAVE,
    RETIRED,
    Adapter,
    CastNarrowed,
    Impossible,
    Rewrite,
    Unchanged,
)
from opshift.author.written import Made
from opshift.codes.refusals import Why
from opshift.convert import guard
from opshift.convert.change import Task
from opshift.errors import AdapterBug, InvalidModel, MissingExtra, Refusal
from opshift.model.bytes import wire
from opshift.model.walk import holds_graphs
from opshift.opsets import schemas


def ask(task: Task, node: Node, op: Builder) -> Value | tuple[Value, ...] | Keep:
    """Returns the result for one node: from the check of the schemas, or else from the adapter."""
    adapter, derived = task.adapter, task.derived
    match adapter.verdict:
        case Impossible(why, reason):
            raise Refusal(why, reason)
        case Rewrite(handles_types=handles_types):
            if derived and task.lost and not handles_types:
                derived.check_types(node, task.lost)
            return _answer(adapter, node, op)
        case CastNarrowed() if derived and task.lost:
            try:
                derived.check_types(node, task.lost)
            except Refusal as refusal:
                if refusal.why is not Why.TYPE_NOT_AVAILABLE:
                    raise
                return _answer(adapter, node, op)
        case Unchanged() if derived and task.lost:
            derived.check_types(node, task.lost)
    if derived and derived.structural:
        derived.check_structure(node)
        if derived.touches(node):
            return op.same(node)
    return KEEP


def _answer(adapter: Adapter, node: Node, op: Builder) -> Value | tuple[Value, ...] | Keep:
    guard.require_fit(node)
    node.reads.clear()
    try:
        answer = adapter(node, op)
    except AdapterBug as bug:
        place = f"{adapter.source} at {_line(adapter, bug)}: "
        if str(bug).startswith(place):  # the adapter writes its own operator again
            raise
        raise AdapterBug(f"{place}{bug}") from bug
    except Refusal as refusal:
        if refusal.why is Why.APPROXIMATE_ONLY:
            require_declared(adapter)
        raise
    except (InvalidModel, MissingExtra):
        raise
    except Exception as error:  # every other exception is a bug of the adapter
        if _is_beyond_any_tensor(error):
            message = f"the sizes of its tensors are too large: {error}"
            raise Refusal(Why.NOT_EXPRESSIBLE, message) from None
        if isinstance(error, MemoryError):  # not a bug: it may succeed with more memory
            raise
        message = f"{adapter.source} raised {error!r} at {_line(adapter, error)}"
        raise AdapterBug(message) from error
    values = answer if isinstance(answer, tuple) else (answer,)
    if not isinstance(answer, Keep) and not all(isinstance(v, Value) for v in values):
        raise AdapterBug(
            f"{adapter.source} returned {answer!r}: an adapter returns KEEP, a value or values"
        )
    if not isinstance(answer, Keep) and op.made.unread is None:
        _check_reads(adapter, node)
    return answer


def _line(adapter: Adapter, error: Exception) -> str:
    """Returns the file and line of the adapter's package at which an error was raised."""
    import traceback

    frames = [
        (frame.f_globals.get("__name__", ""), frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    frames_of_package = [f for f in frames if f[0].partition(".")[0] == adapter.package]
    _, file, line = (frames_of_package or frames)[-1]
    return f"{file}:{line}"


def _is_beyond_any_tensor(error: Exception) -> bool:
    """Returns whether numpy failed because an array exceeds the size limit of protobuf."""
    if isinstance(error, ValueError):  # numpy raises ValueError for arrays beyond the address space
        return str(error).startswith(("array is too big", "Maximum allowed "))
    shape, dtype = getattr(error, "shape", ()), getattr(error, "dtype", None)
    return dtype is not None and math.prod(shape) * dtype.itemsize > wire.LIMIT


def _check_reads(adapter: Adapter, node: Node) -> None:
    """Raises if an adapter replaced a node without reading all its attributes and inputs."""
    ignores = adapter.verdict.ignores if isinstance(adapter.verdict, Rewrite) else ()
    overlooked = [name for name in node.overlooked() if name not in ignores]
    if overlooked:
        names = ", ".join(map(repr, overlooked))
        schema = node.schema
        undescribed = schema is not None and not schema.stated
        if undescribed or (adapter.start, adapter.to) in (LEAVE, RETIRED):
            raise Refusal(
                Why.UNSUPPORTED_FIELD, f"{node.op} has {names}, which its adapter does not support"
            )
        foreign = [name for name in overlooked if name in node.attributes]
        if schema is not None and (unknown := set(foreign) - set(schema.attributes)):
            raise InvalidModel(
                f"{node.op} {node.name!r} has an attribute {min(unknown)!r}, which the operator"
                " does not have; remove it"
            )
        raise AdapterBug(
            f"{adapter.source} replaced {node.op} {node.name!r} without reading {names}; read it,"
            " or declare the reason with ignores={name: reason}"
        )


def name_outputs(
    node: Node, answer: Value | tuple[Value, ...], op: Builder, adapter: Adapter
) -> None:
    """Names the replacing values like the outputs of the replaced node."""
    if op.made.unread is not None:
        if answer != () or op.made.nodes:
            raise AdapterBug(
                f"{adapter.source} called op.dissolve for {node.op} and also wrote a replacement;"
                " do only one of the two"
            )
        return
    values = answer if isinstance(answer, tuple) else (answer,)
    outputs = node.proto.output
    if len(outputs) > len(values) and any(o and o.used for o in node.outputs[len(values) :]):
        if node.schema is None and not node.proto.domain:
            raise InvalidModel(
                f"{node.op} {node.name!r} has {node.n_outputs} outputs, but this retired operator"
                f" has only {len(values)}; remove the others"
            )
        raise AdapterBug(
            f"{adapter.source} returned {len(values)} values for the {node.n_outputs} outputs"
            f" of {node.op} {node.name!r}"
        )
    new_names = {name for new_node in op.made.nodes for name in new_node.output}
    names: dict[str, str] = {}
    spare: set[str] = set()
    for output, value in zip(outputs, values, strict=False):
        if not output:
            spare.add(value.name)
            continue
        if value.name not in new_names or value.name in names:
            value = op.Identity(value)
            op.made.ops.discard("Identity")
        names[value.name] = output
    if spare:
        _leave_out(op.made, spare - names.keys())
    op.made.rename(names)
    op.made.drop_idle()
    if not op.made.nodes:
        raise AdapterBug(f"{adapter.source} returned values for {node.op} but wrote no node")


def _leave_out(replacement: Made, spare: set[str]) -> None:
    """Removes outputs of the rewritten node that the old node did not have."""
    if replacement.carrier is None or any(map(holds_graphs, replacement.nodes)):
        return
    spare -= {name for node in replacement.nodes for name in node.input}
    for i, name in enumerate(replacement.carrier.output):
        if name in spare:
            replacement.carrier.output[i] = ""


def require_declared(adapter: Adapter) -> None:
    """Raises if an adapter approximates without declaring it, even if the caller allows it."""
    if not adapter.approximate:
        raise AdapterBug(
            f"{adapter.source} calls op.approximate, but does not declare it; add approximate=True"
        )


def check_types(node: Node, op: Builder) -> None:
    """Refuses a node if an operator of its replacement does not accept the types of its inputs."""
    rare = op.env.rare_types()
    for proto in op.made.nodes if rare else ():
        domain = schemas.normal(proto.domain)
        version = op.crossing.version(op.scope.root, domain)
        schema = schemas.schema(domain, proto.op_type, version)
        for i, name in enumerate(proto.input if schema else ()):
            param = schema.input_at(i) if schema else None
            if not name or param is None or _takes_all(param.types, rare):
                continue
            text = schemas.type_name(op.env.type(name))
            if text is not None and text not in param.types:
                raise Refusal(
                    Why.TYPE_NOT_AVAILABLE,
                    f"{proto.op_type} of {domain or 'ai.onnx'} {version} does not accept {text},"
                    f" the type of {name!r}",
                )
            lost = _possible(node, name, rare) - param.types if text is None else frozenset()
            if lost:
                op.ask_caller(
                    Why.NEEDS_TYPE,
                    f"the element type of {name!r} is unknown, and {proto.op_type} of"
                    f" {domain or 'ai.onnx'} {version} does not accept {' or '.join(sorted(lost))}",
                )


def _possible(node: Node, name: str, rare: frozenset[str]) -> frozenset[str]:
    """Returns the rare element types that an input may have, if the replaced node reads it too."""
    type_names = frozenset(f"tensor({element})" for element in rare)
    for i, input_name in enumerate(node.proto.input):
        param = node.schema.input_at(i) if node.schema else None
        if input_name == name:
            return type_names & param.types if param else type_names
    return frozenset()


def _takes_all(types: frozenset[str], rare: frozenset[str]) -> bool:
    return all(f"tensor({name})" in types for name in rare)

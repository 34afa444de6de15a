# SPDX-License-Identifier: Apache-2.0
"""Removes initializers from the graph inputs if the IR version rises above 3."""

from __future__ import annotations

from opshift.convert.ir.features import BARE
from opshift.errors import InvalidModel
from opshift.model import input_defaults
from opshift.model.scope import tensor_type
from opshift.protos import ModelProto, ValueInfoProto


def lift(model: ModelProto, ir: int) -> list[str]:
    """Removes the initializers from the inputs for a higher IR version; returns a note if it did.

    Up to IR 3, each initializer is also a graph input and is a constant. From IR 4 on, an
    initializer that is a graph input is a default value, which callers may replace.
    """
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    leaving = [info for info in graph.input if info.name in constants]
    if not model.ir_version < BARE.ir <= ir or not leaving:
        return []
    if (told := next(input_defaults.unfit(graph), None)) is not None:
        raise InvalidModel(told)  # removing the declaration would hide the fault
    for info in leaving:
        if info != ValueInfoProto(name=info.name, type=tensor_type(constants[info.name])):
            graph.value_info.append(info)  # the declaration has more information than the tensor
    staying = [info for info in graph.input if info.name not in constants]
    kept = [ValueInfoProto.FromString(info.SerializeToString()) for info in staying]
    del graph.input[:]
    graph.input.extend(kept)
    what = "1 initializer" if len(leaving) == 1 else f"{len(leaving)} initializers"
    why = f"because callers may replace inputs from IR {BARE.ir} on"
    return [f"removed {what} from the graph inputs, {why}"]

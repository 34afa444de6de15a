"""The graphs for training of a model, each as a model of its own that an engine can run."""

from __future__ import annotations

from opshift.protos import GraphProto, ModelProto

FIELDS = ("input", "initializer", "sparse_initializer", "node", "value_info")


def parts(model: ModelProto) -> dict[str, ModelProto]:
    """The initialization and algorithm graphs of a model by their place in it."""
    found = {}
    for i, training in enumerate(model.training_info):
        for name in ("initialization", "algorithm"):
            graph: GraphProto = getattr(training, name)
            if graph.output and graph.node:
                # An algorithm is run together with the graph of the model, which it continues.
                main = model.graph if name == "algorithm" else GraphProto()
                found[f"training_info[{i}].{name}"] = _alone(model, main, graph)
    return found


def _alone(model: ModelProto, main: GraphProto, graph: GraphProto) -> ModelProto:
    alone = ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions
    )
    alone.graph.name = graph.name or "training"
    for part in (main, graph):
        for field in FIELDS:
            getattr(alone.graph, field).extend(getattr(part, field))
    alone.graph.output.extend(graph.output)
    return alone

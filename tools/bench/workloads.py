# SPDX-License-Identifier: Apache-2.0
"""Generates the benchmark models: transformers, layers, nested control flow, and large weights.

Weights are random numbers, quantized nodes have individual scales, values have declared types, and
one dimension is dynamic, as in the models of users.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

MIB = 1 << 20


class Graph:
    """Collects nodes and weights that are legal at one opset."""

    def __init__(self, opset: int, prefix: str = "", *, equal: bool = False) -> None:
        import numpy as np

        self.opset = opset
        self.equal = equal  # whether all weights are equal, so that many nodes are identical
        self.random = np.random.default_rng(0)
        self.declared: list[Any] = []
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        from onnx import helper

        first = f"{self.prefix}{op}_{len(self.nodes)}"
        names = [first, *(f"{first}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op, list(inputs), names, first, **attributes))
        return first

    def floats(self, name: str, *shape: int) -> str:
        """Adds a weight of random numbers, or of equal numbers with `equal`."""
        import numpy as np

        if self.equal:
            return self.weight(name, np.full(shape, 0.1, np.float32))
        return self.weight(name, self.random.standard_normal(shape, np.float32))

    def declare(self, name: str, *shape: int | str) -> str:
        """Declares the type of a float value, as exporters do."""
        from onnx import TensorProto, helper

        self.declared.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def weight(self, name: str, values: Any) -> str:
        from onnx import numpy_helper

        if name not in self.weights:
            self.weights[name] = numpy_helper.from_array(values, name)
        return name

    def constant(self, values: Any) -> str:
        """Adds a Constant node as exporters do; below opset 9, integers become a weight."""
        from onnx import numpy_helper

        if self.opset < 9 and values.dtype.kind != "f":
            return self.weight(f"constant_{values.tolist()}", values)
        return self("Constant", value=numpy_helper.from_array(values))

    def integers(self, *values: int) -> str:
        """Adds a constant vector of integers."""
        import numpy as np

        return self.constant(np.array(values, np.int64))

    def axes(self, op: str, x: str, axes: list[int], since: int, **attributes: Any) -> str:
        """Adds an operator whose axes became an input at opset `since`."""
        if self.opset < since:
            return self(op, x, axes=axes, **attributes)
        return self(op, x, self.integers(*axes), **attributes)


HEADS, WIDTH = 2, 8


def transformer_block(g: Graph, x: str, layer: int) -> str:
    """Adds attention and feed-forward layers from primitives and Constants, as exporters do."""
    import numpy as np

    def weight(name: str, *shape: int) -> str:
        return g.floats(f"layer{layer}.{name}", *shape)

    def normed(x: str, name: str) -> str:
        centred = g("Sub", x, g.axes("ReduceMean", x, [2], 18, keepdims=1))
        squares = g("Pow", centred, g.constant(np.float32(2)))
        variance = g.axes("ReduceMean", squares, [2], 18, keepdims=1)
        root = g("Sqrt", g("Add", variance, g.constant(np.float32(1e-5))))
        scaled = g("Mul", g("Div", centred, root), weight(name, WIDTH))
        return g("Add", scaled, weight(f"{name}.bias", WIDTH))

    def dense(x: str, name: str) -> str:
        return g("Add", g("MatMul", x, weight(name, WIDTH, WIDTH)), weight(f"{name}.bias", WIDTH))

    def size(x: str, axis: int) -> str:
        number = g("Gather", g("Shape", x), g.constant(np.int64(axis)), axis=0)
        return g.axes("Unsqueeze", number, [0], 13)

    def shaped(x: str, *last: int) -> str:
        sizes = [size(x, 0), size(x, 1), *(g.integers(n) for n in last)]
        return g("Reshape", x, g("Concat", *sizes, axis=0))

    y = normed(x, "norm1")
    q = g("Transpose", shaped(dense(y, "q"), HEADS, WIDTH // HEADS), perm=[0, 2, 1, 3])
    k = g("Transpose", shaped(dense(y, "k"), HEADS, WIDTH // HEADS), perm=[0, 2, 3, 1])
    v = g("Transpose", shaped(dense(y, "v"), HEADS, WIDTH // HEADS), perm=[0, 2, 1, 3])
    scores = g("Div", g("MatMul", q, k), g.constant(np.float32(2)))
    mask = g.axes("Unsqueeze", "mask", [1, 2], 13)
    mixed = g("MatMul", g("Softmax", g("Add", scores, mask), axis=3), v)
    joined = shaped(g("Transpose", mixed, perm=[0, 2, 1, 3]), WIDTH)
    x = g.declare(g("Add", x, dense(joined, "out")), "b", 3, WIDTH)
    hidden = g("Tanh", dense(normed(x, "norm2"), "up"))
    return g("Add", x, dense(hidden, "down"))


def model_of(g: Graph, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> Any:
    """Creates a model from the collected nodes, with float inputs and outputs."""
    from onnx import TensorProto, helper

    def values(shapes: dict[str, list[Any]]) -> list[Any]:
        types = {"flag": TensorProto.BOOL}
        return [
            helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape)
            for name, shape in shapes.items()
        ]

    weights = list(g.weights.values())
    inner = [info for info in g.declared if info.name not in outputs]
    graph = helper.make_graph(
        g.nodes, "bench", values(inputs), values(outputs), weights, value_info=inner
    )
    imports = [helper.make_opsetid("", g.opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def transformer(opset: int, nodes: int, *, equal: bool = False) -> Any:
    """Returns a model of transformer blocks with at least this number of nodes."""
    g, x, layer = Graph(opset, equal=equal), "x", 0
    while len(g.nodes) < nodes:
        x = transformer_block(g, x, layer)
        layer += 1
    return model_of(g, {"x": ["b", 3, WIDTH], "mask": ["b", 3]}, {x: ["b", 3, WIDTH]})


def quantized(opset: int, nodes: int) -> Any:
    """Returns layers whose values are quantized and dequantized, each with a scale of its own."""
    import numpy as np

    g, x = Graph(opset), "x"
    while len(g.nodes) < nodes:
        scale = g.constant(np.float32(g.random.uniform(0.01, 0.1)))
        zero = g.weight("zero", np.uint8(128))
        codes = g("QuantizeLinear", x, scale, zero)
        y = g(
            "MatMul",
            g("DequantizeLinear", codes, scale, zero),
            g.floats(f"w{len(g.nodes)}", WIDTH, WIDTH),
        )
        y = g("Sub", y, g.axes("ReduceMean", y, [1], 18, keepdims=1))
        x = g.declare(g("LeakyRelu", y, alpha=float(g.random.uniform(0.01, 0.3))), "n", WIDTH)
    return model_of(g, {"x": ["n", WIDTH]}, {x: ["n", WIDTH]})


def layers(opset: int, nodes: int) -> Any:
    """Returns a small model of normalized dense layers with at least this number of nodes."""
    import numpy as np

    g, x = Graph(opset), "x"
    while len(g.nodes) < nodes:
        w = g.floats(f"w{len(g.nodes)}", WIDTH, WIDTH)
        y = g("Relu", g("Add", g("MatMul", x, w), g.constant(np.float32(0.5))))
        y = g("Sub", y, g.axes("ReduceMean", y, [1], 18, keepdims=1))
        y = g.axes("Squeeze", g.axes("Unsqueeze", y, [0], 13), [0], 13)
        x = g("Softmax", y, axis=1)
    return model_of(g, {"x": ["n", WIDTH]}, {x: ["n", WIDTH]})


def nested(opset: int, nodes: int) -> Any:
    """Returns a model of repeated If, Loop and Scan, with nodes and captures at each depth."""
    import numpy as np

    g, x, count = Graph(opset), "x", 0
    g.weight("trips", np.array(2, np.int64))
    g.weight("true", np.array(True))
    while count < nodes:
        x, inside = _nested_unit(g, x)
        count += inside
    return model_of(g, {"x": [3, WIDTH], "flag": []}, {x: [3, WIDTH]})


def _nested_unit(g: Graph, x: str) -> tuple[str, int]:
    """Adds an If around a Loop around a Scan; returns its output and its number of nodes."""
    from onnx import TensorProto, helper

    at = f"{g.prefix}u{len(g.nodes)}_"

    def value(name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    def part(depth: str) -> Graph:
        inner = Graph(g.opset, at + depth)
        inner.weights = g.weights
        return inner

    def work(inner: Graph, y: str, axis: int) -> str:
        mean = inner.axes("ReduceMean", y, [axis], 18, keepdims=0)
        back = inner.axes("Unsqueeze", mean, [axis], 13)
        squeezed = inner.axes("Squeeze", inner.axes("Unsqueeze", back, [0], 13), [0], 13)
        return inner("Softmax", inner("Sub", inner("Mul", y, y), squeezed), axis=axis)

    row, body, branch, other = part("s_"), part("l_"), part("t_"), part("e_")
    out = row("Add", work(row, at + "row", 0), work(row, at + "row", 0))
    scan = helper.make_graph(
        row.nodes, at + "scan", [value(at + "row", [WIDTH])], [value(out, [WIDTH])]
    )
    scanned = body("Scan", work(body, at + "state", 1), body=scan, num_scan_inputs=1)
    state = body("Add", scanned, x)
    more = body("Identity", at + "more")
    loop = helper.make_graph(
        body.nodes,
        at + "loop",
        [
            value(at + "i", [], TensorProto.INT64),
            value(at + "more", [], TensorProto.BOOL),
            value(at + "state", [3, WIDTH]),
        ],
        [value(more, [], TensorProto.BOOL), value(state, [3, WIDTH])],
    )
    looped = work(branch, branch("Loop", "trips", "true", x, body=loop), 1)
    then = helper.make_graph(branch.nodes, at + "then", [], [value(looped, [3, WIDTH])])
    same = work(other, x, 1)
    else_ = helper.make_graph(other.nodes, at + "else", [], [value(same, [3, WIDTH])])
    result = g("If", "flag", then_branch=then, else_branch=else_)
    return result, 1 + sum(len(p.nodes) for p in (row, body, branch, other))


def weighty(opset: int, size: int, external: str = "") -> Any:
    """Returns a model with about 200 nodes and `size` MiB of weights, 8 MiB in each MatMul."""
    import numpy as np
    from onnx import TensorProto, helper

    g, x, side = Graph(opset), "x", 1448
    block = np.random.default_rng(0).standard_normal((side, side), np.float32)
    count = size * MIB // block.nbytes
    for i in range(count):
        if external:
            g.weights[f"w{i}"] = _external(f"w{i}", block, external, i)
        x = g("MatMul", x, g.weight(f"w{i}", block))
    for _ in range(max(1, (200 - count) // 4)):
        x = g("Softmax", x, axis=1)
        x = g.axes("Squeeze", g.axes("Unsqueeze", x, [0], 13), [0], 13)
        x = g("Add", x, x)
    graph = helper.make_graph(
        g.nodes,
        "bench",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", side])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", side])],
        list(g.weights.values()),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _external(name: str, block: Any, path: str, index: int) -> Any:
    """Appends a block to the data file, and returns a tensor that refers to it."""
    from onnx import TensorProto

    with open(path, "ab") as file:
        file.write(block.data)
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=block.shape)
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": Path(path).name, "offset": index * block.nbytes, "length": block.nbytes}
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor

# SPDX-License-Identifier: Apache-2.0
"""A zoo of any number of small models, some of which are broken, never end or end their process."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper
from opshift import testing
from opshift.author.registry import GROUP as ADAPTERS
from opshift.opsets.registration import GROUP as SCHEMAS

from tools.bench.scale_places import Folder
from tools.lib.graphs import graphs_in

TARGET = 13
DOMAIN = "com.scale"
FOLDER = 1000  # models
CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
SMALL = 20_000  # bytes of a model of the corpus
BROKEN, HANGING, KILLING = 1000, 5000, 5000  # one in so many

VENDOR = f'''
"""Adapters of a vendor that never end, or end the process."""

import os
import signal
import time

from onnx import defs
from opshift.adapter import KEEP, adapter


def schemas():
    x, y = (defs.OpSchema.FormalParameter(name, "tensor(float)") for name in "xy")
    return [
        defs.OpSchema(op, "{DOMAIN}", version, inputs=[x], outputs=[y])
        for op in ("Hang", "Kill")
        for version in (1, 2)
    ]


@adapter("Hang", 1, 2, domain="{DOMAIN}")
def hang(node, op):
    "It never ends."
    time.sleep(1e6)
    return KEEP


@adapter("Kill", 1, 2, domain="{DOMAIN}")
def kill(node, op):
    "It ends the process."
    os.kill(os.getpid(), signal.SIGKILL)
    return KEEP
'''


def vendor(folder: Path) -> Path:
    """A folder for the path of Python in which that vendor's package is installed."""
    place = folder / "scale_vendor-1.0.dist-info"
    place.mkdir(parents=True)
    (folder / "scale_vendor.py").write_text(VENDOR)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: scale-vendor\nVersion: 1.0\n")
    points = f"[{ADAPTERS}]\nscale = scale_vendor\n\n[{SCHEMAS}]\nscale = scale_vendor:schemas\n"
    (place / "entry_points.txt").write_text(points)
    return folder


def name_of(number: int) -> str:
    """The name of a model in the zoo."""
    return f"{number // FOLDER:05}/m{number:08}.onnx"


def deed(number: int) -> str:
    """What is wrong with a model, spread so that each thousand has one that is broken."""
    if number % BROKEN == BROKEN // 2:
        return "broken"
    if number % HANGING == HANGING // 4:
        return "hangs"
    return "kills" if number % KILLING == KILLING * 7 // 20 else ""


def models(count: int) -> Iterator[tuple[str, bytes]]:
    """The zoo: each model by name."""
    found = bases()
    for number in range(count):
        yield name_of(number), made(found, number)


def write(folder: Path, count: int) -> Folder:
    """The zoo in plain files."""
    for name, data in models(count):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Folder(folder)


@dataclass(frozen=True)
class Bases:
    """The models from which a zoo is made."""

    exported: list[ModelProto]  # empty where there is no corpus
    examples: list[ModelProto]

    def draw(self, chance: random.Random) -> ModelProto:
        """As many models of the corpus as examples."""
        kinds = [kind for kind in (self.exported, self.examples) if kind]
        return chance.choice(chance.choice(kinds))


def bases(corpus: Path = CORPUS) -> Bases:
    """The small models of a corpus, and the examples of our adapters that convert."""
    paths = (path for path in sorted(corpus.glob("*/model.onnx")) if path.stat().st_size <= SMALL)
    exported = [ModelProto.FromString(path.read_bytes()) for path in paths]
    return Bases([*filter(plain, exported)], [*filter(plain, converting())])


def plain(model: ModelProto) -> bool:
    """Whether the model is one of ai.onnx in one file, without what `rename` does not see."""
    graph = model.graph
    imports = {one.domain for one in model.opset_import}
    outside = any(one.data_location == one.EXTERNAL for one in graph.initializer)
    unseen = model.functions or model.training_info or graph.quantization_annotation
    return "" in imports and not outside and not unseen


def converting() -> Iterator[ModelProto]:
    """The examples that are models of ai.onnx alone and are neither refused nor invalid."""
    for adapter, example in testing.examples("opshift_adapters"):
        converts = not example.invalid and not example.refuses
        if adapter.at_boundary and not adapter.domain and converts:
            try:
                model = testing.example_model(adapter, example)
            except Exception:  # the installed onnx is older than the example
                continue
            if {one.domain for one in model.opset_import} == {""}:
                yield model


def made(found: Bases, number: int) -> bytes:
    """A model of the zoo: a base with other names, sizes and wires."""
    chance = random.Random(number)
    what = deed(number)
    if what in ("hangs", "kills"):
        return bad(what, number).SerializeToString()
    model = ModelProto()
    model.CopyFrom(found.draw(chance))
    rename(model.graph, f"_{number}")
    model.graph.name = f"model_{number}"
    if chance.random() < 0.5:
        resize(model, chance)
    if chance.random() < 0.5:
        rewire(model)
    data = model.SerializeToString()
    return data[: len(data) // 2] + b"\xff" if what == "broken" else data


def bad(what: str, number: int) -> ModelProto:
    """A model with a node whose adapter hangs or kills."""
    op = {"hangs": "Hang", "kills": "Kill"}[what]
    node = helper.make_node(op, ["x"], ["y"], domain=DOMAIN)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([node], f"model_{number}", [x], [y])
    imports = [helper.make_opsetid("", 12), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def rename(top: GraphProto, ending: str) -> None:
    """Gives every value another name."""
    for graph in graphs_in(top):
        for node in graph.node:
            node.input[:] = [name and name + ending for name in node.input]
            node.output[:] = [name and name + ending for name in node.output]
        for one in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            one.name += ending
        for sparse in graph.sparse_initializer:
            sparse.values.name += ending


def resize(model: ModelProto, chance: random.Random) -> None:
    """Gives the symbolic dimensions of the inputs numbers, but not the lengths of lists.

    The length of a list of sizes, axes or pads tells a rank, which the model declares elsewhere.
    """
    types = [one.type.tensor_type for one in model.graph.input]
    dims = [dim for kind in types if not _is_list(kind) for dim in kind.shape.dim]
    sizes = {dim.dim_param: chance.randint(1, 9) for dim in dims if dim.dim_param}
    for kind in filter(_is_list, types):
        sizes.pop(kind.shape.dim[0].dim_param, None)
    for graph in graphs_in(model.graph):
        for info in (*graph.input, *graph.output, *graph.value_info):
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param in sizes:
                    dim.dim_value = sizes[dim.dim_param]


def _is_list(kind: TypeProto.Tensor) -> bool:
    """Whether a value is a list of integers."""
    return kind.elem_type in (TensorProto.INT32, TensorProto.INT64) and len(kind.shape.dim) == 1


def rewire(model: ModelProto) -> None:
    """Puts an Identity between the first tensor that is given and whoever reads it."""
    known = {one.name for one in model.graph.initializer}
    for info in model.graph.input:
        if info.name not in known and info.type.HasField("tensor_type"):
            inside = info.name + "_inside"
            for graph in graphs_in(model.graph):
                for node in graph.node:
                    node.input[:] = [inside if n == info.name else n for n in node.input]
            first = NodeProto(op_type="Identity", input=[info.name], output=[inside])
            model.graph.node.insert(0, first)
            return

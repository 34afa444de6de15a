# SPDX-License-Identifier: Apache-2.0
"""Finds the values that operators accept at graph inputs, such as indices or positive numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.model.functions import functions_of
from opshift.model.scope import call_id
from opshift.model.walk import graphs_of
from opshift.opsets.identity import normal
from opshift.protos import AttributeProto, FunctionProto, ModelProto, NodeProto
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """A kind of values that `generate.py` can generate for an input.

    An index must be below the size of `data` along `axis`, or along every axis if `axis` is None.
    For an attention operator, the keys are the elements of `past` and then the elements of `data`.
    """

    kind: str
    data: str = ""
    axis: int | None = None
    past: str = ""


# Operators, with the kind of values that each input position expects.
WANTED: tuple[tuple[str, dict[int, str]], ...] = (
    ("Log Sqrt Pow", {0: "positive"}),
    ("Acos Asin Atanh", {0: "unit"}),
    ("Acosh", {0: "above one"}),
    ("Reciprocal", {0: "nonzero"}),
    ("Div Mod", {1: "nonzero"}),
    ("Bernoulli", {0: "share"}),
    ("BatchNormalization", {4: "positive"}),
    ("QuantizeLinear DequantizeLinear", {1: "positive"}),
    ("QLinearConv QLinearMatMul", {1: "positive", 4: "positive", 6: "positive"}),
    ("Gather GatherElements GatherND Scatter ScatterElements ScatterND", {1: "index"}),
    ("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", {1: "index"}),
    ("OneHot", {0: "zero to two", 1: "three"}),
    ("MaxUnpool BitShift", {1: "zero to two"}),
    ("SequenceAt SequenceErase CumSum Trilu MaxRoiPool", {1: "zero"}),
    ("SequenceInsert RoiAlign", {2: "zero"}),
    ("Reshape", {1: "shape"}),
    ("Expand TopK Pad Upsample ReverseSequence", {1: "one"}),
    ("Tile", {1: "two"}),
    ("ConstantOfShape", {0: "two"}),
    ("Range", {0: "zero", 1: "three", 2: "one"}),
    ("Slice", {1: "zero", 2: "far", 3: "places", 4: "one"}),
    ("Loop", {0: "three", 1: "true"}),
    ("Dropout", {1: "share", 2: "false"}),
    ("Clip", {1: "low", 2: "high"}),
    ("Resize", {2: "one"}),
    ("RNN GRU LSTM", {4: "one"}),
    ("NonMaxSuppression", {2: "three", 3: "share", 4: "share"}),
    ("GridSample", {1: "unit"}),
    ("HannWindow HammingWindow BlackmanWindow", {0: "three"}),
    ("Squeeze Unsqueeze ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd", {1: "places"}),
    ("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare", {1: "places"}),
)
USES = {("", op): wanted for ops, wanted in WANTED for op in ops.split()}
# the number of keys of an attention, and the index of the last key
KEYS, LAST_KEY = "keys", "last key"
MICROSOFT = "com.microsoft"
USES |= {
    (MICROSOFT, "Attention"): {3: "mask", 6: "zero"},
    (MICROSOFT, "MultiHeadAttention"): {4: "mask", 8: "zero"},
    (MICROSOFT, "DecoderMaskedMultiHeadAttention"): {3: "mask", 7: "zero"},
    (MICROSOFT, "GroupQueryAttention"): {5: LAST_KEY, 6: KEYS, 9: "zero"},
    (MICROSOFT, "RotaryEmbedding"): {1: "zero"},
}
# If an input needs several kinds of values, the first kind in this order is chosen.
ORDER = (
    *("true", "false", "shape", "places", LAST_KEY, KEYS, "index"),
    *("zero", "one", "two", "three", "far"),
    *("zero to two", "unit", "above one", "share", "low", "high", "positive", "nonzero", "mask"),
)
AXIS = {"Gather": 0, "GatherElements": 0, "Scatter": 0, "ScatterElements": 0}
CLASSES = frozenset({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})

# Operators whose outputs contain elements of the first input, or of all inputs, unchanged.
_CARRYING = (
    "Identity Cast Reshape Flatten Squeeze Unsqueeze Transpose Slice Split Expand Tile Gather"
    " Concat Dropout OptionalGetElement Optional"
)
CARRYING = frozenset(_CARRYING.split())
# Operators with positive outputs if all inputs are positive.
_POSITIVE = (
    "Add Mul Div Sum Mean Max Min MatMul Pow Sqrt ReduceSum ReduceMean ReduceMax ReduceMin"
    " ReduceProd AveragePool GlobalAveragePool MaxPool GlobalMaxPool Exp"
)
KEEPING_POSITIVE = CARRYING | frozenset(_POSITIVE.split())
MIXING = KEEPING_POSITIVE - (CARRYING - {"Concat"})

Origins = dict[str, frozenset[str]]


class Tracer:
    """Follows every graph input to the operators that restrict its values."""

    def __init__(self, model: ModelProto) -> None:
        self.functions = functions_of(model)
        self.found: dict[str, set[Hint]] = {}
        names = [info.name for info in model.graph.input]
        start = {name: frozenset((name,)) for name in names}
        self.nodes(model.graph.node, dict(start), dict(start))

    def nodes(self, nodes: Iterable[NodeProto], exact: Origins, positive: Origins) -> None:
        """Records the kinds of values that these nodes expect from graph inputs."""
        for node in nodes:
            function = self.functions.get(call_id(node))
            if function is not None:
                self.call(node, function, exact, positive)
                continue
            for _, graph in graphs_of(node):
                self.nodes(graph.node, dict(exact), dict(positive))
            self.wants(node, exact, positive)
            if not normal(node.domain):
                _carry(node, exact, CARRYING)
                _carry(node, positive, KEEPING_POSITIVE)

    def call(
        self, node: NodeProto, function: FunctionProto, exact: Origins, positive: Origins
    ) -> None:
        """Follows values into the body of a function, where the inputs have other names."""
        inner: list[Origins] = []
        for origins in (exact, positive):
            pairs = zip(function.input, node.input, strict=False)
            inner.append({mine: origins[name] for mine, name in pairs if name in origins})
        self.nodes(function.node, *inner)
        for mine, name in zip(function.output, node.output, strict=False):
            for origins, inside in zip((exact, positive), inner, strict=True):
                if mine in inside:
                    origins[name] = inside[mine]

    def wants(self, node: NodeProto, exact: Origins, positive: Origins) -> None:
        for position, kind in USES.get((normal(node.domain), node.op_type), {}).items():
            if position < len(node.input):
                origins = positive if kind == "positive" else exact
                for name in origins.get(node.input[position], ()):
                    self.found.setdefault(name, set()).add(_hint(node, kind))


def _carry(node: NodeProto, origins: Origins, through: frozenset[str]) -> None:
    if node.op_type not in through:
        return
    sources = node.input if node.op_type in MIXING else node.input[:1]
    origin_names = frozenset().union(*(origins.get(name, frozenset()) for name in sources))
    if origin_names:
        origins.update((name, origin_names) for name in node.output if name)


def _hint(node: NodeProto, kind: str) -> Hint:
    if kind in (KEYS, LAST_KEY):
        return Hint(kind, node.input[0], past=node.input[3])
    if kind != "index":
        return Hint(kind)
    axis: int | None = 1 if node.op_type in CLASSES else AXIS.get(node.op_type)
    for attribute in node.attribute:
        if attribute.name == "axis" and attribute.type == AttributeProto.INT:
            axis = attribute.i
    return Hint(kind, node.input[0], axis)


def hints(model: ModelProto) -> Mapping[str, tuple[Hint, ...]]:
    """Returns the kinds of values that each graph input must have, the strictest first."""
    by_input = Tracer(model).found
    for info in model.graph.input:
        if "mask" in info.name.lower():  # no operator requires the ones and zeros of a mask
            by_input.setdefault(info.name, set()).add(Hint("mask"))
    return {
        name: tuple(sorted(group, key=lambda hint: (ORDER.index(hint.kind), hint.data, str(hint))))
        for name, group in by_input.items()
    }

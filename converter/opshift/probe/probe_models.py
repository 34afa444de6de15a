# SPDX-License-Identifier: Apache-2.0
"""Generates the models of a probe: one node for each version, element type and set of attributes.

The models come from the examples of the adapters. An example is copied to the other versions of its
operator and to other element types, if the copy is a legal model and our evaluator can compute it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Annotated, Any

import numpy as np

from opshift import versions
from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.json_form import Form
from opshift.model.arrays import from_array, to_array
from opshift.opsets import probed, schemas
from opshift.opsets.elements import T
from opshift.opsets.kernels import COMMON
from opshift.opsets.schemas import Schema
from opshift.opsets.types import elements_by_variable, rank_of
from opshift.protos import ModelProto, NodeProto, TensorProto, TypeProto, onnx_checker
from opshift.records import dataclass
from opshift.testing.case_files import examples_of
from opshift.testing.example_models import example_model, too_new
from opshift.testing.models import parsed
from opshift.text import qualified
from opshift.verify import generate, oracle, randomness
from opshift.verify.oracle.values import dtype_of

Key = tuple[str, str]  # (domain, operator)
Types = tuple[str, ...]
DOMAINS = ("", versions.ML)
OLDEST = 7  # the oldest opset that many runtimes support
LARGE = 1e4  # runtimes overflow at different numbers above this
COPIES = 2  # the number of copies for one choice of element types
# Element types that can be sent to another Python; the most common come first.
SENT = (*COMMON, "int16", "uint16", "uint32", "uint64")
INDICES = "indices"  # the name of the second input in schemas of operators that gather elements
OTHERS = (  # operators that no version changes in a way that needs an adapter
    "(bool[2, 3] x) => (bool[2, 3] y) { y = Not(x) }",
    "(float[1, 2, 3, 4] x) => (float[1, 2, 1, 1] y) { y = GlobalMaxPool(x) }",
    "(float[1, 3, 2, 2] x) => (float[1, 3, 2, 2] y) { y = LRN<size = 3>(x) }",
)


@dataclass(frozen=True, slots=True)
class ProbeModel:
    """A model of one node, with its operator, its element types, and its attributes and inputs."""

    key: Key
    since: int
    types: Types
    features: frozenset[str]
    model: ModelProto
    given: Mapping[str, Any]  # values for some of the inputs

    @property
    def form(self) -> frozenset[str]:
        """The features of the node (attributes, inputs, rank), without attribute values."""
        return _form(self.features)

    @property
    def rank(self) -> tuple[bool, bool, int, int]:
        """The sort key of the model: common types and nodes with few optional parts come first."""
        names = [SENT.index(kind) for kind in self.types if kind in SENT]
        plain = len(self.form)
        return max(names, default=0) > 0, plain > 0, max(names, default=0), plain

    @property
    def constants(self) -> int:
        """The number of inputs that are constants."""
        return len(self.model.graph.initializer)


@dataclass(frozen=True, slots=True)
class ProbeResult(Form):
    """The outcome of one model in a runtime; `detail` is an error message or a difference."""

    ALSO = ("op", "domain", "version")
    HIDDEN = ("key", "since")

    key: Key
    since: int
    types: Types
    """The element types of the type variables of the operator."""
    features: frozenset[str]
    """The attributes, optional inputs and outputs of the node, and the rank of its first input."""
    outcome: Annotated[str, probed.RUNS, probed.WRONG, probed.REFUSED, probed.DIES]
    """The outcome in the runtime."""
    detail: str = ""
    """The message of the runtime, or the first difference."""

    @property
    def op(self) -> str:
        """The operator."""
        return self.key[1]

    @property
    def domain(self) -> str:
        """The domain of the operator; empty for ai.onnx."""
        return self.key[0]

    @property
    def version(self) -> int:
        """The version of the operator."""
        return self.since

    def __str__(self) -> str:
        kinds = ", ".join(filter(None, self.types))
        of = f" of {kinds}" if kinds else ""
        valued = {feature.partition("=")[0] for feature in self.features if "=" in feature}
        form = " ".join(probed.named(feature) for feature in sorted(self.features - valued))
        with_form = f" with {form}" if form else ""
        return f"{qualified(*self.key)} {self.since}{of}{with_form}: {self.detail}"


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """A model with inputs, and the outputs that our evaluator computes."""

    probe: ProbeModel
    model: ModelProto
    inputs: Mapping[str, Any]
    expected: Mapping[str, Any]
    random: frozenset[str]  # the outputs that depend on random numbers


def models(adapters: Registry, ops: Collection[str] = ()) -> list[ProbeModel]:
    """Returns the models of a probe in order; `ops` are names of operators, empty for all."""
    by_content: dict[Hashable, ProbeModel] = {}
    counts, forms = Counter[Hashable](), set[Hashable]()
    for model, values in _sources(adapters, ops):
        negative = _negative(model, values)
        for copy in _copies(model):
            features = copy.features | negative
            place = copy.key, copy.since, copy.types
            form = copy.key, copy.since, _form(features)
            is_new = copy.original or counts[place] < COPIES or form not in forms
            same = (*place, features, len(model.graph.initializer))
            if is_new and same not in by_content and (typed := copy.model()) is not None:
                counts[place] += 1
                forms.add(form)
                by_content[same] = ProbeModel(*place, features, typed, values)
    ordered = sorted(by_content.values(), key=lambda probe: (probe.rank, probe.key, -probe.since))
    first: dict[Hashable, ProbeModel] = {}
    for probe_model in ordered:
        first.setdefault((probe_model.key, probe_model.since), probe_model)
    front = set(map(id, first.values()))
    return sorted(ordered, key=lambda probe: id(probe) not in front)


def _sources(
    adapters: Registry, ops: Collection[str]
) -> Iterator[tuple[ModelProto, Mapping[str, Any]]]:
    """Yields the examples with one node, and values for their inputs."""
    for adapter in adapters.adapters():
        if adapter.domain not in DOMAINS or (ops and not set(ops).intersection(adapter.ops)):
            continue
        for example in examples_of(adapter):
            if example.invalid is None and not example.functions and not too_new(adapter, example):
                model = example_model(adapter, example)
                if (node := _node(model)) is not None and (not ops or node.op_type in ops):
                    for values in _given(model, node, example.inputs):
                        yield model, values
                        constant = _with_constants(model, values, adapters)
                        if constant is not None:
                            yield constant, values
    for text in OTHERS:
        model = parsed(f'<ir_version: 4, opset_import: ["" : {OLDEST}]> probe {text}')
        if not ops or model.graph.node[0].op_type in ops:
            yield model, {}


def _given(
    model: ModelProto, node: NodeProto, inputs: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yields the inputs of an example; if they have negative indices, first a copy without them."""
    types = {info.name: info.type.tensor_type for info in model.graph.input}
    data = types.get(node.input[0]) if node.input else None
    shape = [dim.dim_value for dim in data.shape.dim] if data is not None else [0]
    if _negative(model, inputs) and node.input[1] in inputs and all(shape):
        indices = np.asarray(inputs[node.input[1]])
        attributes = {attribute.name: attribute.i for attribute in node.attribute}
        sizes: Any = shape[attributes.get("axis", 0)]
        if "axis" not in schemas.history(schemas.normal(node.domain), node.op_type)[-1].attributes:
            first = attributes.get("batch_dims", 0)
            sizes = shape[first : first + indices.shape[-1]]
        yield {**inputs, node.input[1]: np.where(indices < 0, indices + sizes, indices)}
    yield inputs


def _negative(model: ModelProto, inputs: Mapping[str, Any]) -> frozenset[str]:
    """Returns the set of the feature NEGATIVE if the model has negative indices; else empty."""
    node = _node(model)
    history = schemas.history(schemas.normal(node.domain), node.op_type) if node is not None else ()
    if (
        node is None
        or not history
        or [param.name for param in history[-1].inputs[1:2]] != [INDICES]
    ):
        return frozenset()
    constants = {tensor.name: to_array(tensor) for tensor in _constants(model)}
    indices = inputs.get(node.input[1], constants.get(node.input[1], 0))
    return frozenset({probed.NEGATIVE} if np.any(np.asarray(indices) < 0) else ())


def _with_constants(
    model: ModelProto, inputs: Mapping[str, Any], adapters: Registry
) -> ModelProto | None:
    """Replaces all inputs except the first by constants, as is usual for weights and axes."""
    names = {tensor.name for tensor in model.graph.initializer}
    free = [info for info in model.graph.input if info.name not in names]
    if len(free) < 2 or model.ir_version < 4:
        return None
    generated = next(generate.cases(model, 0, generate.FIRST[:1], adapters)).values
    names_of_free = {info.name for info in free}
    stated = {name: value for name, value in inputs.items() if name in names_of_free}
    values = oracle.make_inputs(model, overrides={**generated, **stated})
    if not all(isinstance(values[info.name], np.ndarray) for info in free):
        return None
    copy = ModelProto()
    copy.CopyFrom(model)
    for info in free[1:]:
        copy.graph.input.remove(info)
        copy.graph.initializer.append(from_array(values[info.name], info.name))
    return copy


def _node(model: ModelProto) -> NodeProto | None:
    """Returns the only node of a model; None if it has several nodes."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    only = len(nodes) == 1 and schemas.normal(nodes[0].domain) in DOMAINS
    return nodes[0] if only else None


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of an example; its model is built on demand, because most copies are not selected."""

    key: Key
    since: int
    types: Types
    features: frozenset[str]
    original: bool
    base: ModelProto
    retyped: Callable[[], ModelProto | None] | None

    def model(self) -> ModelProto | None:
        """Builds the model; returns None if a constant cannot have its type."""
        return self.retyped() if self.retyped is not None else self.base


def _form(features: frozenset[str]) -> frozenset[str]:
    return frozenset(feature for feature in features if "=" not in feature)


def _copies(model: ModelProto) -> Iterator[Copy]:
    """Yields the model, then its node at other versions and with other element types."""
    node = _node(model)
    assert node is not None
    key = schemas.normal(node.domain), node.op_type
    imports = {schemas.normal(entry.domain): entry.version for entry in model.opset_import}
    version = imports.get(key[0], 1)
    value_types = _types(model)
    rank = rank_of(value_types.get(node.input[0])) if node.input else None
    history = schemas.history(*key)
    for number, schema in enumerate(history):
        end = history[number + 1].since - 1 if number + 1 < len(history) else 1 << 30
        if schema.deprecated:
            continue
        at = version if schema.since <= version <= end else min(max(schema.since, OLDEST), end)
        if key[0]:
            at = version if schema.since <= version <= end else schema.since
        copy = model if at == version else _at_version(model, key[0], at)
        features = probed.features(node, schema, rank)
        for types, make in _of_types(copy, schema):
            if all(kind in ("", *SENT) or "(" in kind for kind in types):
                original = copy is model and make is None
                yield Copy(key, schema.since, types, features, original, copy, make)


def _at_version(model: ModelProto, domain: str, version: int) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    for opset in copy.opset_import:
        if schemas.normal(opset.domain) == domain:
            opset.version = version
    imports = {schemas.normal(entry.domain): entry.version for entry in copy.opset_import}
    copy.ir_version = max(versions.ir_for(imports), 4)
    return copy


# -- element types -------------------------------------------------------------------------------


def _types(model: ModelProto) -> dict[str, TypeProto]:
    types = {info.name: info.type for info in (*model.graph.input, *model.graph.output)}
    for tensor in _constants(model):
        types[tensor.name] = TypeProto()
        types[tensor.name].tensor_type.elem_type = tensor.data_type
        types[tensor.name].tensor_type.shape.SetInParent()
        for size in tensor.dims:
            types[tensor.name].tensor_type.shape.dim.add().dim_value = size
    return types


def _constants(model: ModelProto) -> Iterator[TensorProto]:
    """Yields the initializers, and the tensors of Constant nodes named by their outputs."""
    yield from model.graph.initializer
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            node.attribute[0].t.name = node.output[0]
            yield node.attribute[0].t


def _chosen(model: ModelProto, schema: Schema) -> dict[str, str]:
    """Returns the element type of each type variable that the node uses."""
    node, types = _node(model), _types(model)
    assert node is not None
    return elements_by_variable(node, schema, types.get)


def _of_types(
    model: ModelProto, schema: Schema
) -> Iterator[tuple[Types, Callable[[], ModelProto | None] | None]]:
    """Yields the model's element types, then variants in which one type variable differs."""
    variables, chosen = probed.variables(schema), _chosen(model, schema)
    yield tuple(chosen.get(type_variable, "") for type_variable in variables), None
    allowed = schema.types_by_variable
    for variable in variables:
        for kind in SENT if chosen.get(variable) in SENT else ():
            if kind != chosen[variable] and f"tensor({kind})" in allowed[variable]:
                types = {**chosen, variable: kind}
                make = functools.partial(_retyped, model, schema, variable, kind)
                yield tuple(types.get(type_variable, "") for type_variable in variables), make


def _retyped(model: ModelProto, schema: Schema, variable: str, kind: str) -> ModelProto | None:
    """Returns the model with another element type for a type variable; None if impossible."""
    copy = ModelProto()
    copy.CopyFrom(model)
    node = _node(copy)
    assert node is not None
    number = schemas.element_number(kind)
    places = [*_named(node.input, schema.input_at), *_named(node.output, schema.output_at)]
    names = {name for name, of in places if of == variable}
    for info in (*copy.graph.input, *copy.graph.output):
        if info.name in names and info.type.HasField("tensor_type"):
            info.type.tensor_type.elem_type = number
    for tensor in _constants(copy):
        if tensor.name in names:
            value = to_array(tensor)
            if "O" in (value.dtype.kind, dtype_of(number).kind):
                return None
            with np.errstate(all="ignore"):
                tensor.CopyFrom(from_array(value.astype(dtype_of(number)), tensor.name))
    return copy


def _named(names: Iterable[str], at: Any) -> Iterator[tuple[str, str]]:
    for i, name in enumerate(names):
        param = at(i)
        if name and param is not None:
            yield name, param.variable


# -- inputs and expected values ------------------------------------------------------------------


def case(probe: ProbeModel, adapters: Registry) -> ProbeCase | None:
    """Returns the model with inputs and expected results; None if it cannot be computed."""
    model = _legal(probe.model, adapters)
    if model is None or oracle.doubtful(model):
        return None
    generated = next(generate.cases(model, 0, generate.FIRST[:1], adapters)).values
    types = {info.name: info.type for info in model.graph.input}
    stated = {name: v for name, v in probe.given.items() if name in types and _fits(v, types[name])}
    try:
        with np.errstate(all="ignore"):
            inputs = oracle.make_inputs(model, overrides={**generated, **stated})
            values = oracle.evaluate(model, inputs)
    # onnx accepts some copies of examples whose computation is undefined
    except oracle.OracleError:
        return None
    names = [info.name for info in model.graph.output]
    expected = dict(zip(names, values, strict=True))
    return ProbeCase(
        probe, model, inputs, expected, frozenset(randomness.drawn(model).intersection(names))
    )


def _fits(value: Any, declared: TypeProto) -> bool:
    """Returns whether the numbers of an example are ordinary numbers of this element type.

    An example may contain infinite or equal numbers, for which runtimes legitimately differ, and
    which models rarely contain.
    """
    number = declared.tensor_type.elem_type
    if not number or dtype_of(number).kind not in "iuf":
        return True
    numbers = np.asarray(value)
    if numbers.dtype.kind == "f" and not np.all(np.abs(numbers) <= LARGE):
        return False
    if dtype_of(number).kind == "f":
        return numbers.ndim < 2 or len(np.unique(numbers)) == numbers.size
    low, high = T(number).element.limits
    return all(low <= int(element) <= high for element in numbers.flat)


def _legal(model: ModelProto, adapters: Registry) -> ModelProto | None:
    """Returns the model with inferred outputs; None if onnx rejects it."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.output:
        info.ClearField("type")
    try:
        inferred = safe_inference.infer(copy, adapters, strict=True, data_prop=True)
        declared = {info.name: info.type for info in model.graph.output}
        for info in inferred.graph.output:
            if info.type.WhichOneof("value") is None:
                info.type.CopyFrom(declared[info.name])
        del inferred.graph.value_info[:]
        onnx_checker.check_model(inferred, full_check=True)
    except safe_inference.COMPLAINTS:
        return None
    return inferred

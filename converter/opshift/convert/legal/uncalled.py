# SPDX-License-Identifier: Apache-2.0
"""Adds calls of uncalled functions, so that inference and the checker visit their bodies.

The nodes of a function show the element types that its inputs may have: values that share a type
variable of an operator have equal types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from opshift.author import safe_inference
from opshift.author.attributes import CONSTANT_FORMS
from opshift.author.registry import Registry
from opshift.author.scope_types import by_graph
from opshift.convert.legal import checker
from opshift.convert.legal.function_rules import never_called
from opshift.model.document import Document, function_id
from opshift.model.functions import functions_of
from opshift.model.scope import call_id
from opshift.model.walk import nodes_in
from opshift.opsets import schemas
from opshift.opsets.elements import ELEMENTS
from opshift.opsets.types import without_lengths
from opshift.protos import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)

RANKS = (2, 1, 3, 4)  # of a single input, which is hardly ever a scalar
RANKS_BESIDE = (*RANKS, 0)  # of an input among several
MOST_CALLS = 20  # the limit of calls for a function, plus the same number for each input
_VALUES = {
    AttributeProto.INT: AttributeProto(i=1),
    AttributeProto.FLOAT: AttributeProto(f=1.0),
    AttributeProto.INTS: AttributeProto(ints=[1]),
    AttributeProto.FLOATS: AttributeProto(floats=[1.0]),
}


def faulty_calls(before: ModelProto, after: ModelProto, adapters: Registry) -> Iterator[ModelProto]:
    """Yields models with a call of a function that onnx accepts only before a conversion.

    Inference accepts some types and ranks that an operator does not support. Therefore a function
    is at fault only if onnx rejects every call that it accepted before.
    """
    document = Document(before)
    now = {function_id(function): function for function in after.functions}
    for which in never_called(document):
        function = document.functions[which]
        if which in now and now[which].node != function.node:
            search = CallSearch(before, after, function, adapters)
            if not search.finds() and search.fault is not None:
                yield search.fault


class CallSearch:
    """The search for a call of a function that onnx accepts before and after a conversion.

    The search begins with a call whose inputs have unknown ranks. If onnx rejects this call, the
    search ends. If onnx accepts the call with unknown ranks, the search tries ranks, at first for
    one input at a time.
    """

    def __init__(
        self, before: ModelProto, after: ModelProto, function: FunctionProto, adapters: Registry
    ) -> None:
        self.before, self.after = before, after
        self.function, self.adapters = function, adapters
        self.left = MOST_CALLS * (1 + len(function.input))
        # a call that onnx accepts before the conversion, but not after it
        self.fault: ModelProto | None = None

    def finds(self) -> bool:
        """Returns whether such a call exists, or the limit of calls was exceeded."""
        for kinds in guesses(self.function):
            count = len(kinds)
            if any(self._passes(kinds, (rank,) * count) for rank in RANKS if count):
                return True
            allowed = list(self._allowed(kinds)) if self._passes(kinds, (None,) * count) else [()]
            if self._fits(kinds, allowed, ()):
                return True
        return self.left < 0

    def _allowed(self, kinds: Sequence[str]) -> Iterator[Sequence[int]]:
        """Yields, for each input, the ranks that onnx accepts while other ranks are unknown."""
        for i in range(len(kinds)):
            unknown_ranks = (None,) * i, (None,) * (len(kinds) - i - 1)
            ranks = RANKS_BESIDE if len(kinds) > 1 else RANKS
            yield [
                rank
                for rank in ranks
                if self._passes(kinds, (*unknown_ranks[0], rank, *unknown_ranks[1]))
            ]

    def _fits(
        self, kinds: Sequence[str], allowed: Sequence[Sequence[int]], ranks: tuple[int, ...]
    ) -> bool:
        """Returns whether onnx accepts a call whose first inputs have the given ranks."""
        if not all(allowed):
            return False
        unknown = (None,) * (len(kinds) - len(ranks))
        if len(ranks) > 1 and not self._passes(kinds, (*ranks, *unknown)):
            return False
        if not unknown:
            return True
        return any(self._fits(kinds, allowed, (*ranks, rank)) for rank in allowed[len(ranks)])

    def _passes(self, kinds: Sequence[str], ranks: Sequence[int | None]) -> bool:
        """Returns whether onnx accepts a call before and after the conversion."""
        self.left -= 1
        if self.left < 0:
            return False
        inputs = map(_value, self.function.input, kinds, ranks)
        call = _accepted(self.before, self.function, inputs, self.adapters)
        if call is None:
            return False
        passes = _is_sound(_with_functions(self.after, call.graph), self.adapters)
        self.fault = self.fault or (None if passes else call)
        return passes


def _accepted(
    model: ModelProto, function: FunctionProto, inputs: Iterable[ValueInfoProto], adapters: Registry
) -> ModelProto | None:
    """Returns a call of a function with the given inputs, or None if onnx rejects it."""
    if (attributes := _attributes(function)) is None:
        return None
    graph = GraphProto(name=function.name, input=inputs)
    graph.node.add(
        op_type=function.name, domain=function.domain, overload=function.overload,
        input=function.input, output=function.output, attribute=attributes,
    )  # fmt: skip
    call = _with_functions(model, graph)
    if not _is_sound(call, adapters):
        return None
    inferred = by_graph(safe_inference.infer(call, adapters))[0].own
    for name in function.output:
        inferred_type = inferred.get(name)
        if inferred_type is not None and schemas.type_name(inferred_type) is not None:
            call.graph.output.append(ValueInfoProto(name=name, type=without_lengths(inferred_type)))
    return call if call.graph.output and _is_sound(call, adapters) else None


def _with_functions(model: ModelProto, graph: GraphProto) -> ModelProto:
    """Returns a model of a graph with one call, and with the functions of `model` for this call."""
    imported, (call,) = model.opset_import, graph.node
    caller = ModelProto(ir_version=model.ir_version, opset_import=imported, graph=graph)
    if call.domain not in {opset.domain for opset in imported}:
        caller.opset_import.add(domain=call.domain, version=1)
    functions_by_id, waiting = functions_of(model), [call]
    while waiting:
        function = functions_by_id.pop(call_id(waiting.pop()), None)
        if function is not None:
            caller.functions.append(function)
            waiting += nodes_in(function)
    return caller


def _is_sound(call: ModelProto, adapters: Registry) -> bool:
    return checker.lenient(call, adapters, full=True) is None


def _attributes(function: FunctionProto) -> list[AttributeProto] | None:
    """Returns a value for each attribute without a default, or None if this is impossible."""
    kinds = {
        attribute.ref_attr_name: attribute.type
        for node in nodes_in(function)
        for attribute in node.attribute
    }
    values = []
    for name in function.attribute:
        if name not in kinds:
            continue
        if kinds[name] not in _VALUES:
            return None
        value = AttributeProto(name=name, type=kinds[name])
        value.MergeFrom(_VALUES[kinds[name]])
        values.append(value)
    return values


def _value(name: str, kind: str, rank: int | None) -> ValueInfoProto:
    """Returns a graph input with a given name, element type and rank, and with unknown sizes."""
    info = ValueInfoProto(name=name)
    info.type.tensor_type.elem_type = TensorProto.DataType.Value(kind.upper())
    if rank is not None:
        info.type.tensor_type.shape.SetInParent()
    for _ in range(rank or 0):
        info.type.tensor_type.shape.dim.add()
    return info


# -- the types of inputs ---------------------------------------------------------------------------


LIKELY = ("float", "double", "float16", "string", "bool", "uint8", "int32", "int64")
EVERY = (*LIKELY, *(row.name for row in ELEMENTS.values() if row.name not in LIKELY))
_NAMES = {"float32": "float", "object": "string"}  # numpy's names of types

Choices = dict[str, frozenset[str]]
Group = tuple[tuple[str, ...], frozenset[str]]  # names with equal types, and the possible types


def guesses(function: FunctionProto) -> Iterator[list[str]]:
    """Yields input types that all nodes accept together: floats first, then integers."""
    groups = list(_groups(function))
    for order in (EVERY, (*reversed(LIKELY), *EVERY[len(LIKELY) :])):
        choices = _narrowed({}, groups)
        for name in function.input:
            kind = next((element for element in order if element in choices.get(name, EVERY)), "")
            choices = _narrowed({**choices, name: frozenset({kind})}, groups)
        if all(choices.values()):
            yield [next(iter(choices[name])) for name in function.input]


def _narrowed(choices: Choices, groups: Sequence[Group]) -> Choices:
    """Returns the types that each value may still have."""
    narrowed, before = dict(choices), None
    while narrowed != before:
        before = dict(narrowed)
        for names, types in groups:
            common = types.intersection(*(narrowed.get(name, types) for name in names))
            narrowed.update(dict.fromkeys(names, common))
    return narrowed


def _groups(function: FunctionProto) -> Iterator[Group]:
    """Yields values that share a type variable of a node, with the types that it allows."""
    imports = {schemas.normal(opset.domain): opset.version for opset in function.opset_import}
    for node in nodes_in(function):
        domain = schemas.normal(node.domain)
        schema = schemas.schema(domain, node.op_type, imports.get(domain, 0))
        if schema is None:
            continue
        shared: dict[tuple[str, frozenset[str]], list[str]] = {}
        for name, param in schema.ends(node.input, node.output):
            types = frozenset(element for element in EVERY if f"tensor({element})" in param.types)
            if types:
                apart = "" if param.homogeneous else name
                shared.setdefault((param.variable + apart, types), []).append(name)
        for (_, types), names in shared.items():
            yield tuple(names), types
        yield from _constant(node)


def _constant(node: NodeProto) -> Iterator[Group]:
    """Yields the type of a constant, from the attribute with its value."""
    for attribute in node.attribute if len(node.output) == 1 else ():
        kind = CONSTANT_FORMS.get(attribute.name)
        if attribute.name == "value":
            kind = schemas.element_name(attribute.t.data_type)
        if kind is not None:
            yield (node.output[0],), frozenset({_NAMES.get(kind, kind)})

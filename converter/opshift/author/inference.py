# SPDX-License-Identifier: Apache-2.0
"""Infers types with onnx, for a whole model or for one node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from opshift.author import corrected, declared, induction, safe_inference
from opshift.author.env import ModelEnv, TypesOnly
from opshift.author.graph_results import types_of_results
from opshift.author.model_bytes import ModelBytes
from opshift.author.node import Env, Node
from opshift.author.present_types import TYPE_ATTRIBUTES
from opshift.author.scope_types import GraphTypes, Inferred, Path, by_graph, by_name
from opshift.author.traits import (
    Carries,
    DeclaredRules,
    OutputRanks,
    OutputShapes,
    OutputTypes,
    answer_of,
)
from opshift.model.imports import versions
from opshift.model.scope import tensor_type
from opshift.model.walk import holds_graphs, reads
from opshift.opsets import schemas
from opshift.opsets.output_rank import output_rank
from opshift.opsets.types import LARGEST_RANK, dims_of, is_readable, rank_of, without_lengths
from opshift.protos import (
    IR_VERSION,
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    TypeProto,
)
from opshift.protos.shape_inference import infer_node_outputs

Rules = Mapping[tuple[str, str], OutputRanks]
Place = tuple[Path, str]  # a graph, and the name of a value in it
LOWEST = 6  # below this opset, about forty operators have no inference
PASSES = 4  # passes over the whole model; longer chains are inferred value by value


class Known(NamedTuple):
    """The types that whole-model inference finds, and the values that depend on declared types."""

    types: Inferred  # by name; None if graphs use a name for different types, or shadow it
    graphs: Mapping[Path, Inferred]
    assumed: Mapping[str, Sequence[Path]]  # values whose rank follows from a declared rank
    counted: Mapping[str, Sequence[Path]]  # values with a length that follows from a declared rank


def infer_all(model: bytes | ModelProto, adapters: DeclaredRules) -> Known:
    """Infers the types of the values in each graph: from the inputs, then with declared types."""
    source = ModelBytes.of(model)
    nested = source.content.is_nested
    proved, alone = induction.confirm(
        declared.without(source.data, nested=nested),
        lambda one: _infer(one, adapters, nested=nested),
        adapters.rules(Carries),
        ModelProto.FromString(source.data) if nested else ModelProto(),
        nested=nested,
    )
    lacks = declared.lacking(alone, model, nested=nested) if alone is not None else ()
    if alone is None or not lacks:
        return _known(proved, (), ())
    before = _lengths(proved)  # before the declarations are written into the inferred model
    declared.restore(lacks)
    scopes, _ = _infer(alone, adapters, nested=nested)
    after = _lengths(scopes)
    ranked = after.keys() - before.keys()
    return _known(
        scopes, ranked, (one for one in before if after.get(one, before[one]) - before[one])
    )


def _known(
    scopes: Sequence[GraphTypes], assumed: Iterable[Place], counted: Iterable[Place]
) -> Known:
    shadowing = [*_shadowing(scopes)]
    for one, name in shadowing:
        for own in one.visible.maps:
            if name in own:
                own[name] = None
    graphs = {scope.path: scope.own for scope in scopes}
    types = by_name(scopes) | dict.fromkeys(name for _, name in shadowing)
    return Known(types, graphs, _paths(assumed), _paths(counted))


def _shadowing(scopes: Iterable[GraphTypes]) -> Iterator[tuple[GraphTypes, str]]:
    """Yields computed values that inference confuses with an outer value of the same name."""
    for scope in scopes:
        if scope.path:
            around = scope.visible.parents
            outputs = (name for node in scope.graph.node for name in node.output)
            yield from ((scope, name) for name in outputs if name and name in around)


def _paths(places: Iterable[Place]) -> Mapping[str, Sequence[Path]]:
    paths: dict[str, list[Path]] = {}
    for path, name in places:
        paths.setdefault(name, []).append(path)
    return paths


def _lengths(scopes: Sequence[GraphTypes]) -> dict[Place, frozenset[tuple[int, int]]]:
    """Returns the known lengths, by axis, of each value of known rank."""
    return {
        (scope.path, name): frozenset(
            (axis, dim) for axis, dim in enumerate(dims_of(kind)) if isinstance(dim, int)
        )
        for scope in scopes
        for name, kind in scope.own.items()
        if kind is not None and rank_of(kind) is not None
    }


def _infer(
    model: ModelProto, adapters: DeclaredRules, *, nested: bool
) -> tuple[list[GraphTypes], ModelProto | None]:
    """Runs inference in several passes; finds no types if the first pass rejects the model."""
    scopes: list[GraphTypes] = []
    inferred: ModelProto | None = None
    seen = ModelBytes.of(model)
    for _ in range(PASSES):
        try:
            model = inferred = corrected.infer(seen, adapters)
        except safe_inference.COMPLAINTS:
            # If inference rejects a model, opshift uses the declarations of the model.
            return scopes, inferred
        scopes = by_graph(model, nested=nested)
        if not _write_ranks(model, scopes, adapters.rules(OutputRanks)):
            return scopes, model
        seen = ModelBytes(model.SerializeToString(), seen.may_be_hidden)  # it has the same nodes
    return scopes, inferred


def _write_ranks(model: ModelProto, scopes: Sequence[GraphTypes], ranks: Rules) -> bool:
    """Writes the ranks that rules give into types without a rank, for the next pass."""
    imported = versions(model)
    written, names = False, {op for _, op in ranks}
    for graph, _, visible in scopes:
        env, types = TypesOnly(visible), visible.maps[0]
        for node in graph.node:
            if node.op_type not in names:
                continue
            rule = ranks.get((schemas.normal(node.domain), node.op_type))
            if rule is not None and any(map(_lacks_rank, map(types.get, node.output))):
                schema = schemas.schema(rule.domain, node.op_type, imported.get(rule.domain, 0))
                ranks_of_node = ranks_by_rule(rule, node, schema, env)
                for kind, rank in zip(map(types.get, node.output), ranks_of_node, strict=False):
                    if kind is not None and _lacks_rank(kind):
                        give_rank(kind.tensor_type, rank)
                        written = True
    return written


def _lacks_rank(kind: TypeProto | None) -> bool:
    """Returns whether a type is a tensor type without a rank."""
    return kind is not None and kind.HasField("tensor_type") and rank_of(kind) is None


def infer_node(node: NodeProto, env: ModelEnv, version: int | None = None) -> dict[str, TypeProto]:
    """Infers a node's output types from its input types; each unknown length gets a symbol.

    Values of equal unknown length have one symbol, which shows adapters that the lengths are equal.
    """
    types = _types_of(node, env, version)
    for name, kind in types.items():
        for axis, dim in enumerate(kind.tensor_type.shape.dim):
            if not dim.WhichOneof("value"):
                dim.dim_param = env.length_symbol(name, axis)
    return types


def _types_of(node: NodeProto, env: ModelEnv, version: int | None) -> dict[str, TypeProto]:
    """Infers the output types of a node, first by the schema and then by rules."""
    schema = env.layout_of(node, version)
    key = (schemas.normal(node.domain), node.op_type)
    if schema is None:
        types = _declared_types(env.rules(OutputTypes).get(key), node, env)
        _correct(types, node, None, env)
        return types
    imports = _imports(schema, env, version)
    if holds_graphs(node):
        results = types_of_results(node, env)
        return infer_alone(node, env, imports) if results is None else results
    types = _input_types(node, env)
    try:
        inferred = {} if schema.open else _asked(node, env, schema, types, imports)
    except safe_inference.COMPLAINTS:
        # If inference fails, the type stays unknown. An adapter that needs it refuses the node.
        return {} if node.input else _constant_types(node, env)
    for name, element in _element_types(node, schema, types).items():
        kind = inferred.setdefault(name, TypeProto())
        if schemas.type_name(kind) is None:
            kind.tensor_type.elem_type = element  # keeps the shape, if there is one
    _correct(inferred, node, schema, env)
    ranks = ranks_by_rule(env.rules(OutputRanks).get(key), node, schema, env)
    for name, rank in zip(node.output, ranks or _ranks_by_schema(node, schema, env), strict=False):
        kind = inferred.setdefault(name, TypeProto())
        if name and rank is not None and rank_of(kind) is None:
            give_rank(kind.tensor_type, rank)
    return dict(inferred)


def objection(
    node: NodeProto, env: ModelEnv, version: int | None = None, *, lengths: bool = True
) -> str | None:
    """Returns the error of inference for a node with the types of its inputs, or None.

    Without `lengths`, inference gets only the element types and ranks of the inputs.
    """
    schema = env.layout_of(node, version)
    if schema is None or schema.open or holds_graphs(node):
        return None
    types = _input_types(node, env)
    if not lengths:
        types = {name: without_lengths(kind) for name, kind in types.items()}
    try:
        types_of_outputs = _asked(node, env, schema, types, _imports(schema, env, version))
    except safe_inference.COMPLAINTS as error:
        return str(error).strip().partition("\n")[0]
    return next(_negative_sizes(types_of_outputs), None)


def _negative_sizes(types: Mapping[str, TypeProto]) -> Iterator[str]:
    """Yields a sentence for each negative output size, which inference accepts."""
    for name, kind in types.items():
        for axis, dim in enumerate(kind.tensor_type.shape.dim):
            if dim.dim_value < 0:
                yield f"axis {axis} of {name!r} would have the size {dim.dim_value}"


def _imports(schema: schemas.Schema, env: ModelEnv, version: int | None) -> dict[str, int]:
    """Returns the import of a one-node model: the domain of the node, at `version`."""
    return {schema.domain: version or env.scope.root.imports[schema.domain]}


def _input_types(node: NodeProto, env: Env) -> dict[str, TypeProto]:
    return {name: env.type(name) or TypeProto() for name in node.input if name}


def _asked(
    node: NodeProto,
    env: ModelEnv,
    schema: schemas.Schema,
    types: Mapping[str, TypeProto],
    imports: Mapping[str, int],
) -> dict[str, TypeProto]:
    """Returns the types that the inference function of a schema returns."""
    read = [name for name in node.input if name and is_readable(types.get(name))]
    data = {name: constant for name in read if (constant := env.tensor(name)) is not None}
    raw = schemas.raw(schema.domain, node.op_type, schema.since)
    return infer_node_outputs(raw, node, types, data, imports)


def _constant_types(node: NodeProto, env: Env) -> dict[str, TypeProto]:
    """Returns the types of constant outputs, such as the integers of a Constant of opset 8."""
    return {
        name: tensor_type(constant)
        for name in node.output
        if (constant := env.tensor(name)) is not None
    }


def _correct(
    inferred: Mapping[str, TypeProto], node: NodeProto, schema: schemas.Schema | None, env: ModelEnv
) -> None:
    """Writes the shapes that a rule computes into outputs with wrong lengths or unknown rank."""
    key = (schemas.normal(node.domain), node.op_type)
    rule = env.rules(OutputShapes).get(key)
    shapes = corrected.shapes_of(rule, Node(node, schema, env))
    for name, dims in zip(node.output, shapes, strict=False):
        kind = inferred.get(name)
        if kind is None or dims is None:
            continue
        if rank_of(kind) is None or corrected.is_wrong(kind, dims):
            corrected.give_shape(kind, dims)


def ranks_by_rule(
    rule: OutputRanks | None, node: NodeProto, schema: schemas.Schema | None, env: Env
) -> Sequence[int]:
    """Returns the ranks of a node's outputs by a rule of an adapter; () if the rule finds none."""
    if rule is None or schema is None:
        return ()
    return answer_of(rule.run, Node(node, schema, env)) or ()


def _ranks_by_schema(node: NodeProto, schema: schemas.Schema, env: Env) -> Iterator[int | None]:
    """Yields the ranks of a node's outputs by the rules in the document of its operator set."""

    def rank(node: Node) -> int | None:
        return output_rank(output.rank, lambda name: node[name].rank)

    for output in schema.outputs:
        yield answer_of(rank, Node(node, schema, env)) if output.rank else None


def _declared_types(rule: OutputTypes | None, node: NodeProto, env: Env) -> dict[str, TypeProto]:
    """Returns the types of outputs that an author declared for an operator without a schema."""
    types: dict[str, TypeProto] = {}
    if rule is None:
        return types
    for name, source in zip(node.output, rule.outputs, strict=False):
        if isinstance(source, str):
            element = schemas.element_number(source)
        else:
            kinds = filter(None, _input_types_at(node, source, env))
            element = next(filter(None, (kind.tensor_type.elem_type for kind in kinds)), 0)
        if name and element:
            types[name] = TypeProto()
            types[name].tensor_type.elem_type = element
    rank = rule.rank
    if isinstance(rank, tuple):
        rank = _largest_rank([*_input_types_at(node, rank, env)])
    if rank is not None and (first := next(iter(node.output), "")) in types:
        give_rank(types[first].tensor_type, rank)
    return types


def _input_types_at(
    node: NodeProto, positions: Iterable[int], env: Env
) -> Iterator[TypeProto | None]:
    """Yields the types of the inputs at some positions; None for an absent input."""
    for i in positions:
        name = node.input[i] if i < len(node.input) else ""
        yield env.type(name) if name else None


def _largest_rank(types: Sequence[TypeProto | None]) -> int | None:
    """Returns the largest rank, unless a rank is unknown or one of several values is a vector."""
    ranks = [rank for rank in map(rank_of, types) if rank is not None]
    if len(ranks) < len(types) or (len(types) > 1 and min(ranks) < 2):
        return None
    return max(ranks)


def give_rank(tensor: TypeProto.Tensor, rank: int) -> None:
    """Gives a tensor type this rank with unknown dimensions, unless the rank is too large."""
    if rank > LARGEST_RANK:
        return
    tensor.shape.SetInParent()
    tensor.shape.dim.extend([TensorShapeProto.Dimension()] * rank)


def infer_alone(node: NodeProto, env: ModelEnv, imports: Mapping[str, int]) -> dict[str, TypeProto]:
    """Infers the output types of a node with subgraphs, in a model with only this node."""
    model = ModelProto(ir_version=IR_VERSION)
    for domain, version in imports.items():
        model.opset_import.add(domain=domain, version=version)
    model.graph.name = node.op_type
    model.graph.node.append(node)
    for name in dict.fromkeys(reads(node)):
        kind_of_input = env.type(name) if name else None
        if kind_of_input is not None:
            model.graph.input.add(name=name).type.CopyFrom(kind_of_input)
    types = env.types_alone(model)
    symbols = induction.symbols_of(model)
    return {
        name: induction.without_marks(kind, symbols)
        for name in node.output
        if (kind := types.get(name)) is not None
    }


def _element_types(
    node: NodeProto, schema: schemas.Schema, types: Mapping[str, TypeProto]
) -> dict[str, int]:
    """Finds element types by schema and attributes, for old operators without inference."""
    by_variable: dict[str, int] = {}
    for index, name in enumerate(node.input):
        param = schema.input_at(index)
        element = types[name].tensor_type.elem_type if name in types else 0
        if element and param is not None and not param.variadic:
            by_variable.setdefault(param.variable, element)
    elements = {}
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES and attribute.type == AttributeProto.STRING:
            # Before opset 6, the type attribute of Cast was a string.
            elements[node.output[0]] = dict(TensorProto.DataType.items()).get(
                attribute.s.decode(), 0
            )
    for index, name in enumerate(node.output):
        param = schema.output_at(index)
        if not name or param is None or param.variadic:
            continue
        if param.variable in by_variable:
            elements[name] = by_variable[param.variable]
        elif len(param.types) == 1 and (only := next(iter(param.types))).startswith("tensor("):
            elements[name] = schemas.element_number(only[len("tensor(") : -1])
    return elements

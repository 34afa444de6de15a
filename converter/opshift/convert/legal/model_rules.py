# SPDX-License-Identifier: Apache-2.0
"""The rules on a whole model: its imports, functions, IR version and data files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from opshift import terms, versions
from opshift.convert.ir import needs
from opshift.convert.ir.features import Feature
from opshift.convert.legal import checker
from opshift.convert.legal.findings import Checked, NamedText
from opshift.model import functions, metadata, walk, weights
from opshift.model.scope import Root
from opshift.model.walk import named
from opshift.opsets import changelog, late_changes, schemas
from opshift.opsets.types import parts_of
from opshift.protos import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto
from opshift.text import counted, qualified


def unknown_imports(checked: Checked) -> Iterator[str]:
    """Yields imports of versions that do not exist."""
    for root in checked.document.roots:
        for domain in root.imports if root.kind != "training" else ():
            if (sentence := unknown_version(domain, root.imports[domain])) is not None:
                yield f"{_owner(root)} imports {sentence}"


def unknown_version(domain: str, version: int) -> str | None:
    """Returns a sentence on an imported version that does not exist, or None if it exists."""
    newest = schemas.latest(domain)
    if newest is None or 1 <= version <= newest:
        return None
    package = "onnx" if newest < (schemas.known().newest(domain) or 0) else "opshift"
    return (
        f"{domain or 'ai.onnx'} {version}, but only versions 1 to {newest} are known; correct the"
        f" import, or install a newer {package}"
    )


def missing_imports(checked: Checked) -> Iterator[str]:
    """Yields nodes whose domain is not imported, and nodes without an operator."""
    for root, (domain, op), places in checked.document.operators():
        if domain not in root.imports:
            scope, position = places[0]
            yield (
                f"{named(scope.node(position))} is of domain {domain or 'ai.onnx'!r}, which"
                f" {_owner(root)} does not import; add an opset_import for it"
            )
        elif op == "":
            yield f"a node of {root.name} has no op_type; set it"


def recursion(checked: Checked) -> Iterator[str]:
    """Yields recursive functions, which onnx's checker finds only from IR 8 on."""
    calls = {root.function: set(root.calls) for root in checked.document.roots if root.function}
    return functions.recursion(calls)


def _owner(root: Root) -> str:
    return "the model" if root.kind != "function" else root.name


def deprecated(checked: Checked) -> Iterator[str]:
    """Yields operators that are deprecated or removed in the imported version."""
    adapters = checked.adapters
    for root, (domain, op), places in checked.document.operators():
        version = root.imports.get(domain)
        schema = schemas.schema(domain, op, version) if version else None
        if schema is None and (retired := adapters.retired(domain, op)) is not None:
            written = ", ".join(sorted(retired.emits)) or "other operators"
            yield f"{op} was removed from {domain or 'ai.onnx'}; a conversion writes {written}"
        if schema is None or not schema.deprecated:
            continue
        instead = adapters.get(domain, op, schema.since - 1, schema.since)
        written = ", ".join(sorted(instead.emits)) if instead else ""
        way = f"use {written}, or convert from {schema.since - 1}" if written else "replace it"
        release = late_changes.deprecated(domain, op, schema.since)
        late = f" (since onnx release {release})" if release else ""
        yield (
            f"{op} ({len(places)} nodes in {root.name}) is deprecated from"
            f" {domain or 'ai.onnx'} {schema.since} on{late}; {way}"
        )


def experimental(checked: Checked) -> Iterator[str]:
    """Yields operators that may change without a new version."""
    nodes: Counter[tuple[str, str]] = Counter()
    for root, (domain, op), places in checked.document.operators():
        if changelog.is_experimental(domain, op, root.imports.get(domain) or 0):
            nodes[domain, op] += len(places)
    for (domain, op), count in sorted(nodes.items()):
        yield (
            f"{qualified(domain, op)} ({counted(count, 'node')}) is an experimental operator, which"
            " may change or disappear without a new version"
        )


def two_meanings(checked: Checked) -> Iterator[str]:
    """Yields operators that onnx added to an opset after the opset was published."""
    for root in checked.document.roots:
        for domain, op in sorted(root.index.keys() & late_changes.operators_added()):
            version = root.imports.get(domain) or 0
            schema = schemas.schema(domain, op, version)
            published = versions.release_of(domain, version) if schema is not None else None
            if schema is None or published is None:
                continue
            release = late_changes.added_after(domain, op, schema.since, published.name)
            earlier = [entry for entry in schemas.history(domain, op) if entry.since < schema.since]
            if release is None or not earlier or earlier[-1].deprecated:
                continue
            nodes_of_operator = (scope.node(at) for scope, at in root.index[domain, op])
            if nodes := [entry for entry in nodes_of_operator if not is_beyond(entry, earlier[-1])]:
                yield (
                    f"{op} of {domain or 'ai.onnx'} {version} ({counted(len(nodes), 'node')}) has"
                    f" two meanings: {op}-{schema.since} from onnx {release} on, which opshift"
                    f" uses, and {op}-{earlier[-1].since} in earlier releases"
                )


def is_beyond(node: NodeProto, schema: schemas.Schema | None) -> bool:
    """Returns whether a node has more inputs, outputs or attributes than an implementation."""
    if schema is None or len(node.input) > schema.max_input or len(node.output) > schema.max_output:
        return True
    return any(attribute.name not in schema.attributes for attribute in node.attribute)


def metadata_forms(checked: Checked) -> Iterator[NamedText]:
    """Yields standard metadata of another form, and images that no metadata describe."""
    yield from _images(checked.document.model)
    for entry in checked.document.model.metadata_props:
        name = metadata.standard(entry.key)
        if name is not None and not metadata.FORMS[name][1](entry.value):
            form = metadata.FORMS[name][0]
            text = f"the metadata {entry.key!r} is {entry.value!r}; ONNX defines it as {form}"
            yield entry.key, text


def _images(model: ModelProto) -> Iterator[NamedText]:
    values = [*model.graph.input, *model.graph.output]
    images = [value.name for value in values if value.type.denotation == "IMAGE"]
    stated = {metadata.standard(entry.key) for entry in model.metadata_props}
    if images and (missing := [key for key in metadata.OF_IMAGES if key not in stated]):
        text = f"value {images[0]!r} is an image, but the metadata do not state"
        yield frozenset(missing), f"{text} {', '.join(missing)}; add these entries"


def function_imports(checked: Checked) -> Iterator[str]:
    """Checks that functions with other imports use only operators with equal meaning."""
    for root, (domain, op), _ in checked.document.operators():
        inner, outer = (root.imports.get(domain), checked.document.imports.get(domain))
        if root.function is None or inner is None or outer is None or inner == outer:
            continue
        if schemas.schema(domain, op, inner) != schemas.schema(domain, op, outer):
            yield (
                f"{root.name} imports {domain or 'ai.onnx'} {inner}, but the model imports {outer},"
                f" in which {op} differs; convert both to one version"
            )


def training_nodes(checked: Checked) -> Iterator[str]:
    """Yields illegal nodes of training graphs, which onnx's checker does not check."""
    for node, error in checker.by_node(checked.document, "training"):
        if not checker.tolerates(checked.document, checked.adapters, error):
            yield f"{named(node)}: {error}"


def element_types(checked: Checked) -> Iterator[str]:
    """Yields element types that do not exist; inference ignores them if no operator reads them."""
    known_types = set(TensorProto.DataType.values())
    for value in checked.document.model.graph.input:
        if value.type.HasField("tensor_type") and not value.type.tensor_type.elem_type:
            yield f"input {value.name!r} has no element type"
    for container in walk.containers(checked.document.model):
        if isinstance(container, GraphProto):
            for value in (*container.input, *container.output, *container.value_info):
                for key in _map_keys(value.type):
                    text = "but keys must be integers or strings"
                    yield f"value {value.name!r} is a map with keys of {_shown(key)}, {text}"
                for number in _element_types(value.type):
                    if number is None:
                        yield f"value {value.name!r} holds tensors without an element type"
                    elif number not in known_types:
                        text = f"is of element type {number}, which does not exist"
                        yield f"value {value.name!r} {text}"


def _element_types(kind: TypeProto) -> Iterator[int | None]:
    """Yields the element type of a tensor, or of the tensors in a container."""
    parts = [*parts_of(kind)]
    if parts[-1].HasField("tensor_type"):
        number = parts[-1].tensor_type.elem_type
        contained = any(
            part.HasField("sequence_type") or part.HasField("optional_type") for part in parts
        )
        yield None if contained and not number else number


def _map_keys(kind: TypeProto) -> Iterator[int]:
    """Yields the key types of maps that are neither integers nor strings."""
    keys = (part.map_type.key_type for part in parts_of(kind) if part.HasField("map_type"))
    yield from (key for key in keys if _shown(key) not in _KEYS)


_KEYS = {"STRING", *(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))}


def _shown(number: int) -> str:
    known_types = TensorProto.DataType.values()
    return TensorProto.DataType.Name(number) if number in known_types else f"element type {number}"


def data_files(checked: Checked) -> Iterator[str]:
    """Yields data files that are missing or too short; a model in memory only names them."""
    if checked.weights is not None:
        yield from weights.flaws(checked.document.model, checked.weights)


def above_ir(checked: Checked) -> Iterator[NamedText]:
    """Yields content that needs a later IR version than the model states."""
    for feature in _held(checked):
        if feature.computes:
            text = f"{feature.says} needs IR {feature.ir}, but the model states IR {_ir(checked)}"
            yield feature.says, f"{text}; raise it with {terms.option('ir_version', feature.ir)}"


def skipped_above_ir(checked: Checked) -> Iterator[NamedText]:
    """Yields content that affects no result and belongs to a later IR version than stated."""
    for feature in _held(checked):
        if not feature.computes:
            text = (
                f"IR {feature.ir} introduced {feature.says}; readers of IR {_ir(checked)} ignore it"
            )
            yield feature.says, text


def _held(checked: Checked) -> list[Feature]:
    assert checked.facts is not None, (
        "the search for content of later IR versions needs the types of values"
    )
    return needs.features_above(checked.facts, _ir(checked))


def _ir(checked: Checked) -> int:
    return checked.document.model.ir_version

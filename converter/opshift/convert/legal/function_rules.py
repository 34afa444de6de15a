# SPDX-License-Identifier: Apache-2.0
"""The rules on functions of a model and their calls, which onnx's checker does not check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opshift.convert.legal.findings import NamedText, several
from opshift.model.document import Document
from opshift.model.functions import behind
from opshift.model.scope import FunctionId, Root, call_id
from opshift.model.walk import named
from opshift.protos import AttributeProto, FunctionProto, NodeProto
from opshift.text import counted


def calls(document: Document) -> Iterator[NamedText]:
    """Checks that a call has no more inputs and outputs than its function."""
    for root in document.roots:
        for key, node in _calls(document, root):
            function = document.functions[key]
            for what, passed, declared in (
                ("input", node.input, function.input),
                ("output", node.output, function.output),
            ):
                if len(passed) > len(declared):
                    yield (
                        frozenset({*passed[len(declared) :]}),
                        f"{named(node)} has {counted(len(passed), what)}, but the called function"
                        f" has {len(declared)}; remove the extra {what}s",
                    )


def overloads(document: Document) -> Iterator[NamedText]:
    """Checks that the model has the overloads of functions that nodes call."""
    for node in (node for scope in document.scopes() for node in scope.proto.node):
        if getattr(node, "overload", "") and call_id(node) not in document.functions:
            text = f"{named(node)} calls the overload {node.overload!r} of a function, which the"
            yield node.overload, f"{text} model does not have; correct it"


def _calls(document: Document, root: Root) -> Iterator[tuple[FunctionId, NodeProto]]:
    """Yields the calls in `root` at their present positions."""
    for scope in root.scopes if root.calls else ():
        for node in scope.proto.node:
            if (key := call_id(node)) in document.functions:
                yield key, node


def attributes(document: Document) -> Iterator[NamedText]:
    """Checks that functions and calls use declared attributes, each of which is declared once."""
    for function in document.functions.values():
        yield from _declarations(function)
    for root in document.roots:
        for key, node in _calls(document, root):
            yield from _given(document, key, node)
        if root.function is not None:
            declared, where = attribute_names(document.functions[root.function]), root.name
            for node in (node for scope in root.scopes for node in scope.proto.node):
                read = {
                    attribute.ref_attr_name
                    for attribute in node.attribute
                    if attribute.ref_attr_name
                }
                for name in sorted(read - declared):
                    text = f"{named(node)} reads attribute {name!r} of {where}, which does not"
                    yield name, f"{text} declare it; correct the name"


def _declarations(function: FunctionProto) -> Iterator[NamedText]:
    """Checks that attributes have distinct names, and that defaults have a type."""
    called = f"function {function.name!r}"
    for name in sorted({*function.attribute} & {*_with_default(function)}):
        text = f"{called} declares its attribute {name!r} twice, with and"
        yield name, f"{text} without a default; remove one declaration"
    for name, count in several(_with_default(function)):
        yield name, f"{called} has {count} defaults for its attribute {name!r}; keep one"
    for name in sorted(attribute_names(function)):
        if not name:
            yield "", f"{called} has an attribute without a name; name it"
        elif name in {*function.input, *function.output}:
            text = f"{called} has an attribute and an input or output {name!r}; rename one"
            yield name, text
    for default in getattr(function, "attribute_proto", ()):
        if default.type == AttributeProto.UNDEFINED:
            text = f"the default of attribute {default.name!r} of {called} has no type; set it"
            yield default.name, text


def references(document: Document) -> Iterator[NamedText]:
    """Checks that attributes with a reference have no value, and that types fit the references."""
    used: dict[FunctionId, dict[str, set[int]]] = {}
    for root in document.roots:
        if root.function is None:
            continue
        kinds = used.setdefault(root.function, {})
        for node in (node for scope in root.scopes for node in scope.proto.node):
            for attribute in node.attribute:
                if attribute.ref_attr_name:
                    kinds.setdefault(attribute.ref_attr_name, set()).add(attribute.type)
                    yield from _with_value(node, attribute)
    for key, function in document.functions.items():
        for default in getattr(function, "attribute_proto", ()):
            if (expected := _misfit(default, used[key])) is not None:
                text = f"the default of attribute {default.name!r} of function {function.name!r}"
                yield default.name, f"{text} {expected}"
    for root in document.roots:
        for key, node in _calls(document, root):
            for attribute in node.attribute:
                if (expected := _misfit(attribute, used[key])) is not None:
                    text = f"attribute {attribute.name!r} of {named(node)} {expected}"
                    yield attribute.name, text


def _with_value(node: NodeProto, attribute: AttributeProto) -> Iterator[NamedText]:
    fields = {field.name for field, _ in attribute.ListFields()}
    if fields - {"name", "type", "ref_attr_name", "doc_string"}:
        text = f"attribute {attribute.name!r} of {named(node)} refers to an attribute of the"
        yield attribute.name, f"{text} function and has a value; remove the value"


def _misfit(attribute: AttributeProto, used: Mapping[str, set[int]]) -> str | None:
    """Returns that the type of an attribute is not the type with which a function reads it."""
    kinds = {kind for kind in used.get(attribute.name, ()) if kind != AttributeProto.UNDEFINED}
    if not kinds or kinds == {attribute.type}:
        return None
    names = " and ".join(map(AttributeProto.AttributeType.Name, sorted(kinds)))
    kind = AttributeProto.AttributeType.Name(attribute.type)
    return f"is {kind}, but the function reads it as {names}; correct the type"


def _given(document: Document, key: FunctionId, node: NodeProto) -> Iterator[NamedText]:
    for name in sorted(
        {attribute.name for attribute in node.attribute} - attribute_names(document.functions[key])
    ):
        text = f"{named(node)} sets attribute {name!r}, which the called function does not declare;"
        yield name, f"{text} remove it"


def attribute_names(function: FunctionProto) -> set[str]:
    """Returns the names of the attributes of a function."""
    return {*function.attribute, *_with_default(function)}


def _with_default(function: FunctionProto) -> Iterator[str]:
    return (default.name for default in getattr(function, "attribute_proto", ()))


def unused(document: Document) -> Iterator[NamedText]:
    for domain, name, _ in never_called(document):
        text = f"function {name!r} of {domain or 'ai.onnx'!r} is never called; it can be removed"
        yield f"{domain}.{name}", text


def called(document: Document) -> list[FunctionId]:
    """Returns the functions that a graph calls, directly or through other functions."""
    return sorted(document.functions.keys() - {*never_called(document)})


def never_called(document: Document) -> list[FunctionId]:
    """Returns the functions that no graph calls, directly or through other functions."""
    calls = {root.function: root.calls.keys() for root in document.roots if root.function}
    direct = {key for root in document.roots if not root.function for key in root.calls}
    return sorted(calls.keys() - direct - behind(calls, *direct))

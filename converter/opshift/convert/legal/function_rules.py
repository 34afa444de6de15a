# SPDX-License-Identifier: Apache-2.0
"""The rules on functions of a model and their calls, which onnx's checker does not check."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.convert.legal.findings import NamedText
from opshift.model.document import Document
from opshift.model.functions import behind
from opshift.model.scope import FunctionId, Root, call_id
from opshift.model.walk import named
from opshift.protos import FunctionProto, NodeProto
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


def _calls(document: Document, root: Root) -> Iterator[tuple[FunctionId, NodeProto]]:
    """Yields the calls in `root` at their present positions."""
    for scope in root.scopes if root.calls else ():
        for node in scope.proto.node:
            if (key := call_id(node)) in document.functions:
                yield key, node


def attributes(document: Document) -> Iterator[NamedText]:
    """Checks that functions and calls use declared attributes, each of which is declared once."""
    for function in document.functions.values():
        for name in sorted({*function.attribute} & {*_with_default(function)}):
            yield (
                frozenset({name}),
                f"function {function.name!r} declares its attribute {name!r} twice, with and"
                " without a default; remove one declaration",
            )
    for root in document.roots:
        for key, node in _calls(document, root):
            yield from _given(document, key, node)
        if root.function is not None:
            declared, where = _declared(document.functions[root.function]), root.name
            for node in (node for scope in root.scopes for node in scope.proto.node):
                read = {
                    attribute.ref_attr_name
                    for attribute in node.attribute
                    if attribute.ref_attr_name
                }
                for name in sorted(read - declared):
                    yield (
                        frozenset({name}),
                        f"{named(node)} reads attribute {name!r} of {where}, which does not declare"
                        " it; correct the name",
                    )


def _given(document: Document, key: FunctionId, node: NodeProto) -> Iterator[NamedText]:
    for name in sorted(
        {attribute.name for attribute in node.attribute} - _declared(document.functions[key])
    ):
        yield (
            frozenset({name}),
            f"{named(node)} sets attribute {name!r}, which the called function does not declare;"
            " remove it",
        )


def _declared(function: FunctionProto) -> set[str]:
    return {*function.attribute, *_with_default(function)}


def _with_default(function: FunctionProto) -> Iterator[str]:
    return (default.name for default in getattr(function, "attribute_proto", ()))


def unused(document: Document) -> Iterator[NamedText]:
    for domain, name, _ in never_called(document):
        yield (
            frozenset({f"{domain}.{name}"}),
            f"function {name!r} of {domain or 'ai.onnx'!r} is never called; it can be removed",
        )


def called(document: Document) -> list[FunctionId]:
    """Returns the functions that a graph calls, directly or through other functions."""
    return sorted(document.functions.keys() - {*never_called(document)})


def never_called(document: Document) -> list[FunctionId]:
    """Returns the functions that no graph calls, directly or through other functions."""
    calls = {root.function: root.calls.keys() for root in document.roots if root.function}
    direct = {key for root in document.roots if not root.function for key in root.calls}
    return sorted(calls.keys() - direct - behind(calls, *direct))

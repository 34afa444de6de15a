# SPDX-License-Identifier: Apache-2.0
"""The rules on the texts of a model: documentation, and attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opshift.convert.ir import places
from opshift.convert.legal.findings import Checked, NamedText
from opshift.model import walk
from opshift.model.walk import named
from opshift.text import is_utf8

_TAG = re.compile(
    r"</?(a|b|body|br|code|div|em|h[1-6]|hr|html|i|img|li|ol|p|pre|script|span|strong|style|sub|sup"
    r"|table|td|th|tr|u|ul)(\s[^<>]*)?/?>",
    re.IGNORECASE,
)


def attributes(checked: Checked) -> Iterator[NamedText]:
    """Yields attributes with texts that are not UTF-8."""
    for container in walk.containers(checked.document.model):
        for node in container.node:
            for attribute in node.attribute:
                for text in (attribute.s, *attribute.strings):
                    if not is_utf8(text):
                        shown = f"attribute {attribute.name!r} of {named(node)} has a text that is"
                        yield attribute.name, f"{shown} not UTF-8; correct it"


def documentation(checked: Checked) -> Iterator[NamedText]:
    """Yields documentation with HTML; only Markdown is allowed."""
    model = checked.document.model
    for find in (
        places.of_model, places.graphs, places.of_functions, places.nodes, places.values,
        places.tensors,
    ):  # fmt: skip
        for part in find(model):
            if not part.doc_string or (tag := _TAG.search(part.doc_string)) is None:
                continue
            words = places.words_of(part)
            text = f"the documentation of {words} has the HTML tag {tag[0]}; write Markdown"
            yield tag[0], text

# SPDX-License-Identifier: Apache-2.0
"""The rules about documentation, and about texts in attributes."""

from __future__ import annotations

import pytest
from checked import assert_finds, checked
from onnx import ModelProto
from opshift.convert.legal import text_rules as rules
from text_models import model


def custom() -> ModelProto:
    text = '(float[2] x) => (float[2] y) { y = own.d.F<s = "é", t = ["a", "b"]>(x) }'
    return model(text, 13, more=', "own.d": 1')


def test_a_text_in_an_attribute_is_utf8():
    proto = custom()
    assert_finds(rules.attributes, checked(proto))
    proto.graph.node[0].attribute[0].s = b"\xff"
    proto.graph.node[0].attribute[1].strings[1] = b"\xfe"
    patterns = ["attribute 's' of F 'y' has a text that is not UTF-8", "attribute 't' of F 'y'"]
    assert_finds(rules.attributes, checked(proto), *patterns)


@pytest.mark.parametrize(
    "text", ["**bold**, <module>, a < b > c, <http://a.b>", "File <frozen runpy>", "", "List<br"]
)
def test_documentation_may_have_markdown(text):
    proto = custom()
    proto.doc_string = proto.graph.doc_string = proto.graph.node[0].doc_string = text
    assert_finds(rules.documentation, checked(proto))


@pytest.mark.parametrize("tag", ["<b>", "</P>", "<br/>", '<a href="x">', "<h2>"])
def test_documentation_has_no_html(tag):
    proto = custom()
    proto.doc_string = proto.graph.doc_string = f"text {tag} text"
    proto.graph.input[0].doc_string = proto.graph.node[0].doc_string = tag
    patterns = [f"the model has the HTML tag {tag}; write", "graph 'g'", "F 'y'", "value 'x'"]
    assert_finds(rules.documentation, checked(proto), *patterns)
    assert [found for found, _ in rules.documentation(checked(proto))] == [tag] * 4

# SPDX-License-Identifier: Apache-2.0
"""The elements of a page, as a browser would see them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

LINKS = ("src", "href", "action", "onerror", "srcset", "data")
VOID = ("meta", "br", "wbr", "input", "img", "link", "rect", "path")


class Elements(HTMLParser):
    """The elements of a page, its text, and everything that the page would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.classes: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [v for k, v in attributes if k in LINKS and not str(v).startswith("#")]
        self.handlers += [k for k, _ in attributes if k.startswith("on")]
        self.classes += [name for k, v in attributes if k == "class" for name in str(v).split()]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        """The words as a reader sees them."""
        return "".join(self.words).replace("\N{NO-BREAK SPACE}", " ")


def assert_alone(text: str, scripts: int = 0) -> Elements:
    """Requires that a page loads nothing, runs no name as code, and has this number of scripts."""
    elements = Elements(text)
    assert not elements.links
    assert not elements.handlers
    assert "img" not in elements.tags
    assert "link" not in elements.tags
    assert "iframe" not in elements.tags
    assert elements.tags.count("script") == scripts
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttp", text)
    text.encode("utf-8")  # no half of a character is left
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)
    return elements

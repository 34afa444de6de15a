# SPDX-License-Identifier: Apache-2.0
"""Assembles a page: the verdict and the facts, then the sections, in one HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from opshift import plugins, release, versions
from opshift.page.markup import CLASSES, words
from opshift.page.page_parts import Block
from opshift.records import dataclass
from opshift.text import Line, markup

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its blocks; a section without blocks is left out."""

    title: str
    blocks: Sequence[Block] = ()
    note: str = ""

    def html(self) -> str:
        """Returns the section as HTML; empty if it has no blocks."""
        if not self.blocks:
            return ""
        note = f"<p class=soft>{words(self.note)}</p>" if self.note else ""
        body = "".join(block.html() for block in self.blocks)
        return f"<section><h2>{words(self.title)}</h2>{note}{body}</section>"


@dataclass(frozen=True, slots=True)
class Page:
    """A report as a page; `facts` are short, such as `Opset` and `17 → 13`.

    `proof` is a second sentence: whether the models compute the same results.
    """

    kind: str
    verdict: Line
    title: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = field(default=())
    proof: Line | None = None

    def with_sections(self, *more: Section) -> Page:
        """Returns a copy of the page with more sections at its end."""
        return replace(self, sections=(*self.sections, *more))

    def html(self) -> str:
        """Returns the page as a single HTML file."""
        title = self.title or self.kind
        facts = "".join(
            f"<div><dt>{words(name)}<dd>{words(value)}</div>" for name, value in self.facts
        )
        return document(
            f"{title}: opshift {self.kind}",
            style(),
            f"<header><p class=soft>opshift {markup(self.kind)}</p><h1>{words(title)}</h1>"
            f"{_verdict(self.verdict)}{_verdict(self.proof, 'proof ') if self.proof else ''}"
            f"<dl class=facts>{facts}</dl></header>"
            f"<main>{''.join(section.html() for section in self.sections)}</main>"
            f"<footer class=soft>{words(written_by())}</footer>",
        )


def _verdict(line: Line, kind: str = "") -> str:
    text = words(line.text.replace("->", "→"))
    return f'<p class="verdict {kind}{CLASSES[line.role]}"><span>{text}</span></p>'


def document(title: str, styles: str, body: str, policy: str = POLICY) -> str:
    """Returns a single HTML file with the given styles and body."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{markup(title)}</title>\n<style>\n{styles}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def style() -> str:
    """Returns the CSS of every page, for light and dark mode."""
    return plugins.data("opshift.page", "page.css").decode()


def written_by() -> str:
    """Returns the footer: the release of opshift and the release of onnx."""
    return f"Written by opshift {release.VERSION} with onnx {versions.installed_name()}."


def facts_of(changes: Iterable[tuple[str, object, object]]) -> tuple[tuple[str, str], ...]:
    """Returns facts such as `Opset` and `17 → 13`, or only `17` if the value did not change."""
    return tuple(
        (name, str(after) if before == after else f"{before} → {after}")
        for name, before, after in changes
    )

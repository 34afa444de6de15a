# SPDX-License-Identifier: Apache-2.0
"""Builds the HTML pages of reports, each as a single file.

A report class returns the sections of its page; this package turns the sections into HTML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.text import Shown

if TYPE_CHECKING:
    from opshift.page.sheet import Page


class Paged(Shown):
    """An outcome that can be shown as an HTML page."""

    __slots__ = ()

    def page(self) -> Page:
        """Returns a page with the answer, the facts and the sections."""
        raise NotImplementedError

    def to_html(self) -> str:
        """Returns the page as a single HTML file."""
        return self.page().html()

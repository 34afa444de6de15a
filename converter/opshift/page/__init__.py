# SPDX-License-Identifier: Apache-2.0
"""Pages of reports, each written as one HTML file.

A report is a class that returns the sections of its page; this package is the same for all reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.text import Shown

if TYPE_CHECKING:
    from opshift.page.sheet import Page


class Paged(Shown):
    """An outcome that has a page."""

    __slots__ = ()

    def page(self) -> Page:
        """The verdict and the facts, then the sections."""
        raise NotImplementedError

    def to_html(self) -> str:
        """The page as one HTML file without other files."""
        return self.page().html()

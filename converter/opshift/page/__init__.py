# SPDX-License-Identifier: Apache-2.0
"""A page to look at: what it holds, and how it is written as one HTML file.

A kind of report is a class that says what its page holds; nothing here knows any kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.text import Shown

if TYPE_CHECKING:
    from opshift.page.sheet import Page


class Paged(Shown):
    """An outcome with a page to look at."""

    __slots__ = ()

    def page(self) -> Page:
        """The verdict and the facts, then the sections."""
        raise NotImplementedError

    def to_html(self) -> str:
        """The page as one HTML file, which needs nothing else."""
        return self.page().html()

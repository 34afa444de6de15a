# SPDX-License-Identifier: Apache-2.0
"""Lists the codes that messages contain, and their pages: errors, assumptions and `refusals`."""

from __future__ import annotations

import functools
import pkgutil

from opshift.codes.page_text import CodeText, of_reason, parsed


@functools.cache
def names() -> tuple[str, ...]:
    """Returns every code that has a page, in alphabetical order."""
    from importlib.resources import files

    from opshift.codes.refusals import Why

    file_names = (entry.name for entry in files(__name__).iterdir())
    written = [name[: -len(".md")] for name in file_names if name.endswith(".md")]
    return tuple(sorted([*written, *Why.__members__]))


def page(code: str) -> CodeText:
    """Returns the page of a code, with options as the caller writes them; KeyError if unknown."""
    from opshift.codes.refusals import Why

    if code not in names():
        raise KeyError(code)
    if code in Why.__members__:
        return of_reason(code, Why[code].value)
    return parsed(code, (pkgutil.get_data(__name__, f"{code}.md") or b"").decode())

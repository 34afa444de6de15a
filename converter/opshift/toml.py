# SPDX-License-Identifier: Apache-2.0
"""Reads TOML with Python's module from Python 3.11 on, and with the package `tomli` before."""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib as reader
else:
    import tomli as reader

TOMLDecodeError = reader.TOMLDecodeError
DEEPEST = 100  # parts of a key with dots, for which the reader needs time as their square
_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"?' r"|'[^'\n]*'?|#[^\n]*")  # a string or a comment


def loads(text: str) -> dict[str, Any]:
    """Parses a TOML document; raises TOMLDecodeError if the document is faulty."""
    keys = _TEXT.sub("_", text)  # with the numbers, which have few dots
    if any(part.count(".") > DEEPEST for part in re.split(r"[,=\[\]{}\n]", keys)):
        raise TOMLDecodeError(f"a key has more than {DEEPEST} parts")
    try:
        return reader.loads(text)
    except TOMLDecodeError:
        raise
    except RecursionError:
        raise TOMLDecodeError("lists or tables are nested too deeply") from None
    except ValueError as error:  # for example, a number with thousands of digits
        raise TOMLDecodeError(str(error)) from None

# SPDX-License-Identifier: Apache-2.0
"""The reader of TOML: part of Python from 3.11 on, the package `tomli` before."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib as reader
else:
    import tomli as reader

TOMLDecodeError = reader.TOMLDecodeError


def loads(text: str) -> dict[str, Any]:
    """The content of a document. Whatever the reader raises about it becomes a TOMLDecodeError."""
    try:
        return reader.loads(text)
    except TOMLDecodeError:
        raise
    except RecursionError:
        raise TOMLDecodeError("the lists or tables lie too deep inside each other") from None
    except ValueError as error:  # a number with thousands of digits
        raise TOMLDecodeError(str(error)) from None

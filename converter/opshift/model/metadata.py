# SPDX-License-Identifier: Apache-2.0
"""Defines the metadata keys of a model that ONNX standardizes, and the form of their values."""

from __future__ import annotations

import re
from collections.abc import Callable

_URL = re.compile(r"https?://\S+")


def _is_list(text: str) -> bool:
    """Returns whether a text is a list of names that commas separate."""
    return all(part.strip() for part in text.split(","))


def _one_of(*words: str) -> tuple[str, Callable[[str], bool]]:
    allowed = {word.lower() for word in words}
    return f"one of {', '.join(words)}", lambda text: text.lower() in allowed


_NAMES = ("a list of names that commas separate", _is_list)
_TEXT = ("a text", lambda text: bool(text.strip()))
FORMS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "model_author": _NAMES,
    "author": _NAMES,
    "company": _TEXT,
    "converted_from": _TEXT,
    "model_license": _TEXT,
    "license": _TEXT,
    "license_url": ("a URL", lambda text: _URL.fullmatch(text) is not None),
    "Image.BitmapPixelFormat": _one_of("Gray8", "Rgb8", "Bgr8", "Rgba8", "Bgra8"),
    "Image.ColorSpaceGamma": _one_of("Linear", "SRGB"),
    "Image.NominalPixelRange": _one_of(
        "NominalRange_0_255", "Normalized_0_1", "Normalized_1_1", "NominalRange_16_235"
    ),
}
"""The standard keys, in the order of display, with the form of each value."""
OF_IMAGES = tuple(key for key in FORMS if key.startswith("Image."))


def standard(key: str) -> str | None:
    """Returns the standard spelling of a key; the case of image keys does not matter."""
    if key in FORMS:
        return key
    return next((name for name in FORMS if "." in name and name.lower() == key.lower()), None)

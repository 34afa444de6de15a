# SPDX-License-Identifier: Apache-2.0
"""Changes the bytes of a file at random."""

from __future__ import annotations

from random import Random


def mutated(rng: Random, data: bytes, donor: bytes) -> bytes:
    """Makes a few random changes; equal seeds lead to equal changes."""
    text = bytearray(data)
    while True:
        _change(rng, text, donor)
        if rng.random() < 0.6:
            return bytes(text)


def _change(rng: Random, text: bytearray, donor: bytes) -> None:
    at = rng.randint(0, len(text))
    end = min(len(text), at + rng.choice((1, 2, 4, 16, 64)))
    match rng.randrange(8):
        case 0 if at < len(text):
            text[at] ^= 1 << rng.randrange(8)
        case 1 if at < len(text):
            text[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        case 2:
            text[at:at] = rng.randbytes(rng.choice((1, 2, 8)))
        case 3:
            del text[at:end]
        case 4:
            text[at:at] = text[at:end]
        case 5:
            start = rng.randint(0, len(donor))
            text[at:end] = donor[start : start + rng.choice((1, 8, 64, 512))]
        case 6:
            del text[at:]
        case 7 if at < len(text):
            text[at] = (text[at] + rng.choice((1, -1))) % 256

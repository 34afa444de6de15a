# SPDX-License-Identifier: Apache-2.0
"""Reads and writes a model's own version, which is a plain number or SemVer in one integer."""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import field, replace

from opshift.errors import BadTarget
from opshift.records import dataclass


class Level(enum.IntEnum):
    """How much a change affects the users of the model."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3


class VersionFormat(enum.Enum):
    """The encoding of a version in the field `model_version`."""

    SEMVER = "two bytes for MAJOR, two bytes for MINOR, four bytes for PATCH"
    NUMBER = "a plain number"


# The syntax of SemVer 2.0.0: three numbers without leading zeros, a pre-release and a build.
_NUMBER, _WORDS = r"(0|[1-9]\d*)", r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMVER = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORDS}))?(?:\+({_WORDS}))?", re.ASCII)

_BITS = (15, 16, 32)  # of MAJOR, MINOR and PATCH; 1 bit is the sign


@functools.total_ordering
@dataclass(frozen=True, slots=True)
class ModelVersion:
    """The version of a model, such as `1.2.345`; a plain number has only the patch part.

    A model does not store the pre-release and the build, so `pack` omits them. A version that was
    read from a model has no pre-release and no build. A pre-release comes before its version;
    builds do not affect the order.

    Attributes
    ----------
    major, minor, patch : int
        The numbers of the version.
    form : VersionFormat
        The encoding of the version in the field `model_version`.
    pre_release, build : str
        The pre-release and the build of SemVer, which follow the numbers.

    Examples
    --------
    >>> import opshift
    >>> str(opshift.ModelVersion.unpack(0x0001000200000159))
    '1.2.345'
    """

    AS_TEXT = True

    major: int = 0
    minor: int = 0
    patch: int = 0
    form: VersionFormat = VersionFormat.SEMVER
    pre_release: str = ""
    build: str = field(default="", compare=False)

    def __lt__(self, other: ModelVersion) -> bool:
        return self._precedence() < other._precedence()

    def _precedence(self) -> tuple[object, ...]:
        """Returns the SemVer sort key: numbers before words, pre-releases before the release."""
        words = self.pre_release.split(".")
        parts = [(0, int(word), "") if word.isdecimal() else (1, 0, word) for word in words]
        return self.major, self.minor, self.patch, not self.pre_release, parts

    @property
    def stored(self) -> ModelVersion:
        """Returns the part of this version that a model stores."""
        return replace(self, pre_release="", build="")

    @staticmethod
    def unpack(number: int) -> ModelVersion:
        """Decodes the number in `model_version`.

        If the upper four bytes are not zero, the number is SemVer, whose major or minor number is
        never zero. All other numbers, and negative numbers, are plain numbers.
        """
        if not -(2**63) <= number < 2**63:
            raise BadTarget(f"model_version must fit in 64 bits, but is {number}")
        if number >= 1 << 32:
            return ModelVersion(number >> 48, number >> 32 & 0xFFFF, number & 0xFFFFFFFF)
        return ModelVersion(patch=number, form=VersionFormat.NUMBER)

    @staticmethod
    def parse(text: str) -> ModelVersion:
        """Parses `1.2.345`, an optional pre-release and build (`1.2.345-rc.1+b7`), or a number."""
        if re.fullmatch(r"\d+", text, re.ASCII):
            return ModelVersion(patch=int(text), form=VersionFormat.NUMBER)
        match = _SEMVER.fullmatch(text)
        words = (match[4] or "").split(".") if match else ()
        if match is None or any(w.isdecimal() and w != str(int(w)) for w in words):
            raise BadTarget(
                f"{text!r} is not a version of a model; give MAJOR.MINOR.PATCH, such as 1.2.0, or a"
                " number"
            )
        major, minor, patch = map(int, match.groups()[:3])
        return ModelVersion(major, minor, patch, pre_release=match[4] or "", build=match[5] or "")

    def pack(self) -> int:
        """Encodes the version for `model_version`, without the pre-release and the build."""
        number = self.patch
        if self.form is not VersionFormat.NUMBER:
            parts = (self.major, self.minor, self.patch)
            if any(not 0 <= part < 1 << width for part, width in zip(parts, _BITS, strict=True)):
                raise BadTarget(
                    f"version {self} does not fit in model_version: it has {self.form.value}"
                )
            number |= self.minor << 32 | self.major << 48
        if ModelVersion.unpack(number) != self.stored:
            raise BadTarget(f"version {self} would be read back as {ModelVersion.unpack(number)}")
        return number

    def bump(self, level: Level) -> ModelVersion:
        """Returns the version after a change; a plain number grows by 1."""
        if level is Level.NONE:
            return self
        if self.pre_release or self.build:
            return self.stored.bump(level)
        if self.form is VersionFormat.NUMBER or level is Level.PATCH:
            return replace(self, patch=self.patch + 1)
        if level is Level.MINOR:
            return replace(self, minor=self.minor + 1, patch=0)
        return replace(self, major=self.major + 1, minor=0, patch=0)

    def __str__(self) -> str:
        if self.form is VersionFormat.NUMBER:
            return str(self.patch)
        more = f"-{self.pre_release}" * bool(self.pre_release) + f"+{self.build}" * bool(self.build)
        return f"{self.major}.{self.minor}.{self.patch}{more}"

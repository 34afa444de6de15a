# SPDX-License-Identifier: Apache-2.0
"""Recognizes files that are not ONNX models by their first bytes; each kind has a code."""

from __future__ import annotations

import re

from google.protobuf.message import DecodeError

from opshift import codes
from opshift.errors import InvalidModel
from opshift.opsets import described

HEAD = 512  # the number of bytes that are checked
NO_GRAPH = "the model has no graph; is it an ONNX model?"

_MARKS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"version https://git-lfs.github.com/spec", "GIT_LFS_POINTER"),
    (0, b"\x1f\x8b", "GZIP_FILE"),
    (0, b"BZh", "COMPRESSED_FILE"),
    (0, b"\xfd7zXZ\0", "COMPRESSED_FILE"),
    (0, b"\x28\xb5\x2f\xfd", "COMPRESSED_FILE"),  # zstd
    (0, b"7z\xbc\xaf\x27\x1c", "COMPRESSED_FILE"),
    (0, b"GGUF", "GGUF_FILE"),
    (0, b"\x89HDF\r\n\x1a\n", "HDF5_FILE"),
    (4, b"TFL3", "TFLITE_FILE"),
    (4, b"ORTM", "ORT_FILE"),
    (0, described.HEAD, "OPERATOR_SET_FILE"),
    (257, b"ustar", "TAR_FILE"),
    (0, b"\x80\x02\x8a\x0a", "PYTORCH_FILE"),  # PyTorch before 1.6: a pickled number
)
# Names of the first members of a zip archive.
_IN_ZIP = (
    ("PYTORCH_FILE", (b"/data.pkl", b"/byteorder", b"/version", b"archive_format",
                      b"serialized_exported_program")),
    ("KERAS_FILE", (b"metadata.json", b"model.weights.h5")),
)  # fmt: skip


# A SavedModel begins with its schema version and a MetaGraphDef; a frozen graph with a node.
_TENSORFLOW = re.compile(
    rb"\x08\x01\x12[\x80-\xff]*[\0-\x7f]\n|\n.*?(?:\x12\x0bPlaceholder|\x12\x05Const)", re.DOTALL
)


def refuse_other(path: str, head: bytes) -> None:
    """Raises InvalidModel if the first bytes of a file are those of another kind of file."""
    if (code := code_of(head)) is not None:
        raise error(path, code)


def code_of(head: bytes) -> str | None:
    """Returns the code of a file that begins with `head`; None if it may be a model."""
    for start, mark, code in _MARKS:
        if head[start : start + len(mark)] == mark:
            return code
    if head.startswith(b"PK\x03\x04"):
        kinds = (code for code, names in _IN_ZIP if any(name in head for name in names))
        return next(kinds, "ZIP_FILE")
    if len(head) > 9 and head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 30:
        return "SAFETENSORS_FILE"
    if _TENSORFLOW.match(head):
        return "TENSORFLOW_FILE"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(b"<?xml") and b"<net" in text:
        return "OPENVINO_FILE"
    return "HTML_PAGE" if text.startswith((b"<!doctype html", b"<html")) else None


def unread_code_of(head: bytes) -> str | None:
    """Returns the code of an unreadable file: a pickle, a text, or an empty file."""
    if not head:
        return "EMPTY_FILE"
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return "PICKLE_FILE"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"["):
        return "JSON_FILE"
    plain = all(32 <= octet < 127 or octet in b"\t\r\n" for octet in head)
    return "TEXT_FILE" if plain else None


def error(path: str, code: str) -> InvalidModel:
    """Makes the error for a file of another kind."""
    page = codes.page(code)
    return InvalidModel(f"{path}: not a readable ONNX model: {page.sentence} {page.cure}", code)


def unreadable(path: str, head: bytes, reason: object) -> InvalidModel:
    """Makes the error for an unreadable file, with the kind of the file or else the reason."""
    if (code := code_of(head) or unread_code_of(head)) is not None:
        return error(path, code)
    if isinstance(reason, DecodeError):  # its text contains names of our own message types
        reason = "the bytes are not a serialized model"
    return InvalidModel(f"{path}: not a readable ONNX model: {reason}", "UNREADABLE_MODEL")

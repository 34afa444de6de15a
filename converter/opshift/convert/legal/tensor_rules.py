# SPDX-License-Identifier: Apache-2.0
"""The rules on the payloads of tensors, which onnx's checker does not check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opshift.convert.legal.findings import Checked, NamedText
from opshift.errors import InvalidModel
from opshift.model import arrays, walk
from opshift.model.bytes import wire
from opshift.model.bytes.external import has_payload
from opshift.model.weights import Weights
from opshift.opsets.elements import ELEMENTS, T
from opshift.opsets.types import LARGEST_RANK
from opshift.protos import TensorProto
from opshift.text import is_utf8

_FIELDS = (*wire.PAYLOAD.values(), "string_data")


def payloads(checked: Checked) -> Iterator[NamedText]:
    """Yields tensors whose payload does not have the size of their shape and element type.

    onnx's checker rejects payloads in a wrong field.
    """
    for tensor in walk.tensors(checked.document.model):
        whole = (checked.weights or Weights()).in_memory(tensor)
        if whole is None or not _is_in_its_field(whole) or len(tensor.dims) > LARGEST_RANK:
            continue
        try:
            arrays.refuse_torn(whole)
        except InvalidModel as error:
            advice = "" if whole.HasField("segment") else "; correct the shape or the data"
            yield tensor.name, f"{error}{advice}"


def _is_in_its_field(tensor: TensorProto) -> bool:
    """Returns whether a payload is only in raw_data or in the field of its element type."""
    element = ELEMENTS.get(tensor.data_type)
    fields = [name for name in _FIELDS if has_payload(tensor, name)]
    if element is None:
        return tensor.data_type == T.STRING and fields == ["string_data"]
    return fields in (["raw_data"], [wire.PAYLOAD[element.field]])


def values(checked: Checked) -> Iterator[NamedText]:
    """Yields tensors with entries that their element type does not have.

    Large tensors are not read.
    """
    for tensor in walk.tensors(checked.document.model):
        kind = tensor.data_type
        bad = next(_texts_with_flaws(tensor.string_data), "") or next(_outside(tensor), "")
        if bad:
            yield (
                tensor.name,
                f"tensor {tensor.name!r} of {T(kind).name.lower()} has the entry {bad}; correct it",
            )


def _texts_with_flaws(texts: Iterable[bytes]) -> Iterator[str]:
    for text in texts:
        if not is_utf8(text):
            yield f"{text!r}, which is not UTF-8"
        elif text.endswith(b"\0"):
            yield f"{text!r}, which ends with a zero byte"
        elif text.startswith(b"\xef\xbb\xbf"):
            yield f"{text!r}, which begins with a byte order mark"


def _outside(tensor: TensorProto) -> Iterator[str]:
    """Yields entries outside the range of an element type; small numbers share an entry."""
    element = ELEMENTS.get(tensor.data_type)
    if element is None:
        return
    if element.number is T.BOOL and tensor.HasField("raw_data"):
        entries, limits = iter(tensor.raw_data), element.limits
    elif element.bits < 32 or element.number is T.UINT32:
        entries = iter(getattr(tensor, wire.PAYLOAD[element.field]))
        limits = element.limits
        if element.bits < 8 or element.fraction is not None:
            limits = (0, 2 ** max(element.bits, 8) - 1)
            if element.name.startswith("int"):
                limits = (-128, 255)
    else:
        return
    for entry in entries:
        if not limits[0] <= entry <= limits[1]:
            yield f"{entry}, which is not between {limits[0]} and {limits[1]}"

# SPDX-License-Identifier: Apache-2.0
"""Every command answers for a text that is not UTF-8, at each place in a model."""

from collections.abc import Callable

import opshift
import pytest
from onnx import ModelProto
from opshift import InvalidModel
from opshift.look.accepts import survey
from opshift.model.illegible import illegible, require_legible, texts
from text_models import model

RUNTIME = "onnxruntime==1.10"
VERBS: dict[str, Callable[[str, str], object]] = {
    "info": lambda path, to: opshift.info(path),
    "plan": lambda path, to: opshift.plan(path, 13),
    "accepts": lambda path, to: opshift.accepts(path, RUNTIME),
    "targets": lambda path, to: survey(path, [RUNTIME]),
    "diff": lambda path, to: opshift.diff(path, path),
    "convert": lambda path, to: opshift.convert_file(path, to, 13),
    "convert nothing": lambda path, to: opshift.convert_file(path, to, 12),
}


def named() -> ModelProto:
    proto = model("(float[2,3] x) => (float[2,3] y) { h = Relu(x) y = Softmax<axis=1>(h) }", 12)
    proto.producer_name = proto.doc_string = proto.graph.doc_string = "text"
    proto.graph.node[0].name = proto.graph.node[0].doc_string = "text"
    proto.metadata_props.add(key="key", value="text")
    proto.graph.value_info.add(name="h", doc_string="text")
    return proto


def broken() -> dict[str, bytes]:
    """The model with each of its texts replaced in turn."""
    found = {}
    for i, (owner, field, _) in enumerate(texts(named())):
        made = named()
        place, _, old = [*texts(made)][i]
        marker = f"marker{i}"
        value = getattr(place, field.name)
        if isinstance(value, str):
            setattr(place, field.name, marker)
        else:
            value[[*value].index(old)] = marker
        data = made.SerializeToString().replace(marker.encode(), b"\xff" * len(marker))
        found[f"{i} {owner.DESCRIPTOR.name}.{field.name}"] = data
    return found


BROKEN = broken()


@pytest.mark.parametrize("place", BROKEN)
def test_every_verb_names_a_text_that_is_not_utf_8(tmp_path, place):
    path = tmp_path / "m.onnx"
    path.write_bytes(BROKEN[place])
    owner, _, field = place.partition(" ")[2].partition(".")
    told = illegible(ModelProto.FromString(BROKEN[place]))
    assert told is not None
    assert f"the {field} " in told
    assert f"of a {owner} " in told
    for verb, act in VERBS.items():
        with pytest.raises(InvalidModel) as raised:
            act(str(path), str(tmp_path / "result.onnx"))
        assert str(raised.value) == told, verb
    assert told in str(opshift.check(path))
    assert not (tmp_path / "result.onnx").exists()


def test_a_tensor_of_any_bytes_is_no_text():
    made = named()
    made.graph.initializer.add(name="w", data_type=3, dims=[2], raw_data=b"\xff\xfe")
    require_legible(made.SerializeToString())


def test_a_message_shows_only_the_beginning_of_a_text() -> None:
    proto = model("(float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.producer_name = "p" * 9000
    data = proto.SerializeToString().replace(b"p" * 9000, b"\xff" * 9000)
    with pytest.raises(
        InvalidModel, match=r"^the producer_name b'.*'\.\.\. of a ModelProto"
    ) as caught:
        require_legible(data)
    assert len(str(caught.value)) < 400

# SPDX-License-Identifier: Apache-2.0
"""The rules about a whole model: each rule finds its faults, and no others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from onnx import ModelProto, TensorProto, TypeProto, helper
from opshift import versions
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.convert.legal import model_rules
from opshift.convert.legal.findings import Checked
from opshift.model import metadata, weights
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets import schemas
from text_models import model

NEWEST = schemas.latest("") or 0
NEG = "(float[2] x) => (float[2] y) { y = Neg(x) }"
FUNCTION = """(float[2] x) => (float[2] y) { y = own.F(x) }
    <domain: "own", opset_import: ["": 13]> F (a) => (b) { b = Neg(a) }"""
OWN = ', "own" : 1'


def texts(find: Callable[[Checked], Any], proto: ModelProto, **more: Any) -> list[str]:
    """Returns the messages of a rule about a model."""
    checked = Checked(Document(proto, "opshift_"), registry.default(), **more)
    return [one if isinstance(one, str) else one[1] for one in find(checked)]


def neg(opset: int = 13) -> ModelProto:
    return model(NEG, opset)


def calling(own: int = 13, op: str = "Neg") -> ModelProto:
    text = FUNCTION.replace('"": 13', f'"": {own}').replace("b = Neg", f"b = {op}")
    return model(text, 13, ir=8, more=OWN)


def training(node: str, opset: int = 13) -> ModelProto:
    proto = neg(opset)
    proto.training_info.add().algorithm.CopyFrom(
        model(f"(float[2] x) => (float[2] t) {{ t = {node} }}", opset).graph
    )
    return proto


def test_a_version_that_no_release_has() -> None:
    package = "onnx" if versions.RELEASES[-1].onnx > NEWEST else "opshift"
    cure = f"but only versions 1 to {NEWEST} are known; correct the import, or install a newer"
    assert texts(model_rules.unknown_imports, neg()) == []
    for version in (0, NEWEST + 1):
        proto = neg()
        proto.opset_import[0].version = version
        assert texts(model_rules.unknown_imports, proto) == [
            f"the model imports ai.onnx {version}, {cure} {package}"
        ]
    for version in (1, NEWEST):
        assert model_rules.unknown_version("", version) is None
    assert model_rules.unknown_version("unheard", 99) is None
    (message,) = texts(model_rules.unknown_imports, calling(NEWEST + 1))
    assert message.startswith(f"function 'F' imports ai.onnx {NEWEST + 1}, ")
    assert len(texts(model_rules.unknown_imports, training("Neg(x)", NEWEST + 1))) == 1
    assert (
        "imports ai.onnx.ml 99, but only versions 1 to"
        in texts(model_rules.unknown_imports, model(NEG, 13, more=', "ai.onnx.ml" : 99'))[0]
    )


def test_a_domain_that_is_not_imported_and_a_node_without_an_operator() -> None:
    proto = model(NEG.replace("Neg", "own.Neg"), 13)
    message = "own.Neg 'y' is of domain 'own', which the model does not import; add an opset_import for it"
    assert texts(model_rules.missing_imports, proto) == [message.replace("own.Neg 'y'", "Neg 'y'")]
    proto = neg()
    proto.graph.node[0].op_type = ""
    assert texts(model_rules.missing_imports, proto) == ["a node of graph has no op_type; set it"]
    del proto.opset_import[:]
    (message,) = texts(model_rules.missing_imports, proto)
    assert "is of domain 'ai.onnx', which the model does not import" in message
    assert texts(model_rules.missing_imports, neg()) == []


def test_functions_that_call_themselves() -> None:
    text = FUNCTION.replace('["": 13]', '["": 13, "own": 1]').replace("b = Neg", "b = own.F")
    assert texts(model_rules.recursion, calling()) == []
    assert texts(model_rules.recursion, model(text, 13, more=OWN))


def test_a_deprecated_operator_is_named_with_its_successors() -> None:
    upsample = (
        "(float[1,1,2,2] x) => (float[a,b,c,d] y) <float[4] s = {1,1,2,2}> { y = Upsample(x, s) }"
    )
    assert texts(model_rules.deprecated, model(upsample, 9)) == []
    assert texts(model_rules.deprecated, model(upsample, 10)) == [
        "Upsample (1 nodes in graph) is deprecated from ai.onnx 10 on; use Resize, or convert from 9"
    ]
    gone = NEG.replace("Neg", "ThresholdedRelu")
    (message,) = texts(model_rules.deprecated, model(gone, 9))
    assert message.startswith("ThresholdedRelu was removed from ai.onnx; a conversion writes ")
    assert "other operators" not in message
    assert texts(model_rules.deprecated, model(gone, 10)) == []
    assert texts(model_rules.deprecated, model(NEG.replace("Neg", "own.Neg"), 13)) == []


def test_nodes_of_experimental_operators_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        model_rules.changelog,
        "is_experimental",
        lambda domain, op, at: (op, at) in {("Neg", 13), ("Abs", 0)},
    )
    cause = "is an experimental operator, which may change or disappear without a new version"
    text = "(float[2] x) => (float[2] y) { a = Neg(x) b = own.Abs(a) y = Neg(b) }"
    assert texts(model_rules.experimental, model(text, 13)) == [
        f"Neg (2 nodes) {cause}",
        f"own.Abs (1 node) {cause}",
    ]
    assert texts(model_rules.experimental, neg(6)) == []


def test_a_late_deprecation_names_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_rules.late_changes, "deprecated", lambda domain, op, since: "1.5")
    upsample = "(float[2] x, float[1] s) => (float[a] y) { y = Upsample(x, s) }"
    (message,) = texts(model_rules.deprecated, model(upsample, 10))
    assert "is deprecated from ai.onnx 10 on (since onnx release 1.5); use" in message


SOFTMAX = "(float[2,2] x) => (float[2,2] y) { a = Softmax(x) y = Softmax(a) }"
LATE = frozenset({("", "Abs"), ("", "AveragePool"), ("", "Softmax"), ("own", "Abs")})
POOL = "(float[1,1,2,2] x) => (float[a,b,c,d] y) { y = AveragePool<kernel_shape = [1, 1], ceil_mode = 1>(x) }"


@pytest.mark.parametrize(
    ("text", "opset", "told"),
    [
        (SOFTMAX, 14, ["Softmax of ai.onnx 14 (2 nodes) has two meanings: Softmax-13 from onnx 9.9 on, which opshift uses, and Softmax-11 in earlier releases"]),
        (POOL, 11, ["AveragePool of ai.onnx 11 (1 node) has two meanings: AveragePool-11 from onnx 9.9 on, which opshift uses, and AveragePool-10 in earlier releases"]),
        (POOL, 10, []),  # the implementation before has no ceil_mode, so it was no other meaning
        ("(float[2] x) => (float[2] y) { y = Abs(x) }", 1, []),  # nothing is earlier
        ("(float[2] x) => (float[2] y) { y = own.Abs(x) }", 14, []),
    ],
)  # fmt: skip
def test_an_implementation_that_was_added_late_has_two_meanings(
    text: str, opset: int, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = model(text, opset)
    assert texts(model_rules.two_meanings, proto) == []
    monkeypatch.setattr(model_rules.late_changes, "operators_added", lambda: LATE)
    monkeypatch.setattr(model_rules.late_changes, "added_after", lambda *given: "9.9")
    assert texts(model_rules.two_meanings, proto) == told
    monkeypatch.setattr(model_rules.versions, "release_of", lambda *given: None)
    assert texts(model_rules.two_meanings, proto) == []


def test_a_deprecated_implementation_gives_no_second_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_rules.late_changes, "operators_added", lambda: LATE)
    monkeypatch.setattr(model_rules.late_changes, "added_after", lambda *given: "9.9")
    older = [SimpleNamespace(since=at, deprecated=at == 11) for at in (1, 11, 13)]
    monkeypatch.setattr(model_rules.schemas, "history", lambda *key: older)
    assert texts(model_rules.two_meanings, model(SOFTMAX, 14)) == []


def test_a_node_with_more_than_an_implementation_has_is_beyond_it() -> None:
    clip = schemas.schema("", "Clip", 6)
    assert model_rules.is_beyond(helper.make_node("Clip", ["x"], ["y"]), None)
    assert not model_rules.is_beyond(helper.make_node("Clip", ["x"], ["y"], min=0.0), clip)
    assert model_rules.is_beyond(helper.make_node("Clip", ["x", "l"], ["y"]), clip)
    assert model_rules.is_beyond(helper.make_node("Clip", ["x"], ["y", "z"]), clip)
    assert model_rules.is_beyond(helper.make_node("Clip", ["x"], ["y"], least=0.0), clip)


def test_metadata_in_another_form() -> None:
    proto = neg()
    proto.metadata_props.add(key="Image.BitmapPixelFormat", value="none")
    proto.metadata_props.add(key="own", value="none")
    (message,) = texts(model_rules.metadata_forms, proto)
    form, _ = metadata.FORMS["Image.BitmapPixelFormat"]
    assert message == f"the metadata 'Image.BitmapPixelFormat' is 'none'; ONNX defines it as {form}"
    proto.metadata_props[0].value = "Rgb8"
    assert texts(model_rules.metadata_forms, proto) == []


def test_an_image_has_metadata() -> None:
    proto = neg()
    proto.graph.output[0].type.denotation = "IMAGE"
    proto.metadata_props.add(key="image.colorspacegamma", value="SRGB")
    message = "value 'y' is an image, but the metadata do not state Image.BitmapPixelFormat, Image.NominalPixelRange; add these entries"
    assert texts(model_rules.metadata_forms, proto) == [message]
    for key in ("Image.BitmapPixelFormat", "Image.NominalPixelRange"):
        proto.metadata_props.add(key=key, value="Rgb8" if "Bit" in key else "Normalized_0_1")
    assert texts(model_rules.metadata_forms, proto) == []


def test_a_function_that_means_something_else_at_its_version() -> None:
    message = "function 'F' imports ai.onnx 12, but the model imports 13, in which Softmax differs; convert both to one version"
    assert texts(model_rules.function_imports, calling(12, "Softmax")) == [message]
    assert texts(model_rules.function_imports, calling(13, "Softmax")) == []
    assert texts(model_rules.function_imports, calling(12, "Ceil")) != []  # Ceil 13 has other types
    assert texts(model_rules.function_imports, calling(14, "Ceil")) == []
    missing = calling(12, "Softmax")
    del missing.functions[0].opset_import[:]
    assert texts(model_rules.function_imports, missing) == []
    missing = calling(12, "Softmax")
    del missing.opset_import[0]
    assert texts(model_rules.function_imports, missing) == []


def test_nodes_for_training_are_checked() -> None:
    (message,) = texts(model_rules.training_nodes, training("Neg(x, x)"))
    assert message.startswith("Neg 't': Node")
    assert texts(model_rules.training_nodes, training("Neg(x)")) == []
    assert texts(model_rules.training_nodes, training("ThresholdedRelu(x)", 9)) == []  # replaced


def typed(kind: TypeProto) -> ModelProto:
    proto = neg()
    proto.graph.value_info.add(name="v").type.CopyFrom(kind)
    return proto


FLOAT, NOTHING = helper.make_tensor_type_proto(1, [2]), helper.make_tensor_type_proto(0, [2])


def map_of(key: int) -> TypeProto:
    return helper.make_map_type_proto(key, FLOAT)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (FLOAT, []),
        (helper.make_tensor_type_proto(99, [2]), ["value 'v' is of element type 99, which does not exist"]),
        (NOTHING, []),
        (helper.make_sequence_type_proto(FLOAT), []),
        (helper.make_sequence_type_proto(NOTHING), ["value 'v' holds tensors without an element type"]),
        (helper.make_optional_type_proto(NOTHING), ["value 'v' holds tensors without an element type"]),
        (helper.make_sequence_type_proto(helper.make_sequence_type_proto(NOTHING)), ["value 'v' holds tensors without an element type"]),
        (TypeProto(), []),
        (map_of(TensorProto.STRING), []), (map_of(TensorProto.UINT8), []), (map_of(TensorProto.INT64), []),
        (map_of(TensorProto.FLOAT), ["value 'v' is a map with keys of FLOAT, but keys must be integers or strings"]),
        (map_of(99), ["value 'v' is a map with keys of element type 99, but keys must be integers or strings"]),
        (map_of(TensorProto.BOOL), ["value 'v' is a map with keys of BOOL, but keys must be integers or strings"]),
    ],
)  # fmt: skip
def test_an_element_type_that_does_not_exist(kind: TypeProto, told: list[str]) -> None:
    assert texts(model_rules.element_types, typed(kind)) == told


def test_an_input_without_an_element_type() -> None:
    proto = neg()
    proto.graph.input[0].type.tensor_type.elem_type = 0
    assert texts(model_rules.element_types, proto) == ["input 'x' has no element type"]
    proto.graph.input[0].ClearField("type")
    assert texts(model_rules.element_types, proto) == []


def test_data_files_are_looked_for_beside_a_model_of_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights, "flaws", lambda model, large_tensors: iter(["lost"]))
    assert texts(model_rules.data_files, neg()) == []
    large_tensors = SimpleNamespace(file="m.onnx")
    assert texts(model_rules.data_files, neg(), weights=large_tensors) == ["lost"]


def of_ir_3(find: Callable[[Checked], Any], change: Callable[[ModelProto], Any]) -> list[str]:
    proto = model(NEG, 13, ir=3)
    change(proto)
    document = Document(proto, "opshift_")
    facts = Facts(document, Weights(), registry.default(), lambda: proto)
    checked = Checked(document, registry.default(), facts)
    return [text for _, text in find(checked)]


def test_content_of_a_later_ir_version() -> None:
    def note(proto: ModelProto) -> None:
        proto.graph.metadata_props.add(key="a", value="b")

    def kind(proto: ModelProto) -> None:
        proto.graph.value_info.add(name="v").type.CopyFrom(
            helper.make_tensor_type_proto(TensorProto.BFLOAT16, [])
        )

    above = of_ir_3(model_rules.above_ir, kind)
    assert all("needs IR" in one and "the model states IR 3; raise it with" in one for one in above)
    assert above
    assert of_ir_3(model_rules.skipped_above_ir, kind) == []
    (told,) = of_ir_3(model_rules.skipped_above_ir, note)
    assert "; readers of IR 3 ignore it" in told
    assert of_ir_3(model_rules.above_ir, note) == []

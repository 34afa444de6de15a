# SPDX-License-Identifier: Apache-2.0
"""What a runtime lacks for a model, and what is not known of it, as sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import onnx
import pytest
from checked import checked
from onnx import ModelProto, helper
from opshift import convert_version, terms
from opshift.adapter import T, adapter
from opshift.codes.refusals import Why
from opshift.convert.legal import runtime
from opshift.convert.legal.runtime import RuntimeLack
from opshift.opsets import probed, targets
from opshift.opsets.kernels import Missing
from opshift.opsets.targets import RuntimeRelease
from steps import stepper
from text_models import model

PLAIN = RuntimeRelease("it", "1.0", {"": 15, "ai.onnx.ml": 2}, 8, "a page")
NEG = "(float[2] x) => (float[2] y) { y = Neg(x) }"


def sentences(found: Iterable[object]) -> list[str]:
    return [str(one) for one in found]


def of_document(part, made: ModelProto, row: RuntimeRelease) -> list[str]:
    """The sentences of a part that needs no facts."""
    return sentences(part(checked(made).document, row))


def of_facts(part, made: ModelProto, row: RuntimeRelease, *more) -> list[str]:
    """The sentences of a part that needs facts."""
    return sentences(part(checked(made).facts, row, *more))


class Table(RuntimeRelease):
    """A release whose missing kernels a test chooses."""

    __slots__ = ()
    LACKS: dict = {}

    def no_kernels(self, key, since, opset=0):
        return self.LACKS.get((*key, since))


def without(**lacks: Missing) -> RuntimeRelease:
    """A release with a table of missing kernels, by operator and version."""

    class Chosen(Table):
        __slots__ = ()
        LACKS = {("", *_key(name)): missing for name, missing in lacks.items()}

    return Chosen("it", "1.0", {"": 25}, 10, "a page")


def _key(name: str) -> tuple[str, int]:
    op, _, since = name.partition("_")
    return op, int(since)


# -- one lack --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "count", "shown"),
    [("n", 1, "it fails ('n')"), ("n", 2, "it fails ('n' and 1 more)"), ("", 1, "it fails")],
)
def test_a_lack_names_its_first_node(node, count, shown):
    assert str(RuntimeLack("Neg", "", node, count, "it fails")) == shown


def test_a_lack_is_a_refusal_of_a_conversion_for_the_runtime():
    refused = RuntimeLack("Neg", "acme", "n", 2, "it fails", "double=float").as_refusal(13)
    assert (refused.node, refused.op, refused.domain) == ("n", "Neg", "acme")
    assert (refused.boundary, refused.why) == ((13, 13), Why.TARGET_LACKS)
    assert (refused.detail, refused.types) == ("it fails", "double=float")


# -- versions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ir", "opset", "row", "expected"),
    [
        (8, 15, PLAIN, []),
        (9, 15, PLAIN, ["the model has IR 9; it==1.0 reads IR only up to 8"]),
        (9, 15, replace(PLAIN, ir=None), []),
        (8, 16, PLAIN, ["the model imports ai.onnx 16; it==1.0 reads ai.onnx only up to 15"]),
        (8, 16, replace(PLAIN, imports={}), []),
        (
            9,
            16,
            replace(PLAIN, columns={"compares": False}),
            [
                "the model has IR 9; it==1.0 loads the model unchecked, but supports IR only up to 8",
                "the model imports ai.onnx 16; it==1.0 loads the model unchecked, but supports ai.onnx only"
                " up to 15",
            ],
        ),
    ],
)
def test_versions_above_those_of_a_runtime(ir, opset, row, expected):
    found = runtime.stamps(checked(model(NEG, opset, ir)).document, row)
    assert sentences(found) == expected
    assert all((one.op, one.domain, one.node, one.count) == ("", "", "", 1) for one in found)


def test_another_domain_is_named():
    proto = model(NEG, more=', "ai.onnx.ml" : 3')
    assert of_document(runtime.stamps, proto, PLAIN) == [
        "the model imports ai.onnx.ml 3; it==1.0 reads ai.onnx.ml only up to 2"
    ]


def test_operators_below_the_oldest_kernels():
    row = replace(PLAIN, floors={"": 7, "acme": 3})
    text = "(float[2] x) => (float[2] y) { a = Add(x, x) b = Add(a, x) c = Neg(b) y = Relu(c) }"
    assert of_document(runtime.below_floor, model(text, 6), row) == [
        "it==1.0 has no kernels for Add of ai.onnx 6; it has kernels from ai.onnx 7 on ('a' and 1 more)"
    ]
    assert of_document(runtime.below_floor, model(text, 7), row) == []
    assert of_document(runtime.below_floor, model(text, 6), PLAIN) == []


@pytest.mark.parametrize(
    ("added", "row", "reasons", "doubts"),
    [
        ([""], PLAIN, [], ["whether it==1.0 reads a model that imports no operator set"]),
        ([""], replace(PLAIN, name="onnx"), ["the model imports no operator set"], []),
        (["b", "a"], PLAIN, [], [f"whether it==1.0 reads a model without an import of {d}" for d in "ab"]),
        (["a"], replace(PLAIN, kernels="onnxruntime"), [], []),
    ],
)  # fmt: skip
def test_a_model_without_imports(added, row, reasons, doubts):
    found, doubted = runtime.without_imports(row, added)
    assert (sentences(found), doubted) == (reasons, doubts)
    assert all((one.op, one.domain, one.node, one.count) == ("", "", "", 1) for one in found)


# -- domains and operators -------------------------------------------------------------------------

FOREIGN = "(float[2] x) => (float[2] y) { a = acme.Neg(x) b = acme.Neg(a) y = acme.Abs(b) }"


def test_a_domain_that_a_runtime_lacks():
    proto = model(
        "(float[2] x) => (float[2] y) { a = ai.onnx.ml.Scaler(x) y = Neg(a) }",
        more=', "ai.onnx.ml" : 1',
    )
    assert of_document(runtime.lacking, proto, PLAIN) == []
    row = replace(PLAIN, imports={"": 15}, closed=True)
    assert of_document(runtime.lacking, proto, row) == [
        "it==1.0 has no domain ai.onnx.ml, to which Scaler belongs ('a')"
    ]
    assert (
        of_document(runtime.lacking, proto, replace(row, imports={}))[1:]
        == ["it==1.0 has no domain ai.onnx, to which Neg belongs ('y')"]
        or len(of_document(runtime.lacking, proto, replace(row, imports={}))) == 2
    )


def test_a_domain_of_which_nothing_is_known():
    proto = model(FOREIGN, more=', "acme" : 1')
    (domain, operators) = of_facts(runtime.unknown, proto, PLAIN)
    assert domain == "whether it==1.0 has the domain acme (3 nodes)"
    assert operators == "which operators it==1.0 runs: " + operators.partition(": ")[2]
    known = replace(PLAIN, imports={"": 15, "acme": 1})
    assert of_facts(runtime.unknown, proto, known)[:2] == [
        "whether it==1.0 has acme.Abs ('y')", "whether it==1.0 has acme.Neg ('a' and 1 more)"
    ]  # fmt: skip
    assert of_facts(runtime.unknown, proto, replace(PLAIN, closed=True))[0].endswith("(3 nodes)")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "only its supported versions are known"),
        ({"provider": "cuda"}, "only the CPU was measured"),
        ({"only": (targets.Lacking("Neg"),)}, "its operators are known, but not their element types and forms"),
        ({"without": (targets.Lacking("Abs"),)}, "only some operators were measured"),
        ({"name": "onnxruntime", "versions": "1.10"}, "only some operators were measured"),
    ],
)  # fmt: skip
def test_what_is_known_of_the_operators_of_a_runtime(more, why):
    row = replace(PLAIN, **more)
    assert of_facts(runtime.unknown, model(NEG), row) == [
        f"which operators {row.shown} runs: {why}"
    ]


def test_nothing_is_unknown_of_a_measured_runtime_or_of_no_node():
    assert of_facts(runtime.unknown, model(NEG), replace(PLAIN, name="onnx")) == []
    empty = model("(float[2] x) => (float[2] x) { }")
    assert of_facts(runtime.unknown, empty, PLAIN) == []


def test_operators_that_a_runtime_does_not_read():
    row = replace(PLAIN, without=(targets.Lacking("Neg"),))
    text = "(float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Neg(b) }"
    assert of_document(runtime.lacking, model(text, 13), row) == [
        "it==1.0 does not read Neg 13 ('a' and 1 more)"
    ]
    found = checked(model(text, 13)).document
    ((root, key, says),) = runtime.unread(found, row)
    assert (root, key, says) == (found.roots[0], ("", "Neg"), "it==1.0 does not read Neg 13")
    assert not runtime.reads(found.model.graph.node, found.roots[0], row)
    assert runtime.reads(found.model.graph.node, found.roots[0], PLAIN)


ORT_2 = "onnxruntime==1.2"


def test_an_operator_that_only_other_releases_have():
    proto = model(
        "(float[2] x) => (float[2] y) { y = com.microsoft.QuickGelu(x) }",
        more=', "com.microsoft" : 1',
    )
    assert of_document(runtime.lacking, proto, targets.find(ORT_2)) == [
        "onnxruntime==1.2 has no operator com.microsoft.QuickGelu ('y')"
    ]


def test_a_field_that_a_release_does_not_know():
    text = """(float[1,2,8] q, float[1,2,8] k, float[1,2,8] v) => (float[1,2,8] y)
        { y = com.microsoft.MultiHeadAttention<num_heads = 2, unidirectional = 1>(q, k, v) }"""
    proto = model(text, more=', "com.microsoft" : 1')
    row = targets.find("onnxruntime==1.14")
    found = checked(proto).document
    ((key, says), places), *rest = runtime.unknown_fields(found, row).items()
    assert (key, rest) == (("com.microsoft", "MultiHeadAttention"), [])
    assert [scope.node(at).output[0] for scope, at in places] == ["y"]
    assert of_document(runtime.lacking, proto, row) == [
        f"{row.shown} has no operator com.microsoft.MultiHeadAttention with {says} ('y')"
    ]
    assert runtime.unknown_fields(found, PLAIN) == {}


def test_an_attribute_that_no_measured_release_knows():
    proto = model(
        "(float[2] x, float[2] b) => (float[2] y) { y = com.microsoft.BiasGelu<later = 1>(x, b) }",
        more=', "com.microsoft" : 1',
    )
    for release in ("1.10", "1.32"):
        row = targets.find(f"onnxruntime=={release}")
        assert of_document(runtime.lacking, proto, row) == [
            f"{row.shown} has no operator com.microsoft.BiasGelu with an attribute later ('y')"
        ]
    assert of_document(runtime.lacking, proto, replace(row, kernels="", provider="cuda")) == []
    newer = replace(targets.find("onnxruntime==1.32"), asked="1.99")
    assert of_document(runtime.lacking, proto, newer) == []


def test_an_implementation_that_onnx_added_after_the_release(monkeypatch):
    text = "(float[2] x) => (float[2] y) { a = Identity(x) y = Neg(a) }"
    from opshift.opsets import late_changes

    monkeypatch.setattr(
        late_changes,
        "added_after",
        lambda domain, op, since, built: (
            "1.99" if op == "Identity" and built == row.built_on else None
        ),
    )
    monkeypatch.setattr(runtime, "is_beyond", lambda node, before: True)
    row = replace(PLAIN, imports={"": 13})
    assert of_document(runtime.lacking, model(text, 13), row) == [
        "it==1.0 has Identity-1 in this opset; onnx 1.99 added Identity-13 ('a')"
    ]
    assert of_document(runtime.lacking, model(text, 12), row) == [
        "it==1.0 has no Identity in this opset; onnx 1.99 added Identity-1 ('a')"
    ]
    assert of_document(runtime.lacking, model(text, 13), replace(PLAIN, imports={})) == []
    monkeypatch.setattr(runtime, "is_beyond", lambda node, before: False)
    assert of_document(runtime.lacking, model(text, 13), row) == []


# -- element types ---------------------------------------------------------------------------------


def test_element_types_that_a_runtime_lacks():
    proto = model(
        "(double[2] x, bfloat16[2] z) => (double[2] y, bfloat16[2] w) { y = Neg(x) w = Neg(z) }", 13
    )
    row = replace(PLAIN, columns={"types": ("double", "int8")}, ir=3)
    found = runtime.lacking(checked(proto).document, row)
    assert (
        sentences(found)
        == [
            "it==1.0 has no kernels for double",
            "it==1.0 does not read bfloat16, which IR 4 introduced",
        ]
        or sentences(found)[0] == "it==1.0 has no kernels for double"
    )
    assert found[0].types == "double=float"
    assert (found[0].op, found[0].domain, found[0].node, found[0].count) == ("", "", "", 1)
    lacks_both = runtime.lacking(
        checked(proto).document, replace(row, columns={"types": ("double", "float", "float16")})
    )
    assert lacks_both[0].types in ("", "double=float16") or "float" not in lacks_both[0].types
    assert of_document(runtime.lacking, proto, replace(PLAIN, columns={"types": ()}, ir=None)) == []
    assert of_document(runtime.lacking, proto, replace(PLAIN, columns={"types": ()}, ir=20)) == []


def test_a_type_that_a_later_ir_version_introduced():
    proto = model("(float8e5m2[2] x) => (float8e5m2[2] y) { y = Identity(x) }", 19, ir=9)
    for ir, told in ((8, True), (9, False), (None, False)):
        row = replace(PLAIN, imports={"": 19}, ir=ir)
        found = of_document(runtime.lacking, proto, row)
        assert found == ["it==1.0 does not read float8e5m2, which IR 9 introduced"] * told


def test_types_that_a_runtime_casts_by_itself():
    row = replace(PLAIN, columns={"casts": {"int64": "int32", "double": "float"}})
    graph = model("(int64[2] x) => (float[2] y) { y = Cast<to = 1>(x) }").graph
    says = "it==1.0 computes int64 as int32 and clamps numbers beyond it"
    assert runtime.casts_by_itself(graph, row) == {"int64=int32": says}


def test_inputs_and_outputs_that_the_package_does_not_pass():
    row = replace(PLAIN, columns={"inputs": ("double",), "outputs": ("int64",)})
    proto = model(
        "(double[2] x, int64[2] z) => (double[2] y, int64[2] w) { y = Neg(x) w = Neg(z) }", 13
    )
    found = runtime.forms(checked(proto).facts, row)
    assert sentences(found) == [
        "it==1.0: its Python package cannot accept a tensor of double, such as 'x'",
        "it==1.0: its Python package cannot return a tensor of int64, such as 'w'",
    ]
    assert all((one.op, one.domain, one.node, one.count) == ("", "", "", 1) for one in found)


def test_a_declared_shape_that_a_strict_runtime_rejects():
    proto = model("(float[2] x) => (float[3] y) { y = Neg(x) }", 15)
    strict = replace(PLAIN, columns={"strict": True})
    (told,) = of_facts(runtime.forms, proto, strict)
    assert told.startswith(
        "it==1.0: at opset 15 it rejects a declared shape that inference contradicts: "
    )
    assert of_facts(runtime.forms, proto, PLAIN) == []
    assert of_facts(runtime.forms, model(NEG, 15), strict) == []
    assert (
        of_facts(runtime.forms, model("(float[2] x) => (float[3] y) { y = Neg(x) }", 14), strict)
        == []
    )


# -- sizes -----------------------------------------------------------------------------------------


def test_sizes_that_are_not_fixed():
    text = "(float[N,2] a, float[N,M] b, float[] c, float d, seq(float[N]) e) => (float[N,2] y) <float[2] w = {1, 2}> { y = Neg(a) }"
    proto = model(text, 13)
    proto.graph.input.append(helper.make_tensor_value_info("w", T.FLOAT, ["K"]))
    proto.graph.input.append(helper.make_tensor_value_info("u", T.FLOAT, None))
    row = replace(PLAIN, name="onnx", columns={"fixed_sizes": True})
    told = of_facts(runtime.unknown, proto, row)
    fix = f"it needs fixed sizes, as in {terms.option('shape', 'u=1,3,224,224')}"
    assert [one for one in told if "'u'" in one] == [f"whether onnx==1.0 reads 'u': {fix}"]
    sizes = [one for one in told if "the size" in one]
    assert sizes == [
        f"whether onnx==1.0 reads the size {size!r}: it needs fixed sizes, as in"
        f" {terms.option('dim', f'{size}=1')}"
        for size in "NM"
    ]
    assert of_facts(runtime.unknown, proto, replace(row, columns={"fixed_sizes": False})) == []


# -- kernels ---------------------------------------------------------------------------------------


def test_a_node_of_a_type_without_a_kernel():
    row = without(Neg_13=Missing(("T",), frozenset({("double",), ("float16",)})))
    text = "(double[2] x, float[2] z) => (double[2] y, float[2] w) { a = Neg(x) y = Neg(a) w = Neg(z) }"
    opened = checked(model(text, 13))
    (lack,) = runtime.kernels(opened.facts, row)
    assert str(lack) == "Neg of double has no kernel in it 1.0 ('a' and 1 more)"
    assert (lack.op, lack.domain, lack.count, lack.types) == ("Neg", "", 2, "double=float")
    ((place, key, types, missing), (other, *_)) = runtime.without_kernel(opened.facts, row)
    assert (key, types, missing) == (("", "Neg"), ("double",), row.no_kernels(("", "Neg"), 13))
    assert [place[0].node(place[1]).output[0], other[0].node(other[1]).output[0]] == ["a", "y"]


def test_no_change_of_types_is_offered_that_has_no_kernel_either():
    every = Missing(("T",), frozenset({("double",)}), frozenset({("float",)}))
    opened = checked(model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13))
    (lack,) = runtime.kernels(opened.facts, without(Neg_13=every))
    assert lack.types in ("", "double=float16", "double=bfloat16")
    assert lack.types != "double=float"


def test_the_outcome_of_a_probe_is_named():
    missing = Missing(("T",), frozenset({("double",)}), outcomes={("double",): probed.DIES})
    opened = checked(model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13))
    (lack,) = runtime.kernels(opened.facts, without(Neg_13=missing))
    assert str(lack) == "Neg of double crashes the process of it 1.0 ('y')"


TWO = Missing(("T1", "T2"), frozenset({("float", "int32")}))


def test_several_types_are_listed():
    opened = checked(model("(float[2] x) => (int32[2] y) { y = Cast<to = 6>(x) }", 13))
    (lack,) = runtime.kernels(opened.facts, without(Cast_13=TWO))
    assert str(lack) == "Cast of float, int32 has no kernel in it 1.0 ('y')"


def test_types_are_looked_up_once_for_many_releases():
    opened = checked(model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13))
    seen = runtime.Seen()
    row = without(Neg_13=Missing(("T",), frozenset({("double",)})))
    assert len(runtime.kernels(opened.facts, row, seen)) == 1
    ((asked, types),) = seen.types.items()
    assert (asked[1:], types) == ((("", "Neg"), ("T",)), [("double",)])
    seen.types[asked] = [("float",)]
    assert runtime.kernels(opened.facts, row, seen) == []


def test_forms_are_looked_for_once_for_many_releases():
    text = "(float[2] x) => (y) { s = Constant<value = int64[1] {-1}>() y = Reshape<allowzero = 1>(x, s) }"
    found, seen = checked(model(text, 14)), runtime.Seen()
    rows = [targets.find(f"onnxruntime=={release}") for release in ("1.9", "1.10")]
    assert len(runtime.forms(found.facts, rows[0], seen)) == 1
    for asked in seen.places:
        seen.places[asked] = []
    assert runtime.forms(found.facts, rows[1], seen) == []
    assert len(runtime.forms(found.facts, rows[1])) == 1


def test_a_type_in_doubt_or_not_tried():
    doubt = Missing(("T",), frozenset({("float16",)}), frozenset({("double",)}))
    proto = model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13)
    assert of_facts(runtime.in_doubt, proto, without(Neg_13=doubt)) == [
        "whether it 1.0 has a kernel for Neg of double ('y')"
    ]
    plain = model(NEG, 13)
    assert of_facts(runtime.in_doubt, plain, without(Neg_13=doubt)) == []
    lacks = Missing(("T",), frozenset({("double",)}))
    assert of_facts(runtime.in_doubt, proto, without(Neg_13=lacks)) == []


def test_a_value_of_unknown_type_may_be_of_each_type_in_the_model():
    text = "(double[2] x) => (y, z) { y = acme.Op(x) z = Neg(y) }"
    proto = model(
        "(double[2] x) => (double[2] w) { y = acme.Op(x) z = Neg(y) w = Abs(x) }",
        13,
        more=', "acme" : 1',
    )
    assert text
    for lacked, told in (("double", True), ("float16", False)):
        row = without(Neg_13=Missing(("T",), frozenset({(lacked,)})))
        assert (
            of_facts(runtime.in_doubt, proto, row)
            == ["whether it 1.0 has a kernel for Neg of an unknown type ('z')"] * told
        )
        doubted = without(Neg_13=Missing(("T",), frozenset(), frozenset({(lacked,)})))
        assert bool(of_facts(runtime.in_doubt, proto, doubted)) == told


@pytest.mark.parametrize("probed_only", [True, False])
def test_a_probe_names_its_doubts_itself(probed_only):
    doubt = Missing(("T",), frozenset(), frozenset({("double",)}))
    row = replace(
        without(Neg_13=doubt), probed=object(), kernels="" if probed_only else "onnxruntime"
    )
    proto = model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13)
    assert bool(of_facts(runtime.in_doubt, proto, row)) != probed_only


def test_types_that_the_measurement_left_out_are_not_tried():
    """Of operators with many type variables, rare types were not measured."""
    found = checked(model(NEG, 13)).document.roots[0]
    assert runtime.is_tried(found, ("", "Neg"), ("T",), ("double",))
    assert runtime.is_tried(found, ("", "Neg"), ("T",), ("",))
    for kinds, tried in (
        (("float", "int32"), True),
        (("float", "uint16"), False),
        (("", ""), True),
    ):
        assert runtime.is_tried(found, ("", "Cast"), ("T1", "T2"), kinds) == tried


def test_an_absent_input_has_the_type_that_a_kernel_takes():
    """Of Clip, the bounds have the type of the input; of Resize, the region has one of its own."""
    text = "(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize(x, , s) }"
    one = frozenset({("float", "float"), ("float", "double")})
    assert (
        of_facts(runtime.kernels, model(text, 13), without(Resize_13=Missing(("T1", "T2"), one)))
        == []
    )
    every = one | {("float", "float16")}
    found = of_facts(
        runtime.kernels, model(text, 13), without(Resize_13=Missing(("T1", "T2"), every))
    )
    assert len(found) == 1
    assert "Resize of float" in found[0]
    unnamed = frozenset({("float", "")})  # a probe ran models without the input
    for missing in (Missing(("T1", "T2"), unnamed), Missing(("T1", "T2"), frozenset(), unnamed)):
        told = of_facts(runtime.kernels, model(text, 13), without(Resize_13=missing))
        assert told == ["Resize of float has no kernel in it 1.0 ('y')"] * bool(missing.choices)
        doubts = of_facts(runtime.in_doubt, model(text, 13), without(Resize_13=missing))
        assert bool(doubts) == (not missing.choices)


def test_a_doubtful_type_is_better_than_none_for_an_absent_input():
    text = "(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize(x, , s) }"
    missing = Missing(
        ("T1", "T2"),
        frozenset({("float", "float"), ("float", "double")}),
        frozenset({("float", "float16")}),
    )
    row = without(Resize_13=missing)
    assert of_facts(runtime.kernels, model(text, 13), row) == []
    assert of_facts(runtime.in_doubt, model(text, 13), row) == [
        "whether it 1.0 has a kernel for Resize of float, float16 ('y')"
    ]


def test_untried_types_are_listed_on_demand(monkeypatch):
    opened = checked(model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13))
    row = without(Neg_13=Missing(("T",), frozenset({("float16",)})))
    monkeypatch.setattr(runtime, "_left_out", lambda *_: {"T": {"double"}})
    assert runtime.without_kernel(opened.facts, row) == []
    assert len(runtime.without_kernel(opened.facts, row, untried=True)) == 1
    assert of_facts(
        runtime.in_doubt, model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13), row
    ) == ["whether it 1.0 has a kernel for Neg of double ('y')"]
    monkeypatch.setattr(runtime, "_left_out", lambda *_: {})
    assert runtime.without_kernel(opened.facts, row, untried=True) == []


def test_contrib_operators_without_a_kernel_on_the_cpu():
    proto = model(
        "(float[1,3,32] q, float[1,3,16] k, float[1,3,16] v, float[1,2,4,8] a, float[1,2,4,8] b,"
        " int32[1] s, int32 t) => (float[1,3,32] y, float[1,2,4,8] c, float[1,2,4,8] d)"
        " { y, c, d = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>(q, k, v, a, b, s, t) }",
        17,
        more=', "com.microsoft" : 1',
    )
    says = "com.microsoft.GroupQueryAttention has no kernel on the CPU in onnxruntime 1.16 ('y')"
    assert of_facts(runtime.kernels, proto, targets.find("onnxruntime==1.16")) == [says]
    assert of_facts(runtime.kernels, proto, targets.find("onnxruntime==1.18")) == []
    half = onnx.ModelProto.FromString(proto.SerializeToString().replace(b"", b""))
    assert half == proto


# -- the nodes of a change -------------------------------------------------------------------------


def builder_of(made: ModelProto):
    """A Builder in the graph of a model, and its nodes."""
    from opshift.author import registry
    from opshift.author.builder import Builder
    from opshift.author.facts import ScopeEnv
    from opshift.convert import planner
    from opshift.convert.step import Stepper

    opened = checked(made)
    crossings = planner.of_document(opened.document, registry.default(), {"": 13})
    at = Stepper(opened.facts, crossings, "", 13, 13, False)
    scope = opened.document.roots[0].top
    return (
        opened.document.model.graph.node,
        Builder(at, ScopeEnv(opened.facts, scope)),
        opened.facts.adapters,
    )


@pytest.mark.parametrize(
    ("row", "runs"),
    [
        (PLAIN, True),
        (replace(PLAIN, without=(targets.Lacking("Neg"),)), False),
        (without(Neg_13=Missing(("T",), frozenset({("double",)}))), False),
        (without(Neg_13=Missing(("T",), frozenset({("float",)}))), True),
        (without(Neg_13=Missing(("T",), frozenset(), frozenset({("double",)}))), True),
    ],
)
def test_nodes_run_if_no_lack_is_known(row, runs):
    nodes, op, rules = builder_of(
        model("(double[2] x) => (double[2] y) { a = Abs(x) y = Neg(a) }", 13)
    )
    assert runtime.runs(nodes, op, row, rules) == runs


@pytest.mark.parametrize(("misread", "runs"), [("y = Neg(a)", False), ("y = Exp(a)", True)])
def test_nodes_with_a_misread_form_do_not_run(misread, runs, monkeypatch):
    only_misread(monkeypatch, Misreading())
    nodes, op, rules = builder_of(
        model(f"(float[2] x) => (float[2] y) {{ a = Abs(x) {misread} }}", 13)
    )
    assert runtime.runs(nodes, op, PLAIN, rules) == runs


@pytest.mark.parametrize(
    ("processors", "answer", "runs", "surely"),
    [("", None, True, False), ("x86", True, True, False), ("", False, True, True)],
)
def test_nodes_that_are_perhaps_misread_do_not_surely_run(
    processors, answer, runs, surely, monkeypatch
):
    only_misread(monkeypatch, Misreading(processors, answer))
    nodes, op, rules = builder_of(
        model("(float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }", 13)
    )
    assert runtime.runs(nodes, op, PLAIN, rules) == runs
    assert runtime.runs(nodes, op, PLAIN, rules, doubtful=True) == surely


# -- forms that are misread ------------------------------------------------------------------------


def test_a_form_that_a_release_misreads():
    text = "(float[1,1,4,4] x) => (float[1,1,2,2] y) { y = MaxPool<kernel_shape = [2,2], strides = [2,2], ceil_mode = 1>(x) }"
    row = targets.find("onnxruntime==1.10")
    opened = checked(model(text, 12))
    for key, one, places in runtime.misread_nodes(opened.facts, row):
        assert [scope.node(at).op_type for scope, at in places] == [key[1]]
        assert f"{row.shown}: {one.described(key[1])} ('y')" in sentences(
            runtime.forms(opened.facts, row)
        )


class Misreading:
    """A form of Neg that a runtime misreads, perhaps only on processors of one kind."""

    since = 1

    def __init__(self, processors="", answer=True):
        self.processors, self.answer = processors, answer

    def is_uncertain(self, row):
        return bool(self.processors or row.provider)

    def is_form(self, node, version, around=None):
        return self.answer if node.op == "Neg" and version == 13 else False

    def described(self, op):
        return f"it misreads {op}"


def only_misread(monkeypatch, form):
    monkeypatch.setattr(
        runtime, "misreadings", lambda rules, row, key: [form] if key == ("", "Neg") else []
    )


UNCERTAIN = "handles this node correctly, which depends on values that are not known"


@pytest.mark.parametrize(
    ("processors", "provider", "answer", "doubt"),
    [
        ("x86", "", True, "computes the same on all processors"),
        ("", "cuda", True, "shares this fault of the CPU provider"),
        ("", "", None, UNCERTAIN),
    ],
)
def test_a_form_that_is_perhaps_misread(processors, provider, answer, doubt, monkeypatch):
    only_misread(monkeypatch, Misreading(processors, answer))
    text = "(float[2] x) => (float[2] y) { a = Neg(x) y = Neg(a) }"
    row = replace(PLAIN, name="onnx", provider=provider)
    assert of_facts(runtime.unknown, model(text, 13), row)[:1] == [
        f"whether {row.shown} {doubt}: it misreads Neg ('a' and 1 more)"
    ]


def test_each_place_of_a_misread_form_is_listed(monkeypatch):
    opened = checked(model("(float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Neg(b) }", 13))
    looked = []

    def declared(rules, row, key):
        looked.append(key)
        return [Misreading()]

    monkeypatch.setattr(runtime, "misreadings", declared)
    ((key, _, places),) = runtime.misread_nodes(opened.facts, PLAIN)
    assert key == ("", "Neg")
    assert [scope.node(at).output[0] for scope, at in places] == ["a", "y"]
    assert looked == [("", "Abs"), ("", "Neg")]


# -- probes ----------------------------------------------------------------------------------------


def probe(lines: str) -> probed.ReleaseTable:
    """The outcomes of a release, written as a table of a probe."""
    key, since = ("", "Elu"), 6
    types, features = {}, {}
    for line in lines.splitlines():
        outcome, what = line.split()
        (features if what.startswith("@") else types)[
            (outcome, what) if what.startswith("@") else (outcome, (what,))
        ] = frozenset({0})
    outcomes = {key: {since: probed.Outcomes(("T",), types, features)}}
    table = probed.ProbeTable("it", (probed.ProbedRelease("1.0", "2026-01-01", "a run"),), outcomes)
    return probed.ReleaseTable(table, frozenset({0}))


ELU = "(float[2] x) => (float[2] y) { a = Elu<alpha = 2.0>(x) y = Elu(a) }"


def test_a_form_with_which_no_model_ran():
    row = replace(PLAIN, probed=probe("runs float\nrefused @alpha"))
    opened = checked(model(ELU, 13))
    ((key, says), places), *rest = runtime.failed_forms(opened.facts, row).items()
    assert (key, says, rest) == (("", "Elu"), "Elu 6 with alpha does not run in it==1.0", [])
    assert [scope.node(at).output[0] for scope, at in places] == ["a"]
    assert sentences(runtime.forms(opened.facts, row)) == [f"{says} ('a')"]
    assert runtime.failed_forms(opened.facts, PLAIN) == {}
    nodes, op, rules = builder_of(model(ELU, 13))
    assert not runtime.runs(nodes, op, row, rules)
    assert runtime.runs([nodes[1]], op, row, rules)


def test_the_rank_of_the_first_input_is_a_feature():
    row = replace(PLAIN, probed=probe("runs float\ndies @rank=1"))
    assert of_facts(runtime.forms, model(ELU, 13), row) == [
        "Elu 6 with rank=1 crashes the process of it==1.0 ('a' and 1 more)"
    ]
    nodes, op, rules = builder_of(model(ELU, 13))
    assert not runtime.runs(nodes, op, row, rules)
    proto = model(ELU.replace("[2]", "[2,2]"), 13)
    assert of_facts(runtime.forms, proto, row) == []


def test_nodes_that_no_probe_has_run():
    row = replace(PLAIN, probed=probe("runs double\nruns @alpha"))
    assert of_facts(runtime.unknown, model(ELU, 13), row) == [
        "whether it==1.0 runs Elu 6 of float ('a' and 1 more)"
    ]
    row = replace(PLAIN, probed=probe("runs float"))
    text = ELU.replace("y = Elu(a)", "b = Elu(a) c = Neg(b) y = Neg(c)")
    with_negs = of_facts(runtime.unknown, model(text, 13), row)
    assert "whether it==1.0 runs Neg 13 ('c' and 1 more)" in with_negs
    assert any(with_neg.startswith("whether it==1.0 runs Elu 6 with") for with_neg in with_negs)
    foreign = model(FOREIGN, more=', "acme" : 1')
    alone = (
        "whether it==1.0 runs the nodes in this model: a probe ran each of these nodes only in a"
        " model of one node"
    )
    assert of_facts(runtime.unknown, foreign, row)[1:] == [alone]
    assert of_facts(runtime.unknown, model("(float[2] x) => (float[2] x) { }"), row) == []


def test_nodes_that_ran_alone_may_fail_together():
    row = replace(PLAIN, probed=probe("runs float\nruns @rank=1"))
    proto = model("(float[2] x) => (float[2] y) { y = Elu(x) }", 13)
    assert of_facts(runtime.unknown, proto, row) == [
        "whether it==1.0 runs the nodes in this model: a probe ran each of these nodes only in a"
        " model of one node"
    ]


def test_an_operator_that_the_release_does_not_read_is_not_unknown():
    row = replace(PLAIN, probed=probe("refused float"))
    proto = model("(float[2] x) => (float[2] y) { y = Elu(x) }", 13)
    assert not any("Elu" in fact for fact in of_facts(runtime.unknown, proto, row))
    assert of_document(runtime.lacking, proto, row) == ["Elu 6 does not run in it==1.0 ('y')"]


# -- types that written nodes choose themselves ----------------------------------------------------


@pytest.mark.parametrize(
    ("write", "kind", "offer"),
    [
        (lambda op, x: op.Cast(op.Neg(op.Cast(x, to=T.DOUBLE)), to=T.FLOAT), "float", ""),
        (lambda op, x: op.Exp(op.Neg(op.Abs(x))), "double", "double=float"),
        (lambda op, x: op.Neg(op.Abs(x)), "double", "double=float"),
        (lambda op, x: op.Exp(op.Neg(_twice(op, op.Cast(x, to=T.DOUBLE)))), "float", ""),
        (lambda op, x: op.Exp(op.Neg(op.Clip(op.Cast(x, to=T.DOUBLE), None, None))), "float", ""),
        (lambda op, x: op.Exp(op.Neg(op.Cast(op.Abs(x), to=T.DOUBLE))), "float", ""),
        (lambda op, x: op.Exp(op.Neg(_twice(op, op.Abs(x)))), "double", "double=float"),
    ],
)
def test_no_change_of_types_is_offered_for_a_type_that_an_adapter_chose(
    write, kind, offer, with_adapters
):
    @adapter("Gelu", 20, 19)
    def gelu(node, op):
        """Writes other nodes."""
        return write(op, node["X"])

    with_adapters(gelu)
    done = stepper(
        model(f"({kind}[2] x) => ({kind}[2] y) {{ h = Gelu(x) y = Sqrt(h) }}", 20), 20, 19
    )
    done.checks = False
    done.run()
    row = without(Neg_13=Missing(("T",), frozenset({("double",)})))
    (lack,) = runtime.kernels(done.facts, row)
    assert (lack.op, lack.types) == ("Neg", offer)


def _twice(op, x):
    return op.Add(x, x)


# -- models without imports ------------------------------------------------------------------------


def without_imports(text: str) -> ModelProto:
    proto = model(text, 13)
    del proto.opset_import[:]
    return proto


def test_a_model_without_imports_is_read_at_version_1(monkeypatch):
    proto = without_imports("(float[2] x) => (float[2] y) { y = Pad<paddings = [0, 0]>(x) }")
    row = replace(PLAIN, without=(targets.Lacking("Pad"),))
    assert of_document(runtime.lacking, proto, row) == ["it==1.0 does not read Pad 1 ('y')"]
    seen = []

    class Form(Misreading):
        def is_form(self, node, version, around=None):
            seen.append(version)
            return False

    opened = checked(proto)
    monkeypatch.setattr(runtime, "misreadings", lambda *_: [Form()])
    assert not [*runtime.misread_nodes(opened.facts, PLAIN)]
    assert seen == [1]
    assert of_document(runtime.below_floor, proto, replace(PLAIN, floors={"": 7})) == []


def test_an_operator_of_a_vendor_without_an_import_is_named():
    proto = without_imports("(float[2] x) => (float[2] y) { y = com.microsoft.Nope(x) }")
    assert of_facts(runtime.unknown, proto, targets.find("onnxruntime==1.10")) == [
        "whether onnxruntime==1.10 has com.microsoft.Nope ('y')"
    ]


def test_an_operator_that_onnx_lacks_is_no_question_about_a_vendor():
    proto = model("(float[2] x) => (float[2] y) { y = Nope(x) }", 13)
    assert of_facts(runtime.unknown, proto, replace(PLAIN, name="onnx")) == []


# -- details ---------------------------------------------------------------------------------------


def test_findings_about_the_whole_model_count_once():
    proto = model("(float[2] x) => (float[3] y) { y = Neg(x) }", 15)
    opened = checked(proto)
    (shape,) = runtime.forms(opened.facts, replace(PLAIN, columns={"strict": True}))
    assert (shape.node, shape.count) == ("", 1)
    (passed,) = runtime.forms(opened.facts, replace(PLAIN, columns={"inputs": ("float",)}))
    assert (passed.node, passed.count) == ("", 1)
    late = model("(float8e5m2[2] x) => (float8e5m2[2] y) { y = Identity(x) }", 19, ir=9)
    (kind,) = runtime.lacking(checked(late).document, replace(PLAIN, imports={"": 19}))
    assert (kind.node, kind.count) == ("", 1)


def test_operators_above_the_oldest_kernels_are_not_below_them():
    text = "(float[2] x) => (float[2] y) { y = Add(x, x) }"
    assert of_document(runtime.below_floor, model(text, 13), replace(PLAIN, floors={"": 7})) == []


def test_a_sure_type_is_better_than_a_doubtful_one_for_an_absent_input():
    text = "(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize(x, , s) }"
    missing = Missing(
        ("T1", "T2"), frozenset({("float", "float")}), frozenset({("float", "float16")})
    )
    row = without(Resize_13=missing)
    assert of_facts(runtime.kernels, model(text, 13), row) == []
    assert of_facts(runtime.in_doubt, model(text, 13), row) == []


def test_one_unknown_type_of_two():
    proto = model(
        "(double[2] x) => (float[2] z) { y = acme.Op(x) z = Cast<to = 1>(y) w = Abs(x) }",
        13,
        more=', "acme" : 1',
    )
    for choice, told in ((("double", "float"), True), (("double", "int32"), False)):
        row = without(Cast_13=Missing(("T1", "T2"), frozenset({choice})))
        assert (
            of_facts(runtime.in_doubt, proto, row)
            == ["whether it 1.0 has a kernel for Cast of an unknown type, float ('z')"] * told
        )


def test_a_contrib_operator_without_a_kernel_for_one_type(monkeypatch):
    proto = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)
    place = checked(proto).document.roots[0].index["", "Neg"][0]
    key = ("com.microsoft", "Op")
    for element, of in (("float", " of float"), ("", "")):
        monkeypatch.setattr(
            runtime, "contrib_without_kernel", lambda *_, element=element: [(place, key, element)]
        )
        assert of_facts(runtime.kernels, proto, PLAIN) == [
            f"com.microsoft.Op{of} has no kernel on the CPU in it 1.0 ('y')"
        ]


def test_a_lacking_type_that_was_not_tried_is_not_in_doubt(monkeypatch):
    monkeypatch.setattr(runtime, "_left_out", lambda *_: {"T": {"double"}})
    proto = model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13)
    row = without(Neg_13=Missing(("T",), frozenset({("double",)})))
    assert of_facts(runtime.in_doubt, proto, row) == []


def test_a_node_without_inputs_has_no_rank():
    row = replace(PLAIN, probed=probe("runs float\nrefused @rank=1"))
    text = "(float[2] x) => (float[2] y) { c = Constant<value_float = 1.0>() h = Elu(x) y = Add(h, c) }"
    assert of_facts(runtime.forms, model(text, 13), row) == [
        "Elu 6 with rank=1 does not run in it==1.0 ('h')"
    ]
    nodes, op, rules = builder_of(model(text, 13))
    assert runtime.runs([nodes[0]], op, row, rules)


# -- illegal element types -------------------------------------------------------------------------

HALF_ELU = "(bfloat16[2] x) => (bfloat16[2] y) { y = Elu(x) }"


@pytest.mark.parametrize(
    ("text", "opset", "target", "illegal"),
    [
        (HALF_ELU, 13, "onnxruntime==1.17", "Elu of bfloat16"),
        (HALF_ELU, 13, "opencv==5.0", ""),  # its kernels are not all known
        (HALF_ELU, 22, "onnxruntime==1.20", ""),
        ("(float16[2] x) => (float16[2] y) { y = Celu(x) }", 17, "ort 1.17", "Celu of float16"),
        ("(int32[2] x) => (int32[2] y) { y = Erf(x) }", 13, "ort 1.10", ""),  # onnx 1.20 removed it
        ("(string[2] x) => (float[2] y) { y = Cast<to = 1>(x) }", 13, "ort 1.17", ""),
    ],
)
def test_a_type_that_an_operator_does_not_accept_does_not_load(text, opset, target, illegal):
    row = targets.find(target)
    lacks = of_facts(runtime.kernels, model(text, opset), row)
    wanted = f"{row.shown}: {illegal} is illegal at this opset and does not load ('y')"
    assert [lack for lack in lacks if "illegal" in lack] == ([wanted] if illegal else [])


def test_a_type_that_an_operator_does_not_accept_becomes_a_wider_one():
    result = convert_version(model(HALF_ELU, 13), "onnxruntime==1.17")
    assert [node.op_type for node in result.graph.node] == ["Cast", "Elu", "Cast"]

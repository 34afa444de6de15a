# SPDX-License-Identifier: Apache-2.0
"""Whether runtimes run a model after a conversion, and who is at fault if none is known."""

import pytest
from growth_families import FAMILIES
from onnx.parser import parse_model
from opshift import convert_version
from opshift.adapter import adapter
from opshift.convert.cheapest_strategy import opener_of
from opshift.convert.request import Request
from opshift.look import accepts as accepts_module
from opshift.look.accepts import Acceptance, accepts, releases, survey, within_reach
from opshift.look.rehearse import Rehearsals
from opshift.opsets import targets
from text_models import model


@pytest.mark.parametrize(
    ("reasons", "unknown", "conditions", "answer"),
    [
        ((), (), (), "yes"),
        (("r",), (), (), "no"),
        (("r",), ("u",), ("c",), "no"),
        ((), ("u",), (), "not known"),
        ((), ("u",), ("c",), "not known"),
        ((), (), ("c",), "may"),
    ],
)
def test_reasons_weigh_more_than_doubts_and_doubts_more_than_conditions(
    reasons, unknown, conditions, answer
):
    found = Acceptance("t", reasons, unknown, conditions=conditions)
    assert found.answer == answer
    assert found.accepted is (answer == "yes")


NEG = "(float[2] x) => (float[2] y) { y = Neg(x) }"


def test_the_release_that_stands_for_another_is_a_remark():
    proto = model(NEG, 13)
    for target, remarked in (("onnxruntime==1.99", True), ("onnxruntime==1.10", False)):
        (fit,) = survey(proto, [target]).fits
        assert accepts(proto, target).remarks == fit.remarks
        assert bool(fit.remarks) is remarked


@pytest.fixture
def conversions(monkeypatch):
    """The releases for which a survey converts the model, in order."""
    made, rehearse = [], Rehearsals.rehearse

    def spy(runs, options):
        made.append(options.target.release.shown)
        return rehearse(runs, options)

    monkeypatch.setattr(Rehearsals, "rehearse", spy)
    return made


def ort(*named):
    return [f"onnxruntime=={one}" for one in named]


def test_a_release_that_runs_the_model_needs_no_conversion(conversions):
    proto = model(NEG, 13)
    assert [fit.after for fit in survey(proto, ort("1.10", "1.12", "1.32")).fits] == ["yes"] * 3
    assert conversions == []
    survey(proto, ort("1.10"), Request())
    assert conversions == []
    survey(proto, ort("1.10"), Request(drop_metadata=True))  # the options change the model
    assert conversions == ort("1.10")


def test_a_conversion_serves_all_releases_that_run_its_result(conversions):
    fits = survey(model(NEG, 13), ort("1.2", "1.0", "1.1", "0.5")).fits
    assert [(fit.now, fit.after) for fit in fits] == [("no", "yes")] * 4
    assert len(conversions) == 2  # to opset 11 and 10


def test_each_conversion_continues_the_one_before(conversions):
    """Lower versions come first, beginning with the nearest, and then higher versions."""
    gelu = model("(float[2] x) => (float[2] y) { y = Gelu(x) }", 20)
    survey(gelu, [*ort("0.4", "1.14", "1.0", "1.8", "1.12"), "tensorrt==5.1"])
    assert conversions == ["onnxruntime==1.14", *ort("1.12", "1.8", "1.0", "0.4"), "tensorrt==5.1"]
    conversions.clear()
    survey(model(NEG, 16), ["iree==3.13", *ort("1.8", "1.10")])
    assert conversions == [*ort("1.10", "1.8"), "iree==3.13"]


def test_a_refusal_is_not_used_again(conversions):
    """A refusal contains the name of its runtime."""
    text = "(float[4] x) => (float[n] y) { y = Unique(x) }"
    fits = survey(model(text, 13), ort("0.4", "0.3")).fits
    assert [fit.after for fit in fits] == ["no", "no"]
    assert all(fit.blockers for fit in fits)
    assert len(conversions) == 2


def test_open_questions_are_answered_by_each_measured_release(conversions):
    text = "(float[2,3] x) => (float[2,2] y) { y = own.Run(x) }"
    fits = survey(model(text, 13, more=', "own" : 1'), ort("1.2", "1.1")).fits
    assert [fit.after for fit in fits] == ["not known", "not known"]
    assert len(conversions) == 2


@pytest.mark.parametrize(
    ("target", "converted"),
    [
        ("onnxruntime==1.20", True),  # a conversion may remove what is not known
        ("openvino==2024.6", True),  # prefers another opset
        ("opencv==4.9", True),  # lies between two known releases
        ("opencv==4.8", False),
        ("tensorrt==10.15", False),
    ],
)
def test_a_model_is_converted_if_the_answer_may_change(conversions, target, converted):
    (fit,) = survey(model(PROJECTED, 14), [target]).fits
    assert fit.now == "not known"
    assert bool(conversions) is converted


def test_open_questions_about_an_unmeasured_runtime_do_not_need_another_conversion(conversions):
    fits = survey(model(NEG, 20), ["tensorrt==5.1", "jetpack==4.2.2", "cann==5.0"]).fits
    assert {fit.after for fit in fits} <= {"yes", "not known"}
    assert len(conversions) < sum(fit.now == "no" for fit in fits)


def test_two_models_are_compared_in_all_releases():
    before, after = model(NEG, 22), model(NEG, 8)
    after.ir_version = 3
    found = releases(opener_of(before), opener_of(after))
    assert [(one.runtime, one.name, one.after) for one in found] == [
        (release.runtime, release.name, release.before)
        for release in releases(opener_of(after), opener_of(before))
    ]
    for one in found:
        if one.runtime == "onnxruntime":
            target = f"onnxruntime=={one.name.partition('..')[0]}"
            assert one.before == accepts(before, target).answer
            answer = accepts(after, target)
            assert one.after == answer.answer
            assert one.why or {one.before, one.after} == {"yes"}
            assert not answer.reasons or one.why == answer.reasons[0]


def test_what_is_within_reach_is_the_survey_of_all_releases():
    proto = model(NEG, 22)
    assert [(refusal.before, refusal.after, refusal.why) for refusal in within_reach(proto)] == [
        (fit.now, fit.after, fit.first) for fit in survey(proto).fits
    ]


def test_a_bug_of_an_adapter_is_no_answer_of_a_runtime(with_adapters):
    @adapter("Softmax", 13, 12)
    def wrong(node, op):
        """For this test."""
        return None

    with_adapters(wrong)
    proto = model("(float[2,3] x) => (float[2,3] y) { y = Softmax(x) }", opset=13)
    (fit,) = survey(proto, ["onnxruntime==1.4"]).fits
    assert (fit.now, fit.after) == ("no", "not known")
    (told,) = fit.unknown
    assert "a bug of an adapter, not of your model" in told


GROUPED = """(float16[1,3,32] q, float16[1,3,16] k, float16[1,3,16] v, float16[1,2,4,8] a,
    float16[1,2,4,8] b, int32[1] s, int32 t) => (float16[1,3,32] y, float16[1,2,4,8] c, float16[1,2,4,8] d) {
    y, c, d = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>(q, k, v, a, b, s, t) }"""


@pytest.mark.parametrize(("release", "answer"), [
    ("1.15.1", "no"), ("1.16.3", "no"), ("1.17.3", "no"), ("1.18.1", "yes"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["float16", "float"])
def test_an_operator_without_a_listed_kernel_does_not_run(release, answer, kind):
    """A release may define a com.microsoft operator only for other providers than the CPU."""
    proto = model(GROUPED.replace("float16", kind), 17, more=', "com.microsoft" : 1')
    assert accepts(proto, f"onnxruntime=={release}").answer == answer


BETWEEN = [
    ("opencv==4.9", "opencv==4.8", "opencv==4.11"), ("winml==18500", "winml==18362", "winml==19041"),
    ("openvino==2024.1", "openvino==2023.3", "openvino==2024.6"),
    ("tensorrt==10.16", "tensorrt==10.15", "tensorrt==11.0"),
    ("directml==1.10", "directml==1.9", "directml==1.12.1"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "before", "after"), BETWEEN)
@pytest.mark.parametrize(("op", "opset"), [
    ("Neg", 8), ("Neg", 9), ("Neg", 20), ("Neg", 25), ("Celu", 12), ("Gelu", 20), ("Gelu", 24),
    ("com.microsoft.Gelu", 9),
])  # fmt: skip
def test_a_release_between_two_known_ones_has_the_answer_of_both(asked, before, after, op, opset):
    text = f"(float[2] x) => (float[2] y) {{ y = {op}(x) }}"
    proto = model(text, opset, more=', "com.microsoft" : 1')
    answers = {accepts(proto, one).answer for one in (before, after)}
    answer = accepts(proto, asked)
    assert answer.target == asked
    assert {answer.answer} == (answers if len(answers) == 1 else {"not known"})
    (fit,) = survey(proto, [asked]).fits
    assert fit.now == answer.answer
    if fit.after != "no":
        assert accepts(convert_version(proto, asked), asked).answer == fit.after


COUNT = """(float[2,5] x) => (float[a,b] v, int64[a,b] i) <int64[1] first = {0}, int64[1] one = {1}> {
    s = Shape(x) g = Gather(s, first) WAY v, i = TopK(x, k) }"""


@pytest.mark.parametrize("way", [
    "k = Identity(g)", "k = Add(g, first)", "k = Sub(g, first)", "k = Mul(one, g)", "k = Div(g, one)",
    "k = Cast<to=7>(g)", "h = Add(g, first) k = Cast<to=7>(h)", "h = Identity(first) k = Add(g, h)",
])  # fmt: skip
def test_a_count_is_one_of_gather_behind_operators_that_pass_it_on(way):
    """As loaded in onnxruntime 1.24.4 and 1.25.1."""
    proto = model(COUNT.replace("WAY", way), 13)
    for release in ("1.24", "1.25"):
        target = f"onnxruntime=={release}"
        assert accepts(proto, target).answer == "no"
        assert accepts(convert_version(proto, target), target).answer == "yes"
    assert accepts(proto, "onnxruntime==1.23").answer == "yes"


@pytest.mark.parametrize("way", [
    "k = Abs(g)", "k = Max(g, first)", "k = Concat<axis=0>(g)", "k = Reshape(g, one)",
    "h = Cast<to=6>(g) k = Cast<to=7>(h)",
])  # fmt: skip
def test_a_count_that_other_operators_make_is_loaded(way):
    assert accepts(model(COUNT.replace("WAY", way), 13), "onnxruntime==1.25").answer == "yes"


BLOCK = '<domain: "own", opset_import: ["" : 21]> f (a) => (b) { c = Add(a, a) b = Relu(c) }'
CALLER = '<domain: "own", opset_import: ["" : 21, "own" : 1]> h (a) => (b) { b = own.f(a) }'


@pytest.mark.parametrize(("graph", "functions"), [
    ("(bfloat16[2,3] x) => (bfloat16[2,3] y) { y = own.f(x) }", BLOCK),
    ("(bfloat16[2,3] x) => (bfloat16[2,3] y) { y = own.h(x) }", BLOCK + CALLER),
    ("(bfloat16[2] x, float[2] v) => (bfloat16[2] y, float[2] w) { y = own.f(x) w = own.f(v) }", BLOCK),
])  # fmt: skip
@pytest.mark.parametrize("release", ["1.32", "1.10"])
def test_types_in_functions_are_those_of_their_calls(graph, functions, release):
    proto = parse_model(
        f'<ir_version: 10, opset_import: ["" : 21, "own" : 1]> g {graph} {functions}'
    )
    target = f"onnxruntime=={release}"
    answer = accepts(proto, target)
    assert answer.answer == "no"
    assert any("Add of bfloat16 has no kernel" in reason for reason in answer.reasons)
    assert not any("Add" in doubt for doubt in answer.unknown)
    assert accepts(convert_version(proto, target), target).answer == "yes"
    same = graph.replace("bfloat16", "float"), functions
    proto = parse_model(f'<ir_version: 10, opset_import: ["" : 21, "own" : 1]> g {" ".join(same)}')
    assert accepts(proto, "onnxruntime==1.32").answer == "yes"


# the sizes that torch writes for an LSTM with a projection
PROJECTED = """(float[5,1,4] x, float[1,12,4] w, float[1,12,3] r, float[1,1,6] c) => (float[5,1,1,3] y) {
    y = LSTM<hidden_size = 3>(x, w, r, , , , c) }"""


def test_an_illegal_node_is_no_yes():
    answer = accepts(model(PROJECTED, 14), "onnxruntime==1.20")
    assert answer.answer == "not known"
    assert answer.unknown == (
        "whether onnxruntime==1.20 runs an illegal node, LSTM 'y': axis 2 of initial_c 'c' has the"
        " size 6, but must have 3 because of axis 1 of R",
    )


SOFTMAX = """(KIND[2,4] x) => (KIND[2,4] y) <float s = {0.5}, KIND z = {0}, float t = {SCALE}, KIND u = {ZERO}> {
    y = com.microsoft.QLinearSoftmax<axis=-1, opset=13>(x, s, z, t, u) }"""


@pytest.mark.parametrize(("kind", "scale", "zero", "answer"), [
    ("int8", "0.00390625", "-128", "no"), ("int8", "0.0040", "-128", "yes"),
    ("uint8", "0.00390625", "0", "yes"),
])  # fmt: skip
def test_a_softmax_of_int8_that_reaches_no_one(kind, scale, zero, answer):
    """Measured in 1.13 to 1.32: up to 1.28, the quantized value of 1.0 overflows."""
    text = SOFTMAX.replace("KIND", kind).replace("SCALE", scale).replace("ZERO", zero)
    proto = model(text, 13, more=', "com.microsoft" : 1')
    assert accepts(proto, "onnxruntime==1.28").answer == answer
    assert accepts(proto, "onnxruntime==1.29").answer == "yes"
    result = convert_version(proto, "onnxruntime==1.28")
    assert ({"QLinearSoftmax"} == {node.op_type for node in result.graph.node}) == (answer == "yes")
    assert accepts(result, "onnxruntime==1.28").answer == "yes"


def test_whether_a_softmax_of_int8_with_computed_scales_wraps_around_is_not_known():
    text = """(int8[2,4] x, float t) => (int8[2,4] y) <float s = {0.5}, int8 z = {0}> {
        y = com.microsoft.QLinearSoftmax<axis=-1, opset=13>(x, s, z, t, z) }"""
    proto = model(text, 13, more=', "com.microsoft" : 1')
    assert accepts(proto, "onnxruntime==1.28").answer == "not known"
    assert accepts(proto, "onnxruntime==1.29").answer == "yes"


@pytest.mark.parametrize(("kind", "answer"), [("int8", "no"), ("uint8", "yes")])
@pytest.mark.parametrize("op", [
    "QLinearAveragePool<kernel_shape=[2,2]>", "QLinearGlobalAveragePool",
])  # fmt: skip
def test_quantized_pools_of_int8(op, kind, answer):
    text = f"""({kind}[1,2,4,4] x) => (y) <float s = {{0.5}}, {kind} z = {{0}}> {{
        y = com.microsoft.{op}(x, s, z, s, z) }}"""
    proto = model(text, 11, more=', "com.microsoft" : 1')
    assert accepts(proto, "onnxruntime==1.10").answer == answer
    assert accepts(proto, "onnxruntime==1.11").answer == "yes"
    result = convert_version(proto, "onnxruntime==1.10")
    assert accepts(result, "onnxruntime==1.10").answer == "yes"


@pytest.mark.parametrize(("columns", "release", "answer"), [
    (24, "1.7", "yes"), (12, "1.7", "no"), (48, "1.7", "no"), (12, "1.8", "yes"),
])  # fmt: skip
def test_an_attention_of_another_size_than_its_input(columns, release, answer):
    text = f"""(float[2,3,8] x, float[8,{columns}] w, float[{columns}] b) => (float[2,3,{columns // 3}] y) {{
        y = com.microsoft.Attention<num_heads=2>(x, w, b) }}"""
    made, target = model(text, 11, more=', "com.microsoft" : 1'), f"onnxruntime=={release}"
    made.ir_version = 7
    assert accepts(made, target).answer == answer
    assert accepts(convert_version(made, target), target).answer == "yes"


def test_the_file_of_the_user_is_read_as_often_for_many_domains_as_for_one(monkeypatch):
    """`targets` reads the file once, not once for each domain of the model."""

    def reads(domains):
        paths = []
        with monkeypatch.context() as patch:
            own_file = targets.own_file
            patch.setattr(targets, "own_file", lambda: paths.append(1) or own_file())
            survey(FAMILIES["nodes of other domains"](domains), ["onnxruntime", "opencv"])
        return len(paths)

    reads(1)  # the stored answers about the releases
    assert reads(1) == reads(20)


def test_a_release_is_compared_with_each_different_result_once(monkeypatch):
    """Most conversions for releases without a sure answer give equal results."""
    compared = []
    real = accepts_module.support_of

    def support_of(result, release):
        compared.append((id(result), release.shown))
        return real(result, release)

    monkeypatch.setattr(accepts_module, "support_of", support_of)
    releases = {
        fit.target for fit in survey(FAMILIES["nodes of other domains"](2), ["onnxruntime"]).fits
    }
    assert len({*compared}) == len(compared) <= 3 * len(releases)


@pytest.mark.parametrize("release", ["1.0", "1.15", "1.32"])
@pytest.mark.parametrize(("node", "kind", "reason"), [
    ('ATen<operator = "sinh">(x)', "float", "does not read ATen 5"),
    ("Identity(x)", "complex64", "has no kernels for complex64"),
    ("Scale(x)", "double", "other than float and float16"),
])  # fmt: skip
def test_experimental_operators_and_complex_numbers_run_in_no_onnxruntime(
    node, kind, reason, release
):
    proto = parse_model(
        f'<ir_version: 3, opset_import: ["": 5]> g ({kind}[2] x) => ({kind}[2] y) {{ y = {node} }}'
    )
    answer = accepts(proto, f"onnxruntime=={release}")
    assert answer.answer == "no"
    assert reason in answer.reasons[0]


@pytest.mark.parametrize("release", ["1.15", "1.32"])
def test_experimental_operators_run_up_to_opset_9(release):
    """Release 1.15 lacks more operators than the others, in addition to these."""
    graph = "g (float[2] x) => (float[2] y) { y = Scale(x) }"
    answers = [
        accepts(
            parse_model(f'<ir_version: 3, opset_import: ["": {opset}]> {graph}'),
            f"onnxruntime=={release}",
        ).answer
        for opset in (7, 9, 10)
    ]
    assert answers == ["yes", "yes", "no"]
    lacked = {one.pattern for one in targets.find(f"onnxruntime=={release}").without}
    assert {"ATen", "Scale"} <= lacked
    assert ("Loop" in lacked) == (release == "1.15")

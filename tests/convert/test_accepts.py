# SPDX-License-Identifier: Apache-2.0
"""Whether runtimes run a model after a conversion, and who is at fault if none is known."""

import pytest
from opshift.adapter import adapter
from opshift.convert.look.accepts import accepts, survey
from text_models import model


def test_a_bug_of_an_adapter_is_no_answer_of_a_runtime(with_adapters):
    @adapter("Softmax", 13, 12)
    def wrong(node, op):
        """For this test."""
        return None

    with_adapters(wrong)
    made = model("(float[2,3] x) => (float[2,3] y) { y = Softmax(x) }", opset=13)
    (fit,) = survey(made, ["onnxruntime==1.4"]).fits
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
    """A release may define an operator of com.microsoft for other providers than the CPU."""
    made = model(GROUPED.replace("float16", kind), 17, more=', "com.microsoft" : 1')
    assert accepts(made, f"onnxruntime=={release}").answer == answer

# SPDX-License-Identifier: Apache-2.0
"""Whether runtimes run a model after a conversion, and who is at fault if none is known."""

from opshift.adapter import adapter
from opshift.convert.look.accepts import survey
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

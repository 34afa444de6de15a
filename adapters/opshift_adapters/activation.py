"""Relu and its relatives: Elu, Selu, Celu, Gelu, Mish, HardSwish, Swish, Clip, PRelu, ..."""

from opshift.adapter import Builder, Node, Result, adapter, boundary, example
from opshift.combinators import cast_around, drop_attribute

ACTIVATION_6 = boundary(
    6, "Elu:7faca4 HardSigmoid:5108d7 LeakyRelu:fb33b2 PRelu:dbd261 Relu:ec92d9", up=drop_attribute("consumed_inputs")
)
RELU_13 = boundary(13, "Relu:5bc785")
RELU_14 = boundary(14, "Relu:705c14", directions="up")
CLIP_12 = boundary(12, "Clip:0bea62", directions="up")
CLIP_13 = boundary(13, "Clip:82d0ef", directions="up")
PRELU_9 = boundary(9, "PRelu:73f504", directions="up")
ACTIVATION_16 = boundary(16, "LeakyRelu:8ae852 PRelu:a6b814", cast=cast_around("float"))
ACTIVATION_22 = boundary(
    22,
    (
    "Elu:684605 HardSigmoid:8f76ad HardSwish:3a7dd3 Mish:cd3cd8 Selu:2d1aa9 Softplus:8b42c5 "
    "Softsign:26ac09 ThresholdedRelu:f64fc5"
),
    cast=cast_around("float"),
)
CELU_28 = boundary(28, "Celu:3c82cb", directions="up")


@adapter("Gelu", 20, 19, emits=("Constant", "Div", "Erf", "Mul", "Add", "Pow", "Sqrt", "Sum", "Tanh"))
@example("exact", "(float[2,3] x) => (float[2,3] y) { y = Gelu(x) }", atol=1e-6)
@example("tanh", '(float[2,3] x) => (float[2,3] y) { y = Gelu<approximate="tanh">(x) }', atol=1e-6)
def gelu_20_19(node: Node, op: Builder) -> Result:
    """Born in 20; below it, the function body its own schema ships, stepped like any other nodes."""
    return op.expand(node)

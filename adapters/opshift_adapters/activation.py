"""Relu and its relatives: Elu, Selu, Celu, Gelu, Mish, HardSwish, Swish, Clip, PRelu, ..."""

from opshift.adapter import Builder, Node, Result, adapter, example


@adapter("Gelu", 20, 19, emits=("Constant", "Div", "Erf", "Mul", "Add", "Pow", "Sqrt", "Sum", "Tanh"))
@example("exact", "(float[2,3] x) => (float[2,3] y) { y = Gelu(x) }", atol=1e-6)
@example("tanh", '(float[2,3] x) => (float[2,3] y) { y = Gelu<approximate="tanh">(x) }', atol=1e-6)
def gelu_20_19(node: Node, op: Builder) -> Result:
    """Born in 20; below it, the function body its own schema ships, stepped like any other nodes."""
    return op.expand(node)

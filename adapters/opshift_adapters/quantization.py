"""QuantizeLinear, DequantizeLinear and the operators on quantised numbers."""

from opshift.adapter import boundary

LINEAR_28 = boundary(28, "QuantizeLinear:53d63b DequantizeLinear:ce9785")
LINEAR_25 = boundary(25, "QuantizeLinear:172e0f DequantizeLinear:8bb9bf")
LINEAR_24 = boundary(24, "QuantizeLinear:eddcb4 DequantizeLinear:3afd7a")
LINEAR_23 = boundary(23, "QuantizeLinear:d1c854 DequantizeLinear:3bd8fa")
LINEAR_21 = boundary(21, "QuantizeLinear:1aff0c DequantizeLinear:514aa9 QLinearMatMul:b67ba5")
DEQUANTIZE_19 = boundary(19, "DequantizeLinear:ae89f5")
LINEAR_13 = boundary(13, "QuantizeLinear:48a123 DequantizeLinear:ec4034", directions="up")

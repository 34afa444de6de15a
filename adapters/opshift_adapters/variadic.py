"""Max, Min, Sum and Mean: any number of inputs, which broadcast from 8 on."""

from opshift.adapter import boundary
from opshift.combinators import drop_attribute

VARIADIC_6 = boundary(6, "Max:298ef4 Min:950431 Sum:58cbef Mean:924b85", up=drop_attribute("consumed_inputs"))
VARIADIC_13 = boundary(13, "Max:7910d3 Min:7adbe0 Sum:9060da Mean:733b07")
VARIADIC_8 = boundary(8, "Max:189642 Min:f3f263 Sum:2f2c7b Mean:9f9851", directions="up")
EXTREMES_12 = boundary(12, "Max:8a7944 Min:4069a3", directions="up")

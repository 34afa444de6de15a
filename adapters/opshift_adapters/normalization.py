"""Batch, instance, group, layer, RMS normalisation; LRN, LpNormalization, MeanVarianceNormalization."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

BFLOAT16_22 = boundary(22, "InstanceNormalization:7f9424 LpNormalization:16a2be", cast=cast_around("float"))
BFLOAT16_13 = boundary(13, "LRN:fc10ad MeanVarianceNormalization:a73b3f")

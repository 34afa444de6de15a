"""Pad and CenterCropPad: what stands around a tensor."""

from opshift.adapter import boundary
from opshift.combinators import enum_grew

TYPES_25 = boundary(25, "Pad:364e51")
TYPES_24 = boundary(24, "Pad:ad5e74")
TYPES_23 = boundary(23, "Pad:a7d266")
TYPES_21 = boundary(21, "Pad:568996")
WRAP_19 = boundary(19, "Pad:754cbf", down=enum_grew("mode", "constant reflect edge"))
AXES_18 = boundary(18, "Pad:94bb8d")
TYPES_13 = boundary(13, "Pad:b76520")

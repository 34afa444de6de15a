"""Optional, OptionalGetElement, OptionalHasElement: born in 15."""

from opshift.adapter import boundary

TYPES_28 = boundary(28, "Optional:f19530 OptionalGetElement:41d3e1 OptionalHasElement:c7001f")
TYPES_18 = boundary(18, "OptionalGetElement:79fb9b OptionalHasElement:9ab68b", directions="up")

"""Cast, CastLike: the element types grew, and two attributes for the smallest of them."""

from opshift.adapter import boundary

CAST_9 = boundary(9, "Cast:88bcd8")
CAST_13 = boundary(13, "Cast:f9f68c")
CAST_19 = boundary(19, "Cast:24656c CastLike:1ec715")
CAST_21 = boundary(21, "Cast:666a21 CastLike:3fb492")
CAST_23 = boundary(23, "Cast:d12ac8 CastLike:e6a4ed")
CAST_24 = boundary(24, "Cast:f1ca9f CastLike:cbca8f")
CAST_25 = boundary(25, "Cast:65e127 CastLike:5bef5d")
CAST_28 = boundary(28, "Cast:a43dff")

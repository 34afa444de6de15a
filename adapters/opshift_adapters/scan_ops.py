"""CumSum, CumProd."""

from opshift.adapter import boundary

CUM_SUM_14 = boundary(14, "CumSum:5c797f")

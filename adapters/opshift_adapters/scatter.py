"""ScatterElements and ScatterND, the Scatter they replaced, and TensorScatter."""

from opshift.adapter import boundary

SCATTER_11 = boundary(11, "Scatter:a20999", directions="down")
SCATTER_13 = boundary(13, "ScatterElements:490b1e ScatterND:9b14f5")
SCATTER_16 = boundary(16, "ScatterElements:8031ad ScatterND:c5242f")
SCATTER_18 = boundary(18, "ScatterElements:765e77 ScatterND:a6b0ae", directions="up")

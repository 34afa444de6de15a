"""GridSample, RoiAlign, AffineGrid, ImageDecoder: places in pictures."""

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    Why,
    adapter,
    boundary,
    example,
    impossible,
)

ROI_ALIGN_22 = boundary(22, "RoiAlign:b0256a")
IMAGE_DECODER_20 = impossible(
    "ImageDecoder", 20, 19, "image decoding has no older operator",
    cases=[("any", "(uint8[N] x) => (uint8[H,W,C] y) { y = {op}(x) }")],
)  # fmt: skip
ROI_ALIGN_10 = impossible(
    "RoiAlign", 10, 9, "sampled region pooling needs opset 10",
    cases=[("any", "(float[1,2,4,4] x, float[3,4] r, int64[3] b) => (float[3,2,1,1] y) { y = {op}(x, r, b) }")],
)  # fmt: skip

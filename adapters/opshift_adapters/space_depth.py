"""DepthToSpace, SpaceToDepth, Col2Im: blocks of an image and channels."""

from opshift.adapter import boundary

SPACE_28 = boundary(28, "DepthToSpace:164247 SpaceToDepth:63a0a0")
SPACE_13 = boundary(13, "DepthToSpace:a1acc4 SpaceToDepth:66b78b")
DEPTH_11 = boundary(11, "DepthToSpace:753dba")

"""NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss."""

from opshift.adapter import boundary

LOSS_13 = boundary(13, "NegativeLogLikelihoodLoss:0a5ca9 SoftmaxCrossEntropyLoss:6dfbd3")
LOSS_22 = boundary(22, "NegativeLogLikelihoodLoss:b56557")

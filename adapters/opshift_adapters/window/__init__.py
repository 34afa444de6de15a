"""Convolution, pooling and other operators that move a window over a signal."""

"""Operators that arrange the elements of a tensor in another shape or order."""

"""Conversion of the classes of nodes."""

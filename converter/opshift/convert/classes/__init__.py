"""Classes of nodes: what no schema and no check can tell apart is looked at once."""

from opshift.convert.classes.proof import proves

__all__ = ["proves"]

"""The formulas of newer operators, which `--modernize` looks for: inverses of decompositions."""

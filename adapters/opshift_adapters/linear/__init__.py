"""Products of matrices, attention and recurrent networks."""

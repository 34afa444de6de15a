"""What is known about every operator of the standard domains: one file per family."""

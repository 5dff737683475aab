"""Certificates: what leads from a model to its rewritten form, written down, and checked from the original alone."""

"""Which laws are kept: those that do not follow from others, in a direction that can be matched."""

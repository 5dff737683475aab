"""Rewrites that do not compute the same: kept apart from proved ones, measured, and made only under an error budget."""

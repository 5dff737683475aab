"""Does a rewritten model compute what the original computes: inputs, comparison, verdict."""

"""Exhaustive expansion at small sizes, independent of the prover's normal forms (`judge.exhaustive`)."""

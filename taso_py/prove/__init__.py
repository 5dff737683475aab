"""The prover: rules proved for all sizes, or refuted by a counterexample.  The only package that imports Z3."""

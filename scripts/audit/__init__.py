"""The audits: attacks on prover and certificates, ONNX's own tests, and what the generator finds."""

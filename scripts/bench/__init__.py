"""The benchmark: networks built in code or exported from torch, the tools beside superopt, and the demo."""

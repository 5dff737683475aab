"""What `scripts/audit/readers.py` runs: seeds, mutations of them, the readers, and the process that reads."""

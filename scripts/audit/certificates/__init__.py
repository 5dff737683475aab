"""What `scripts/audit/certification.py` runs: honest certificates, alterations of them, and forgeries."""

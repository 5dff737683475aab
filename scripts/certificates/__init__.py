"""What `scripts/audit_certificates.py` runs: honest certificates, alterations of them, and forgeries."""

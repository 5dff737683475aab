"""What the user sees: progress while it runs, and what each command has found, as a record, as text and as JSON."""

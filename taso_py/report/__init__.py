"""What the user sees: progress while it runs, a sentence and a table at the end, a report file on request."""

"""What each command does: a run of `optimize` from its subject to its conclusion, and a module for each other one."""

"""Matching, rewriting and searching."""

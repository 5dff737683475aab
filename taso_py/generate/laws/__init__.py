"""From equal terms to laws: pairs of terms, their symbolic sizes, and the ways to write them as rules."""

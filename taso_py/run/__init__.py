"""One run of `superopt optimize`, `rank` or `inspect`: its subject, its search, its candidates, its conclusion."""

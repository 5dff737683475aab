"""Names from a model, short enough to be read and without what a page or a terminal would obey."""

from __future__ import annotations


def clipped(text: str, length: int) -> str:
    """One line of at most so many characters; of a longer one the beginning and the end, which tell names apart."""
    line = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in " ".join(text.split()))
    if len(line) <= length:
        return line
    head = (length - 1) * 2 // 3
    return f"{line[:head]}…{line[len(line) - (length - 1 - head) :]}"


def listed(names: list[str], most: int, length: int) -> str:
    """Names with commas between them; how many more there are is said."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(clipped(name, length) for name in names[:most]) + more

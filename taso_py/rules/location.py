"""Where the rule library lies."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def rules_directory() -> Path:
    """The folder of ``*.rules`` files: the checkout's where the package runs from one, else the installed."""
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "rules").is_dir():
        return checkout / "rules"
    return _PACKAGE / "_rules"

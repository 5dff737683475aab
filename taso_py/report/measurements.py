"""What `superopt cache show` tells of the database, as text and as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from taso_py.cost.cache import CacheStats

SCHEMA = "superopt.cache/1"


def measurements_json(stats: CacheStats) -> str:
    """One JSON object."""
    return json.dumps({"schema": SCHEMA, **_facts(stats)}, indent=2)


def measurements_text(stats: CacheStats) -> str:
    """One line for each fact."""
    versions = ", ".join(f"{name} ({number})" for name, number in stats.ort_versions.items())
    shown = {**_facts(stats), "ort_versions": versions, "size_bytes": f"{stats.size_bytes:,}"}
    return "\n".join(f"{name.replace('_', ' '):<13} {value or 'none'}" for name, value in shown.items())


def _facts(stats: CacheStats) -> dict[str, Any]:
    return {
        "path": str(stats.path or "memory"),
        "entries": stats.entries,
        "size_bytes": stats.size_bytes,
        "oldest": _date(stats.oldest),
        "newest": _date(stats.newest),
        "ort_versions": dict(stats.ort_versions),
        "searches": stats.searches,
    }


def _date(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

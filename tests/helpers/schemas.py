"""What the program writes as JSON, held to the published schemas."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from taso_py.report.schemas import schema_text


def require_valid(document: dict[str, Any]) -> None:
    """Raises jsonschema's ValidationError; also for a field that the schema does not know."""
    _validator(document["schema"]).validate(document)


def require_valid_files(folder: Path) -> None:
    """The same for every JSON file of superopt's in a folder."""
    for file in folder.glob("*.json"):
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            continue  # a test's own
        if isinstance(found, dict) and str(found.get("schema", "")).startswith("superopt."):
            require_valid(found)


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(_closed(schema))


def _closed(schema: Any) -> Any:
    """The published schemas let later fields through, which readers should; here none may be missing from them."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _closed(part) for name, part in schema.items()}
    listed = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return {"additionalProperties": False} | inner if listed else inner

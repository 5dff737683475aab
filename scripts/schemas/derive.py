"""From fields and their annotations to a JSON Schema."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, get_type_hints

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

Fields: TypeAlias = Mapping[str, Any]
"""Name -> annotation."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclasses.dataclass(frozen=True)
class Document:
    """One JSON object that the program writes: ``superopt.NAME/VERSION``, what it is, its fields beside ``schema``.

    ``parts`` are the fields of objects inside it that no single class holds.
    """

    name: str
    about: str
    fields: Fields
    record: type[Any] | None = None
    """Whose docstring tells units and more in its second paragraph."""
    parts: Mapping[str, Fields] = dataclasses.field(default_factory=dict)

    @property
    def file(self) -> str:
        """``result-1.json`` for superopt.result/1."""
        return f"{self.name.removeprefix('superopt.').replace('/', '-')}.json"

    def text(self) -> str:
        """The schema as a file."""
        schema = _schema_of(self.fields)
        units = "" if self.record is None else inspect.getdoc(self.record).partition("\n\n")[2]
        properties = {"schema": {"const": self.name}, **schema["properties"]}
        for name, fields in self.parts.items():
            part = _schema_of(fields)
            schema["$defs"] |= part.pop("$defs", {})
            schema["$defs"][name] = part
        head = {
            "$schema": DIALECT,
            "$id": f"urn:{self.name.replace('.', ':').replace('/', ':')}",
            "title": self.name,
            "description": f"{self.about} {_words(units)}".rstrip(),
            "type": "object",
            "properties": properties,
            "required": ["schema", *schema.get("required", [])],
        }
        defs = {"$defs": dict(sorted(schema["$defs"].items()))} if schema.get("$defs") else {}
        return json.dumps(head | defs, indent=2) + "\n"


def fields_of(kind: type[Any], names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The fields of a dataclass, described by the docstrings that stand below them."""
    hints, told = get_type_hints(kind), _docstrings(kind)
    names = names or tuple(field.name for field in dataclasses.fields(kind))
    return {n: Annotated[hints[n], Field(description=told[n])] if n in told else hints[n] for n in names}


class _Generator(GenerateJsonSchema):
    def float_schema(self, schema: Any) -> dict[str, Any]:
        """Figures that are not finite are null."""
        return {"type": ["number", "null"]}

    def field_is_required(self, field: Any, total: bool) -> bool:
        """A default does not mean that a field may be missing: all are written."""
        return super().field_is_required(field, total) if field["type"] == "typed-dict-field" else True

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """With the docstrings of its fields."""
        found = super().dataclass_schema(schema)
        for name, text in _docstrings(schema["cls"]).items():
            found["properties"].get(name, {}).setdefault("description", text)
        return found


def _schema_of(fields: Fields) -> dict[str, Any]:
    record = TypedDict("Record", dict(fields))  # noqa: UP013 - the fields are known at run time alone
    found = TypeAdapter(record).json_schema(mode="serialization", schema_generator=_Generator)
    return _bare(found)


def _bare(value: Any, names: bool = False) -> Any:
    """Without the titles that pydantic makes of the names; ``names``: what stands here are names of fields."""
    if isinstance(value, list):
        return [_bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if names or k not in ("title", "format", "default")}
    bare = {
        k: _words(v) if k == "description" and not names else _bare(v, k in ("properties", "$defs"))
        for k, v in kept.items()
    }
    return bare if names else _merged(bare)


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """Alternatives that are plain types as one list of types."""
    choices = schema.get("anyOf", [])
    if not choices or any(set(one) != {"type"} for one in choices):
        return schema
    kinds = [kind for one in choices for kind in (one["type"] if isinstance(one["type"], list) else [one["type"]])]
    rest = {name: part for name, part in schema.items() if name != "anyOf"}
    return {"type": list(dict.fromkeys(kinds)), **rest}


def _words(text: str) -> str:
    """On one line, and as JSON says it."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


def _docstrings(kind: type[Any]) -> dict[str, str]:
    """Field -> the string below it, of its own class or of one above."""
    found = {}
    for one in reversed(kind.__mro__):
        if dataclasses.is_dataclass(one):
            found |= _own_docstrings(one)
    return found


def _own_docstrings(kind: type[Any]) -> dict[str, str]:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(field.target)] = _words(str(text.value.value))
    return found

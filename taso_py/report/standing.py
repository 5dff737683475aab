"""What `superopt optimize` tells of a file that lies already where its result would go."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from taso_py.result import plain

SCHEMA = "superopt.standing/1"


@dataclass(frozen=True, slots=True)
class Standing:
    """A file where a result would go; `unlike` says why it is not that result, if it is not."""

    input: Path
    output: Path
    provenance: Mapping[str, str]
    """What the file says of its making."""
    unlike: str | None
    copy: bool = False
    """Whether it is the model itself, byte for byte: what a run leaves that finds nothing faster."""

    @property
    def current(self) -> bool:
        """Whether the file is the result already."""
        return self.unlike is None

    def sentence(self) -> str:
        """That it is the result, and what to do for another one."""
        words = "with these options on this machine; use --force to search again"
        return f"{self.output} is already the result for {self.input} {words}"

    def to_json(self) -> str:
        """One JSON object."""
        with self.output.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        head = {"schema": SCHEMA, "input": plain(self.input), "output": plain(self.output), "output_sha256": found}
        return json.dumps(head | {"current": self.current, "provenance": dict(self.provenance)}, indent=2)

"""Write the JSON Schemas of `taso_py/schemas` anew.

    python -m scripts.schemas

A test compares them with what this writes. A version gains fields; where one changes or goes, there is a new version.
"""

from __future__ import annotations

from scripts.schemas.documents import documents
from taso_py.report.schemas import FOLDER


def main() -> None:
    """One file for each kind of document."""
    for document in documents():
        (FOLDER / document.file).write_text(document.text(), encoding="utf-8")
        print(FOLDER / document.file)


if __name__ == "__main__":
    main()

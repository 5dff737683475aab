"""What differs between two models: the whole of `superopt diff`."""

from __future__ import annotations

from taso_py.difference.compare import compare
from taso_py.difference.reading import read_graph
from taso_py.options import DiffOptions
from taso_py.report.changes import Differences
from taso_py.run.subject import Model, named


def diff(first: Model, second: Model, options: DiffOptions) -> Differences:
    """Reads both graphs and compares them; ModelError for a model that cannot be read."""
    before, after = read_graph(first), read_graph(second)
    found = compare(before, after, ignore_names=options.ignore_names)
    return Differences(first=named(first), second=named(second), found=found)

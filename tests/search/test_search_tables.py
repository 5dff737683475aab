"""Embedding tables of which neighbouring columns choose rows become one stack by one bundle, without a search."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.helpers.bundles import after
from tests.helpers.graphs import model


def recommender(tables: int, *, stacked: bool) -> tuple[str, dict[str, tuple[int, ...]]]:
    """A row of each table, chosen by the table's own column; stacked, or side by side."""
    lines = []
    for k in range(tables):
        lines.append(f"p{k} = Constant<value_int = {k}>() c{k} = Gather<axis = 1>(x, p{k}) r{k} = Gather(t{k}, c{k})")
        lines.append(f"u{k} = Unsqueeze(r{k}, one)" if stacked else "")
    parts = ", ".join(f"{'u' if stacked else 'r'}{k}" for k in range(tables))
    shape = f"[4,{tables},6]" if stacked else f"[4,{6 * tables}]"
    text = f"""agraph (int64[4,{tables}] x) => (float{shape} y) {{
      one = Constant<value_ints = [1]>() {" ".join(lines)} y = Concat<axis = 1>({parts}) }}"""
    return text, {f"t{k}": (32, 6) for k in range(tables)}


@pytest.mark.parametrize("tables", [2, 3, 7, 20])
@pytest.mark.parametrize("stacked", [True, False])
def test_all_tables_are_looked_into_at_once(tables: int, stacked: bool) -> None:
    text, weights = recommender(tables, stacked=stacked)
    table = after(model(text, **weights), "tables stacked")
    made = Counter(n.operator.onnx for v, n in table.order() if v not in table.values.constant)
    assert made["GatherND"] == 1
    assert not {"Gather", "GatherRows", "Concat", "Split", "Slice"} & set(made)

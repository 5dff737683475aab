"""`make demo`: optimise two networks that are built in code, without torch and without downloads.

Models and reports stay in demo_output/; stdout ends with the table of results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

import taso_py
from scripts.bench.networks import NETWORKS
from taso_py.errors import SuperoptError
from taso_py.report.content import conditions, interval, milliseconds
from taso_py.report.document import write_report
from taso_py.report.progress import PlainProgress
from taso_py.report.table import TextTable
from taso_py.report.terminal import render, sentence, table
from taso_py.result import Result

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("nasrnn", "mobileone_s0")
OUTPUT = ROOT / "demo_output"
# Two models, their construction and their reports stay below three minutes.
BUDGET_S = 75.0


def optimise(name: str) -> Result:
    """Build one network, optimise it, leave model and reports in demo_output/."""
    model = OUTPUT / f"{name}.onnx"
    onnx.save(NETWORKS[name](), model)
    print(f"{name}: searching for at most {BUDGET_S:.0f} s", flush=True)
    result = taso_py.optimize(model, time_budget_s=BUDGET_S, progress=PlainProgress(sys.stdout))
    result = result.save(OUTPUT / f"{name}.superopt.onnx", force=True)
    for suffix in (".json", ".md", ".html"):
        write_report(result, OUTPUT / f"{name}.report{suffix}", force=True)
    print("\n".join((sentence(result), *result.notes)), flush=True)
    return result


def summary(results: list[Result]) -> TextTable:
    """One row per network."""
    rows = tuple(
        (
            result.input.stem if result.input is not None else "",
            f"{result.nodes_before} -> {result.nodes_after}",
            milliseconds(result.latency_before_ms),
            milliseconds(result.latency_after_ms),
            interval(result) if result.improved else "not improved",
            "" if result.max_rel_error is None else f"{result.max_rel_error:.1e}",
            str(sum(rule.sites for rule in result.rules)),
        )
        for result in results
    )
    header = ("network", "nodes", "before", "after", "times faster", "relative error", "rewrites")
    return TextTable("Results", header, rows, frozenset(range(1, 7)))


def main() -> int:
    """Optimise every network of the demo; the exit code is that of the first error."""
    OUTPUT.mkdir(exist_ok=True)
    try:
        results = [optimise(name) for name in NAMES]
    except SuperoptError as error:
        print(f"demo: error: {error}", file=sys.stderr)
        return error.exit_code
    print(render(table(summary(results))))
    for name, result in zip(NAMES, results, strict=True):
        print(f"{name}: {conditions(result)}")
    print(f"models and reports: {OUTPUT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

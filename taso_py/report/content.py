"""The words and tables of a result before any medium: terminal, Markdown and HTML render the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from taso_py.gate import NOISY_WIDTH
from taso_py.report.approximation import figure_rows
from taso_py.report.products import products_words
from taso_py.report.rewrites import HEADER, TITLE, rewrite_rows
from taso_py.report.table import TextTable
from taso_py.result import ModelProfile, OperatorTime, Result


def sentence(result: Result) -> str:
    """The one sentence that sums up a result, with the reason where nothing was gained."""
    why = "" if result.improved is not False or result.reason is None else f": {result.reason.words}"
    placed = "" if result.placement is None else f"; {result.placement.sentence()}"
    further = result.approximation
    more = "" if further is None or further.applied else f"; {further.sentence()}"
    return f"{headline(result)}{why}{placed}{more}"


def headline(result: Result) -> str:
    """The same without the reason."""
    name = result.input.name if result.input is not None else "model"
    if result.approximate and result.approximation is not None:
        return f"{name}: {result.approximation.sentence()}"
    if result.improved is None:
        return f"{name}: {_untimed(result)}"
    if not result.improved and result.placement is not None:
        return f"{name}: no rewrite is faster, the output is the model as it was"
    if not result.improved:
        return f"{name}: not improved, the output is the model as it was"
    return f"{name}: {_gain(result)}{_error(result)}{_doubt(result)}"


def conditions(result: Result) -> str:
    """The circumstances under which the figures were taken."""
    shapes = " | ".join(shape_text(shapes) for shapes in result.shapes) or "fixed"
    return (
        f"threads {result.threads} · shapes {shapes} · {result.ep} · {processors(result)} · "
        f"ONNX Runtime {result.ort_version}"
    )


def processors(result: Result) -> str:
    """What a result was timed on."""
    return result.cpu if result.gpu is None else f"{result.cpu} with {result.gpu}"


def tables(result: Result) -> tuple[TextTable, ...]:
    """Rules that took part, rewrites that were rejected; empty tables are left out."""
    barred = tuple((item.name, item.site, item.reason, str(item.reproduction or "")) for item in result.rejected)
    gate = tuple((one.name, f"{one.wanted:g}", one.verdict, one.words) for one in result.gate)
    found = (
        TextTable("Gate", ("condition", "wanted", "verdict", ""), gate, frozenset({1})),
        TextTable(TITLE, HEADER, tuple(rewrite_rows(result)), frozenset({1, 3})),
        TextTable("Rejected", ("rule", "site", "reason", "reproduction"), barred),
        *_providers(result),
        TextTable("Raced", ("candidate", "predicted", "measured"), raced_rows(result), frozenset({1, 2})),
    )
    return tuple(table for table in found if table.rows)


def _providers(result: Result) -> list[TextTable]:
    """The race of providers, with its interval or why one may not run the model."""
    if result.placement is None:
        return []
    rows = tuple(
        (
            one.ep,
            one.python or "superopt's own",
            _number(one.speedup, ".3f"),
            one.failure or f"{_number(one.speedup_low, '.3f')} to {_number(one.speedup_high, '.3f')}",
        )
        for one in result.placement.providers
    )
    header = ("provider", "environment", "original's speed-up", "95 % interval")
    return [TextTable("Providers, running the original", header, rows, frozenset({2}))]


def raced_rows(result: Result) -> tuple[tuple[str, ...], ...]:
    """Candidates beside the winner: what was tried and lost."""
    return tuple(
        (", ".join(c.rules), _number(c.predicted_speedup, ".2f"), _number(c.speedup, ".3f") or (c.failure or ""))
        for c in result.raced
    )


_SHOWN_OPERATORS = 12


def profile_table(profile: ModelProfile) -> TextTable:
    """Where a model's time goes, by the operators of the graph that ONNX Runtime made of it."""
    shown = profile.operators[:_SHOWN_OPERATORS]
    rows = [(o.operator, str(o.kernels), f"{1000 * o.seconds:.3f}", f"{100 * o.share:.1f} %") for o in shown]
    rest = profile.operators[_SHOWN_OPERATORS:]
    if rest:
        kernels, seconds = sum(o.kernels for o in rest), sum(o.seconds for o in rest)
        rows.append(("others", str(kernels), f"{1000 * seconds:.3f}", f"{100 * sum(o.share for o in rest):.1f} %"))
    return TextTable("Where the time goes", ("kernel", "calls", "ms", "share"), tuple(rows), frozenset({1, 2, 3}))


def compared_profiles(before: ModelProfile, after: ModelProfile) -> TextTable:
    """Where the time went and where it goes now, by operator, with the sums."""
    old, new = ({o.operator: o for o in profile.operators} for profile in (before, after))
    largest = {name: max(found[name].seconds for found in (old, new) if name in found) for name in (*old, *new)}
    names = sorted(largest, key=lambda name: -largest[name])
    shown, rest = names[:_SHOWN_OPERATORS], names[_SHOWN_OPERATORS:]
    rows = [(name, *_times([name], old), *_times([name], new)) for name in shown]
    if rest:
        rows.append(("others", *_times(rest, old), *_times(rest, new)))
    rows.append(("all kernels", *_times(names, old), *_times(names, new)))
    header = ("kernel", "ms before", "share", "ms after", "share")
    return TextTable("Where the time goes, by ONNX Runtime's profiler", header, tuple(rows), frozenset({1, 2, 3, 4}))


def _times(names: Iterable[str], found: Mapping[str, OperatorTime]) -> tuple[str, str]:
    """Milliseconds and share of these operators together; nothing where none of them is found."""
    here = [found[name] for name in names if name in found]
    if not here:
        return "", ""
    return f"{1000 * sum(o.seconds for o in here):.3f}", f"{100 * sum(o.share for o in here):.1f} %"


def profile_sentence(profile: ModelProfile) -> str:
    """What a rewrite can gain, as far as the profile tells."""
    if not profile.product_kernels:
        return "none of the time is in convolutions or matrix products"
    speed, peak = profile.operations_per_second, profile.peak_operations_per_second
    pace = f" at {100 * speed / peak:.0f} % of this machine's peak" if speed and peak else ""
    return (
        f"{100 * profile.products_share:.0f} % of the time is in {products_words(profile)}{pace}: "
        f"without all the rest the model would be {profile.gain_of_the_rest:.2f} times faster"
    )


def figures(result: Result) -> TextTable:
    """Every figure of the result as name and value, for report files."""
    rows = (
        ("input", str(result.input or "")),
        ("output", str(result.output or "")),
        ("output SHA-256", result.output_sha256 or ""),
        ("speed-up, 95 % interval", interval(result)),
        ("predicted speed-up", _number(result.predicted_speedup, ".2f")),
        ("latency before", milliseconds(result.latency_before_ms)),
        ("latency after", milliseconds(result.latency_after_ms)),
        ("largest absolute error", _number(result.max_abs_error, ".1e")),
        ("largest relative error", _number(result.max_rel_error, ".1e")),
        *figure_rows(result.approximation),
        ("tolerance", tolerance_text(result.tolerance, result.rtol, result.atol)),
        ("bytes", "" if result.bytes_after is None else f"{count(result.bytes_before)} -> {count(result.bytes_after)}"),
        ("nodes", f"{result.nodes_before} -> {result.nodes_after}"),
        ("opaque nodes", str(result.opaque_nodes)),
        ("FLOPs", f"{count(result.flops_before)} -> {count(result.flops_after)}"),
        ("search ended", result.stop_reason + (", in an earlier run" if result.recalled else "")),
        ("time taken", f"{result.elapsed_s:.1f} s ({_phases(result.phases_s)})"),
        ("seed", str(result.seed)),
    )
    return TextTable("Figures", ("figure", "value"), tuple(row for row in rows if row[1]))


def shape_text(shapes: Mapping[str, Iterable[int]], separator: str = ";") -> str:
    """``x=1,3,224,224;y=1,10``, the form that --workload reads."""
    return separator.join(f"{name}={','.join(map(str, sizes))}" for name, sizes in shapes.items())


def count(value: int | None) -> str:
    """A large count with its unit prefix: 4,089 M is written 4.09 G."""
    if value is None:
        return "unknown"
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return str(value)


def number(count: int, what: str) -> str:
    """So many of something that takes an s in the plural."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def three_digits(value: float) -> str:
    """Three significant digits without an exponent: 36.3, 4.08, 0.0127, 1234."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:#.3g}"


def _untimed(result: Result) -> str:
    if not result.rules:
        return "no rule applied, not timed"
    sites = sum(rule.sites for rule in result.rules)
    predicted = result.predicted_speedup
    guess = "" if predicted is None else f", predicted {predicted:.2f} times faster"
    nodes = f"{result.nodes_before} -> {result.nodes_after} nodes"
    return f"{sites} rewrites, {nodes}{guess}, not timed{_error(result)}"


def _gain(result: Result) -> str:
    before, after = result.latency_before_ms, result.latency_after_ms
    known = before is not None and after is not None
    times = f" ({three_digits(before or 0)} -> {three_digits(after or 0)} ms)" if known else ""
    return f"{interval(result)} times faster than ONNX Runtime's default{times}"


def interval(result: Result) -> str:
    """The confirmed speed-up with its 95 % interval: 1.10 [1.09, 1.11]."""
    middle, low, high = result.speedup, result.speedup_low, result.speedup_high
    if middle is None:
        return ""
    spread = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return f"{middle:.2f}{spread}"


def _doubt(result: Result) -> str:
    """A wide interval comes from a busy machine, and its middle means little: say so beside the figure."""
    middle, low, high = result.speedup, result.speedup_low, result.speedup_high
    if not middle or low is None or high is None or (high - low) / middle <= NOISY_WIDTH:
        return ""
    return "; a noisy measurement: repeat it on an idle machine"


def _error(result: Result) -> str:
    error = result.max_rel_error
    return "" if error is None else f", largest relative error {error:.1e}" if error else ", no error"


def tolerance_text(tolerance: float | None, rtol: float | None, atol: float | None) -> str:
    """``1.0e-04``, or what was given: ``atol 1e-08 + rtol 1e-05 for every element``."""
    if rtol is not None and atol is not None:
        return f"atol {atol:g} + rtol {rtol:g} for every element"
    return _number(tolerance, ".1e")


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def milliseconds(value: float | None) -> str:
    """``36.3 ms``; nothing for a time that was not measured."""
    return "" if value is None else f"{three_digits(value)} ms"


def _phases(phases: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases.items())

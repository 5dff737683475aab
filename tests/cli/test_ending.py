"""The end of `superopt optimize`: tables that add up, places by name, one sentence, one reason, one next step."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from taso_py.options.spelling import spelled, spelling_as_command_line
from taso_py.report.advice import next_step, reason_words
from taso_py.report.content import compared_profiles, headline, profile_sentence, sentence
from taso_py.report.rewrites import places_text, rewrite_rows, shortened
from taso_py.report.terminal import result_view
from taso_py.result import ModelProfile, OperatorTime, Reason, Rejection, Result, RuleReport
from tests.cli.test_cli_report import IMPROVED

NAME = "/backbone/stages.{}/blocks.0/attention/projection/Conv_output_0"


def profile(**milliseconds: float) -> ModelProfile:
    total = sum(milliseconds.values())
    rows = tuple(OperatorTime(name, 2, ms / 1000, ms / total) for name, ms in milliseconds.items())
    return ModelProfile(
        seconds=total / 1000, operators=rows, product_kernels=2, products_share=0.94,
        operations_per_second=88.0, peak_operations_per_second=100.0,
    )  # fmt: skip


def rule(name: str, gain: float | None, places: tuple[str, ...] = ("conv",), status: str = "proved") -> RuleReport:
    return RuleReport(name, "id", status, len(places), gain, places=places)


FOURFOLD = dataclasses.replace(
    IMPROVED,
    speedup=4.0,
    rules=(
        rule("conv-sum", 0.30, tuple(NAME.format(i) for i in range(24))),
        rule("conv-scaled", 0.0004),
        rule("slice-of-slice", None, ()),
        rule("batchnorm-branch-into-depthwise-further", -0.01, status="proved up to 4"),
    ),
    profile=profile(Conv=20, Add=10, Transpose=1),
    profile_after=profile(Conv=5, FusedGemm=2.5),
)


def tenths(figure: str) -> int:
    return round(10 * float(figure.removesuffix(" %")))


@pytest.mark.parametrize("gains", [(0.3, 0.0004, -0.01), (0.75,), (0.1234, 0.33333, 0.29999), (None, None)])
def test_the_rows_add_up_to_what_was_measured_together(gains: tuple[float | None, ...]) -> None:
    result = dataclasses.replace(FOURFOLD, rules=tuple(rule(f"r{i}", gain) for i, gain in enumerate(gains)))
    *rows, (_, _, words, total) = rewrite_rows(result)
    assert (words, total) == ("measured together", "75.0 %")
    assert sum(tenths(row[3]) for row in rows if row[3] != "tidies") == 750
    assert [row[2] for row in rows[len(gains) :]] == ([] if gains == (0.75,) else ["interaction, not predicted"])


def test_what_was_not_timed_is_no_measurement() -> None:
    rows = rewrite_rows(dataclasses.replace(FOURFOLD, improved=None, speedup=None))
    assert rows[-1][2:] == ("predicted together, not timed", "29.0 %")
    assert rewrite_rows(dataclasses.replace(FOURFOLD, rules=())) == []


@pytest.mark.parametrize(
    ("places", "width", "text"),
    [
        ((), 20, ""),
        (("a",), 20, "a"),
        (("a", "b"), 20, "a, b"),
        (("a", "b", "c"), 20, "a, b and 1 more"),
        (("a" * 16, "b" * 16, "c"), 30, f"{'a' * 16} and 2 more"),
        ((NAME.format(3), "b"), 34, "/backbone/...v_output_0 and 1 more"),
        ((NAME.format(3), "b"), None, f"{NAME.format(3)}, b"),
        (("line\nbreak",), 20, "line break"),
    ],
)
def test_one_or_two_places_are_named(places: tuple[str, ...], width: int | None, text: str) -> None:
    assert places_text(places, width) == text


@pytest.mark.parametrize("width", range(12))
def test_shortening_keeps_both_ends(width: int) -> None:
    text = shortened("0123456789a", width)
    assert len(text) == min(width, 11)
    assert width < 5 or (text[0], text[-1]) == ("0", "a")


def lines(result: Result, width: int) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(result_view(result, width), highlight=False)
    return console.export_text().splitlines()


def test_eighty_columns_hold_the_tables_without_a_wrapped_cell() -> None:
    shown = lines(FOURFOLD, 80)
    assert max(map(len, shown)) <= 80
    begin = next(i for i, line in enumerate(shown) if line.startswith("Rewrites"))
    table = shown[begin + 2 : shown.index("", begin)]
    assert len(table) == len(rewrite_rows(FOURFOLD))
    assert all(line.endswith((" %", "tidies")) for line in table)
    assert any("/back" in line and "and 23 more" in line for line in table)
    assert any("measured together" in line for line in table)
    assert any(line.startswith("Conv ") and "20.000" in line and " 5.000" in line for line in shown)
    assert sum(line.startswith(("next: ", "reason: ")) for line in shown) == 1


@pytest.mark.parametrize("width", [1, 10, 24, 40, 60, 200])
def test_any_width_is_kept_to(width: int) -> None:
    shown = lines(FOURFOLD, width)
    assert max(map(len, shown)) <= width
    assert width < 40 or "conv-sum" in " ".join(shown)


def test_operators_stand_side_by_side_with_their_sums() -> None:
    assert profile_sentence(profile(Conv=1)).startswith("94 % of the time is in 2 convolutions at 88 %")
    table = compared_profiles(profile(Conv=20, Add=10, Transpose=1), profile(Conv=5, FusedGemm=2.5))
    rows = {row[0]: row[1:] for row in table.rows}
    assert [row[0] for row in table.rows] == ["Conv", "Add", "FusedGemm", "Transpose", "all kernels"]
    assert rows["Conv"] == ("20.000", "64.5 %", "5.000", "66.7 %")
    assert rows["FusedGemm"] == ("", "", "2.500", "33.3 %")
    assert rows["all kernels"] == ("31.000", "100.0 %", "7.500", "100.0 %")
    many = profile(**{f"Op{i}": i + 1 for i in range(20)})
    folded = compared_profiles(many, profile(Op0=1.0)).rows
    assert [row[0] for row in folded[-2:]] == ["others", "all kernels"]
    assert sum(float(row[1]) for row in folded[:-1]) == pytest.approx(float(folded[-1][1]))


def unimproved(code: Any, words: str = "because", **further: Any) -> Result:
    plain = dataclasses.replace(IMPROVED, improved=False, speedup=None, rules=(), rejected=(), stop_reason="saturated")
    return dataclasses.replace(plain, reason=Reason(code, words), **further)


DONE = dataclasses.replace(IMPROVED, stop_reason="no further gain")

NEXT: dict[str, tuple[Result, str]] = {
    "bench": (DONE, "superopt bench resnext50.onnx resnext50.superopt.onnx, where the model will run"),
    "odd file names": (
        dataclasses.replace(DONE, output=Path("a b'c.onnx")),
        "superopt bench resnext50.onnx 'a b'\"'\"'c.onnx'",
    ),
    "no output": (dataclasses.replace(DONE, output=None), "write it: so far it is in no file"),
    "noisy": (dataclasses.replace(DONE, speedup_low=0.9 * 1.1, speedup_high=1.5), "repeat it on a quieter machine"),
    "time": (
        dataclasses.replace(IMPROVED, stop_reason="time budget", suggested_budget_s=240.0),
        "raise --time-budget to 240: the search",
    ),
    "interrupted, improved": (dataclasses.replace(IMPROVED, stop_reason="interrupted"), "let it run to its end"),
    "not timed": (
        dataclasses.replace(DONE, improved=None),
        "superopt bench resnext50.onnx resnext50.superopt.onnx: nothing",
    ),
    "not timed, no rule": (dataclasses.replace(DONE, improved=None, rules=()), "nothing to do"),
    "nothing": (unimproved("nothing matched"), "nothing to do"),
    "nothing, with a profile": (
        unimproved("nothing faster", profile=profile(Conv=1)),
        "nothing to do; 94 % of the time is in 2 convolutions at 88 % of this machine's peak",
    ),
    "unsupported": (unimproved("unsupported"), "nothing to do"),
    "nothing yet": (unimproved("lost the race", stop_reason="time budget"), "raise --time-budget: the search had not"),
    "too little time": (unimproved("too little time", suggested_budget_s=16.0), "raise --time-budget to 16"),
    "no proofs": (
        unimproved("nothing matched", unproved="3 of 4 rules have no proof for these sources and are not used"),
        "superopt verify --update: 3 of 4 rules have no proof",
    ),
    "no proofs, improved": (dataclasses.replace(DONE, rejected=(), unproved="3 of 4"), "superopt verify --update"),
    "too noisy": (unimproved("too noisy"), "repeat it on a quieter machine"),
    "interrupted": (unimproved("interrupted"), "let it run to its end"),
    "wrong": (
        unimproved("all rejected", rejected=(Rejection("r", "1", "conv", "values", Path("/tmp/x")),)),
        "report the rule that changed values, with /tmp/x",
    ),
    "out of range": (unimproved("all rejected", rejected=(Rejection("r", "1", "conv", "range"),)), "nothing to do"),
}


@pytest.mark.parametrize(("result", "words"), NEXT.values(), ids=NEXT)
def test_each_end_has_one_next_step(result: Result, words: str) -> None:
    with spelling_as_command_line():
        assert next_step(result).startswith(words)
    assert "--" not in next_step(result)


def test_a_certificate_is_there_to_be_checked() -> None:
    step = next_step(IMPROVED, Path("c.json"))
    assert step == "superopt certify resnext50.onnx resnext50.superopt.onnx c.json"


def test_the_reason_is_told_once() -> None:
    bound = profile_sentence(profile(Conv=1))
    with spelling_as_command_line():
        for words in ("none was faster", "no time was left", "others had the CPUs"):
            for more in ("", f"; {bound}", f": raise {spelled('time_budget_s')}"):
                result = unimproved("nothing faster", words + more, profile=profile(Conv=1))
                assert reason_words(result) == words
                assert sentence(result) == f"{headline(result)}: {words}{more}"
    assert reason_words(IMPROVED) is None

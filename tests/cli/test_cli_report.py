"""The sentence, the tables and the report files say what the result says, whatever strings it holds."""

from __future__ import annotations

import dataclasses
import json
from html.parser import HTMLParser
from pathlib import Path

import onnx
import pytest

from taso_py.errors import OutputError, SpeedupNotReachedError
from taso_py.onnx_io.artifact import GivenProto
from taso_py.report.content import conditions, count, sentence, three_digits
from taso_py.report.document import html, markdown, write_report
from taso_py.report.terminal import inspection_text, result_text
from taso_py.result import Inspection, Rejection, Result, RuleReport
from tests.conftest import tiny_network

IMPROVED = Result(
    input=Path("resnext50.onnx"),
    output=Path("resnext50.superopt.onnx"),
    output_sha256="0" * 64,
    improved=True,
    speedup=1.1,
    speedup_low=1.092,
    speedup_high=1.108,
    predicted_speedup=1.2,
    latency_before_ms=36.34,
    latency_after_ms=33.06,
    max_abs_error=1.5e-6,
    max_rel_error=2.5e-7,
    tolerance=1e-4,
    nodes_before=122,
    nodes_after=106,
    opaque_nodes=1,
    flops_before=8_500_000_000,
    flops_after=9_100_000_000,
    rules=(
        RuleReport("merge_groups", "ab12", "tested", 12, 0.081, places=("stem/conv",), law="rule merge_groups: ..."),
        RuleReport("fold", "cd", "proved", 1, None),
    ),
    rejected=(Rejection("bad|rule", "ef", "<node>", "max error 3e-1", Path("bad.onnx")),),
    stop_reason="exhausted",
    elapsed_s=61.25,
    phases_s={"search": 40.0, "race": 20.5},
    ep="CPUExecutionProvider",
    threads=2,
    shapes=({"x": (1, 3, 224, 224)},),
    cpu="A <CPU> & more",
    ort_version="1.31.1",
    seed=3,
    artifact=GivenProto(tiny_network()),
)


def test_the_sentence_of_an_improvement() -> None:
    assert sentence(IMPROVED) == (
        "resnext50.onnx: 1.10 [1.09, 1.11] times faster than ONNX Runtime's default (36.3 -> 33.1 ms), "
        "largest relative error 2.5e-07"
    )


def test_a_wide_interval_is_called_noisy() -> None:
    noisy = dataclasses.replace(IMPROVED, speedup=5.67, speedup_low=3.85, speedup_high=9.15)
    assert "5.67 [3.85, 9.15] times" in sentence(noisy)
    assert "a noisy measurement" in sentence(noisy)
    assert "noisy" not in sentence(IMPROVED)


def test_the_sentence_of_no_improvement_claims_none() -> None:
    text = sentence(dataclasses.replace(IMPROVED, improved=False))
    assert text.startswith("resnext50.onnx: not improved")
    assert "faster" not in text


def test_the_sentence_without_a_race_says_so() -> None:
    untimed = dataclasses.replace(IMPROVED, improved=None, speedup=None)
    assert "13 rewrites, 122 -> 106 nodes, predicted 1.20 times faster, not timed" in sentence(untimed)
    assert sentence(dataclasses.replace(untimed, rules=())) == "resnext50.onnx: no rule applied, not timed"


def test_conditions_name_what_the_figures_hold_for() -> None:
    assert conditions(IMPROVED) == (
        "threads 2 · shapes x=1,3,224,224 · CPUExecutionProvider · A <CPU> & more · ONNX Runtime 1.31.1"
    )


def test_terminal_text_has_rules_sentence_and_conditions() -> None:
    text = result_text(IMPROVED)
    for part in ("merge_groups", "8.1 %", "bad|rule", "<node>", sentence(IMPROVED), "A <CPU> & more"):
        assert part in text
    assert "\x1b" not in text


def test_rule_names_are_never_read_as_markup() -> None:
    odd = dataclasses.replace(IMPROVED, rules=(RuleReport("[bold]x[/bold]", "1", "tested", 1, None),))
    assert "[bold]x[/bold]" in result_text(odd)


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1234"), (36.34, "36.3"), (4.084, "4.08"), (0.01274, "0.0127"), (100, "100")]
)
def test_three_digits(value: float, text: str) -> None:
    assert three_digits(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "unknown"), (999, "999"), (4_089_000_000, "4.09 G")])
def test_count(value: int | None, text: str) -> None:
    assert count(value) == text


def test_json_holds_plain_values() -> None:
    fields = json.loads(IMPROVED.to_json())
    assert fields["schema"] == "superopt.result/1"
    assert fields["rules"][0] == {
        "name": "merge_groups",
        "id": "ab12",
        "status": "tested",
        "sites": 12,
        "gain": 0.081,
        "places": ["stem/conv"],
        "law": "rule merge_groups: ...",
        "backwards": False,
    }
    assert fields["shapes"] == [{"x": [1, 3, 224, 224]}]
    assert fields["rejected"][0]["reproduction"] == "bad.onnx"


def test_json_has_no_infinities() -> None:
    fields = json.loads(dataclasses.replace(IMPROVED, max_rel_error=float("inf")).to_json())
    assert fields["max_rel_error"] is None


class Texts(HTMLParser):
    """Collects tags and text as a browser would read them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_self_contained_and_escaped() -> None:
    odd = dataclasses.replace(IMPROVED, cpu="<script>alert(1)</script>", notes=("<b>note</b>",))
    page = html(odd)
    reader = Texts()
    reader.feed(page)
    assert "script" not in reader.tags
    assert "b" not in reader.tags
    assert "<script>alert(1)</script>" in reader.text
    assert "merge_groups" in reader.text
    assert not {"link", "img", "iframe"} & reader.tags
    assert "http" not in page


def test_markdown_cells_cannot_break_the_table() -> None:
    text = markdown(IMPROVED)
    row = next(line for line in text.splitlines() if "bad" in line)
    assert "bad\\|rule" in row
    assert "\\<node\\>" in row


@pytest.mark.parametrize("suffix", [".json", ".md", ".html", ".HTML"])
def test_a_report_is_written_by_its_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report{suffix}"
    write_report(IMPROVED, path)
    assert "merge" in path.read_text(encoding="utf-8")


def test_a_report_replaces_another_file_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match="use force=True"):
        write_report(IMPROVED, path)
    assert path.read_text(encoding="utf-8") == "mine"
    write_report(IMPROVED, path, force=True)
    assert "merge" in path.read_text(encoding="utf-8")


def test_a_report_never_replaces_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("model", encoding="utf-8")
    with pytest.raises(OutputError, match="overwrite a file"):
        write_report(dataclasses.replace(IMPROVED, sources=(path,)), path, force=True)


def test_save_fills_in_the_output(tmp_path: Path) -> None:
    saved = IMPROVED.save(tmp_path / "out.onnx")
    assert saved.output == tmp_path / "out.onnx"
    assert saved.output_sha256 != IMPROVED.output_sha256
    assert onnx.load(tmp_path / "out.onnx") == saved.model


def test_require_speedup_asks_the_lower_bound() -> None:
    """The middle is above, and could be by chance."""
    IMPROVED.require_speedup(1.09)
    with pytest.raises(
        SpeedupNotReachedError, match=r"^the gate: min-speedup 1\.1 missed: the speed-up is at least 1\.092$"
    ):
        IMPROVED.require_speedup(1.1)
    with pytest.raises(SpeedupNotReachedError):
        dataclasses.replace(IMPROVED, improved=False).require_speedup(1.01)


def test_inspection_text_shows_operators_and_sizes() -> None:
    inspection = Inspection(
        input=Path("m.onnx"),
        nodes=3,
        operators={"Conv": 2, "com.acme::Magic": 1},
        opaque_types={"com.acme::Magic": 1},
        opsets={"": 17, "com.acme": 1},
        ir_version=8,
        inputs={"x": "float32[batch,3]"},
        outputs={"y": "float32[batch,4]"},
        parameters=1_500_000,
        parameter_bytes=6_000_000,
        flops=None,
        bytes_moved=123,
        peak_activation_bytes=2_000,
        shapes={"x": (1, 3)},
    )
    text = inspection_text(inspection)
    for part in (
        "com.acme::Magic",
        "opaque",
        "ai.onnx 17",
        "float32[batch,3]",
        "1.5 M",
        "6 MB",
        "123 B",
        "2 kB",
    ):
        assert part in text
    assert json.loads(inspection.to_json())["flops"] is None

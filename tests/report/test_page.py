"""The page is well formed, readable without a script, safe whatever names a model has, and never large."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from taso_py.difference.compare import compare
from taso_py.difference.graph import Graph
from taso_py.difference.reading import read_graph
from taso_py.onnx_io.artifact import GivenProto
from taso_py.report.document import html, markdown
from taso_py.report.mathematics import law_in_mathematics
from taso_py.report.page.drawing import drawings
from taso_py.report.page.layout import placed
from taso_py.report.page.render import difference_page
from taso_py.result import ModelProfile, OperatorTime, OutputError, Result, RuleReport
from taso_py.rules.parser import parse_rule
from tests.cli.test_cli_report import IMPROVED
from tests.helpers.graphs import model

VOID = {"meta", "br"}
LAW = 'rule fold-scale "A scale goes into the matrix.":\n  MatMul(Mul(x, s), w) => MatMul(x, Mul(s, w))\n'
HOSTILE = '<script>alert("1")</script>\' &amp; {{ 7 * 7 }} ]]> \u202e\x07 \N{SNOWMAN}'


class Page(HTMLParser):
    """What a browser sees: tags in their nesting, attributes, headings, text; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.texts: list[str] = []
        self.untitled = 0
        self.fresh: str | None = None
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.fresh == "svg" and tag != "title":
            self.untitled += 1
        self.fresh = tag
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def require_sound(text: str) -> Page:
    """What holds for every page."""
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "action")]
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in text
    assert "http" not in text
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(page.headings))
    assert page.untitled == 0
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = [name for _, a in page.tags for name in (a.get("aria-labelledby") or "").split()]
    assert set(named) <= set(ids)
    tables = sum(tag == "table" for tag, _ in page.tags)
    assert tables == sum(tag == "caption" for tag, _ in page.tags)
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    assert len(text.encode()) < 2_000_000
    return page


@dataclasses.dataclass(frozen=True)
class Graphs:
    """Evidence that is two graphs."""

    before: Graph
    after: Graph

    def graphs(self) -> tuple[Graph, Graph]:
        return self.before, self.after

    def certificate(self, optimised: object) -> str:
        return ""


def profile(scale: float, *names: str) -> ModelProfile:
    rows = tuple(OperatorTime(name, k + 1, scale * (k + 1), 1 / len(names)) for k, name in enumerate(names))
    return ModelProfile(
        seconds=sum(row.seconds for row in rows),
        operators=rows,
        product_kernels=1,
        products_share=0.5,
        operations_per_second=None,
        peak_operations_per_second=None,
    )


def folded(name: str = "t") -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Two layers whose scales are folded, with a value of this name."""
    text = "agraph (float[1,4] x) => (float[1,4] y) {{ {} }}"
    before = model(
        text.format("a = Mul(x, s) t = MatMul(a, w) r = Relu(t) b = Mul(r, s) y = MatMul(b, w)"), s=(4,), w=(4, 4)
    )
    after = model(text.format("t = MatMul(x, v) r = Relu(t) y = MatMul(r, v)"), v=(4, 4))
    for proto in (before, after):
        for node in proto.graph.node:
            node.name = f"node {name}"
            for side in (node.input, node.output):
                side[:] = [name if value == "t" else value for value in side]
    return before, after


def result(before: onnx.ModelProto, after: onnx.ModelProto, *places: str) -> Result:
    rng = random.Random(0)
    return dataclasses.replace(
        IMPROVED,
        rules=(RuleReport("fold-scale", "ab", "proved", 2, 0.1, places=places, law=LAW), *IMPROVED.rules),
        profile=profile(0.002, "Conv", "Add", "Mul"),
        profile_after=profile(0.001, "Conv", "Add"),
        rounds_ms=tuple((rng.gauss(36, 1), rng.gauss(33, 1)) for _ in range(12)),
        errors=tuple(
            OutputError(inputs=kind, output="y", relative=error, absolute=error)
            for kind, error in (("normal", 1e-7), ("zeros", 0.0), ("large", math.inf))
        ),
        evidence=Graphs(read_graph(before), read_graph(after)),
        artifact=GivenProto(after),
    )


def test_the_page_shows_places_laws_times_rounds_errors_and_what_was_tried() -> None:
    page = require_sound(html(result(*folded(), "t")))
    for part in (
        "Mul, MatMul → MatMul",
        "2 places alike",
        "(x ⊙ s) w ⟶ x (s ⊙ w)",
        "12 paired rounds",
        "The largest relative error is inf",
        "original; the 95 % interval is 1.09 to 1.11",
        "Rules that none of these places shows",
        "merge_groups",
        "session = ort.InferenceSession('resnext50.superopt.onnx'",
        "superopt check resnext50.onnx resnext50.superopt.onnx --threads 2",
    ):
        assert part in page.text
    pictures = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(pictures) == 6  # speed-up, times, before, after, latencies, errors


def test_markdown_has_the_same_sections() -> None:
    text = markdown(result(*folded(), "t"))
    headings = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    page = html(result(*folded(), "t"))
    assert all(f"<h2>{heading}</h2>" in page for heading in headings)
    assert len(headings) == page.count("<h2>")
    assert "- a = Mul(x, float32[4]) : float32[1,4]" in text


def outside_fences(text: str) -> Iterator[str]:
    """The lines of Markdown that are no code."""
    fence = ""
    for line in text.splitlines():
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            fence = "" if line == fence else fence
        elif len(ticks) >= 3:
            fence = ticks
        else:
            yield line


@pytest.mark.parametrize("name", [HOSTILE, "n" * 5000, "`" * 9 + "\n# no heading"])
def test_names_of_a_model_are_text_and_nothing_else(name: str) -> None:
    told = dataclasses.replace(
        result(*folded(name), name), cpu=name, notes=(name,), rules=(RuleReport(name, "a", name, 1, None, law=name),)
    )
    page = require_sound(html(told))
    assert "49" not in "".join(text for text in page.texts if "alert" in text)
    assert [line for line in outside_fences(markdown(told)) if line.startswith("# ")] == [
        line for line in outside_fences(markdown(told)) if line.startswith("# resnext50")
    ]
    require_sound(difference_page((name, name), compare(*told.evidence.graphs())))


def many(count: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """A network of so many nodes in which very different places were changed, with long names."""
    kinds = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Add", "Mul", "MatMul")
    long = "layer/" * 40
    protos = []
    for changed in (False, True):
        rng = random.Random(1)
        nodes, values = [], ["x"]
        for k in range(count):
            kind = rng.choice(kinds)
            reads = [values[-1], rng.choice(values[-9:])] if kind in ("Add", "Mul", "MatMul") else [values[-1]]
            if changed and k % 7 in (0, 3, 4):
                kind = {"Relu": "Softplus", "Add": "Max"}.get(kind, kind)
            nodes.append(helper.make_node(kind, reads, [f"{long}v{k}"], name=f"{long}n{k}"))
            values.append(f"{long}v{k}")
        info = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [4, 4]) for v in ("x", values[-1])]
        weights = [numpy_helper.from_array(np.zeros(1, np.float32), "unused")]
        graph = helper.make_graph(nodes, "many", info[:1], info[1:], weights)
        protos.append(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    return protos[0], protos[1]


def test_a_large_model_with_many_places_makes_a_page_that_can_be_read() -> None:
    before, after = many(1200)
    page = html(result(before, after))
    shown = require_sound(page)
    assert "Not drawn" in shown.text or page.count("<h3") <= 13
    assert len(page.encode()) < 1_000_000


def test_a_large_place_is_drawn_in_part_and_says_so() -> None:
    chain = [f"a{k + 1} = {{0}}(a{k}) b{k + 1} = {{0}}(b{k})" for k in range(30)]
    lines = "a0 = {0}(x) b0 = {0}(a0) " + " ".join(chain)

    def made(kind: str) -> onnx.ModelProto:
        return model(
            f"agraph (float[4] x) => (float[4] y0, float[4] y1) {{ {lines.format(kind)} "
            f"y0 = {kind}(a30) y1 = {kind}(b30) }}"
        )

    before, after = read_graph(made("Neg")), read_graph(made("Abs"))
    found = compare(before, after, ignore_names=True)
    one, two = drawings(found.regions[0], before, after)
    assert 0 < one.shown < one.of
    assert 0 < two.shown < two.of
    assert "Drawn in part" in difference_page(("a", "b"), found)


def test_a_result_that_is_the_original_has_a_page_too() -> None:
    plain = dataclasses.replace(IMPROVED, improved=False, rules=(), speedup=None, evidence=None)
    require_sound(html(plain))
    assert "What was changed" not in html(plain)


@pytest.mark.parametrize("seed", range(5))
def test_boxes_of_a_layout_do_not_overlap_and_edges_run_downwards(seed: int) -> None:
    rng = random.Random(seed)
    widths = [rng.uniform(30, 150) for _ in range(30)]
    edges = [(rng.randrange(k), k) for k in range(1, 30) for _ in range(rng.choice([1, 1, 2]))]
    found = placed(widths, edges, gap=10, pitch=50)
    for k in range(30):
        for j in range(k):
            (x, y), (u, v) = found.centres[k], found.centres[j]
            assert y != v or abs(x - u) >= (widths[k] + widths[j]) / 2 + 9.99
        assert widths[k] / 2 - 0.01 <= found.centres[k][0] <= found.width - widths[k] / 2 + 0.01
    for (source, target), way in zip(edges, found.ways, strict=True):
        assert way[0] == found.centres[source]
        assert way[-1] == found.centres[target]
        assert all(b[1] > a[1] for a, b in pairwise(way))


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ("MatMul(MatMul(x, a), b) == MatMul(x, MatMul(a, b))", "x a b ⟶ x (a b)"),
        ("Sub(x, Sub(y, z)) => Add(Sub(x, y), z)", "x − (y − z) ⟶ x − y + z"),
        ("Neg(Conv(x, w, b)) => Conv(x, Neg(w), Neg(b))", "−(x ∗ w + b) ⟶ x ∗ (−w) + (−b)"),
        ("Mul(x, Reciprocal(y)) => Div(x, y)", "x ⊙ (1 / y) ⟶ x / y"),
    ],
)
def test_mathematics_keeps_what_is_grouped(law: str, words: str) -> None:
    assert law_in_mathematics(parse_rule(f"rule r: {law}"))[0] == words
    left, _, right = words.partition(" ⟶ ")
    assert law_in_mathematics(parse_rule(f"rule r: {law}"), backwards=True)[0] == f"{right} ⟶ {left}"

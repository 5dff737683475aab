"""What a result changed, place by place: the contents of the report's pictures, before any medium."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taso_py.difference.compare import Difference, compare
from taso_py.difference.graph import Graph, Operation
from taso_py.difference.regions import Piece, Region
from taso_py.errors import ModelError, SuperoptError
from taso_py.report.mathematics import law_in_mathematics
from taso_py.report.names import clipped, listed
from taso_py.report.proofs import proof_lines
from taso_py.report.rewrites import named
from taso_py.result import Result, RuleReport
from taso_py.rules.lock import load_lock
from taso_py.rules.parser import parse_rule

MOST_DRAWN = 12
"""Kinds of places that are shown in full; the others are named."""
MOST_LISTED = 60
_LABELS, _OPERATORS, _NAME, _LAW, _FORMULA = 40, 8, 60, 4000, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class LawCard:
    """A rule of the result with its law and what is on record of that."""

    name: str
    status: str
    sites: int
    gain: str
    mathematics: tuple[str, ...]
    """The law and its clauses; nothing where the law's text cannot be read, or is too long to be looked at."""
    text: str
    proof: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Regions of one form: the first of them, and where all of them are."""

    title: str
    region: Region
    count: int
    places: str
    """Names of a value that each of them makes."""
    laws: tuple[LawCard, ...]
    note: str
    """What the pictures cannot show; mostly empty."""

    @property
    def times(self) -> str:
        """How many regions there are."""
        return "1 place" if self.count == 1 else f"{self.count} places alike"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The places where a result differs from its original."""

    difference: Difference | None
    """None where nothing was changed, or the graphs are not at hand."""
    changes: tuple[Change, ...]
    """The most frequent first; `MOST_DRAWN` at most."""
    others: tuple[str, ...]
    """The forms that are left, a line each."""
    elsewhere: tuple[LawCard, ...]
    """Rules that belong to none of these."""


def story_of(result: Result) -> Story:
    """Compares the graphs of a result; nothing to be told where it is the original."""
    try:
        if result.evidence is not None and result.rules:
            return story(compare(*result.evidence.graphs()), result.rules)
    except ModelError:  # files that held the weights are gone: the figures are still worth a report
        pass
    return Story(difference=None, changes=(), others=(), elsewhere=tuple(map(law_card, result.rules)))


def story(difference: Difference, rules: Sequence[RuleReport] = ()) -> Story:
    """The places of any difference, with the rules that replaced something there."""
    groups = difference.alike
    changes = tuple(_change(group, rules, difference) for group in groups[:MOST_DRAWN])
    placed = {card.name for change in changes for card in change.laws}
    return Story(
        difference=difference,
        changes=changes,
        others=tuple(_line(group) for group in groups[MOST_DRAWN : MOST_DRAWN + MOST_LISTED]),
        elsewhere=tuple(law_card(rule) for rule in rules if rule.name not in placed),
    )


def _change(group: Sequence[Region], rules: Sequence[RuleReport], difference: Difference) -> Change:
    first = group[0]
    values = {value for region in group for node in region.before.nodes for value in node.outputs}
    own = [rule for rule in rules if not values.isdisjoint(rule.places)]
    return Change(
        title=_title(first),
        region=first,
        count=len(group),
        places=listed([_name(region) for region in group], MOST_LISTED, _NAME),
        laws=tuple(map(law_card, own)),
        note=_note(first, difference),
    )


def _line(group: Sequence[Region]) -> str:
    return f"{_title(group[0])} ({len(group)}): {listed([_name(region) for region in group], 3, _NAME)}"


def _title(region: Region) -> str:
    return f"{operators_text(region.before.nodes)} → {operators_text(region.after.nodes)}"


def operators_text(nodes: Iterable[Operation]) -> str:
    """``4 Conv, Add``; ``nothing`` for no nodes."""
    counts = Counter(clipped(node.operator, _LABELS) for node in nodes)
    shown = [f"{count} {name}" if count > 1 else name for name, count in counts.most_common(_OPERATORS)]
    more = [f"{len(counts) - _OPERATORS} more kinds"] if len(counts) > _OPERATORS else []
    return ", ".join([*shown, *more]) or "nothing"


def _name(region: Region) -> str:
    """What a region is called: a value that it makes, as the original calls it."""
    made = region.before.outputs or region.after.outputs
    nodes = region.before.nodes or region.after.nodes
    return made[0] if made else nodes[0].name or nodes[0].operator


def _note(region: Region, difference: Difference) -> str:
    """Where both sides consist of the same operators a picture shows no difference."""
    one, two = (Counter(node.operator for node in piece.nodes) for piece in (region.before, region.after))
    if one != two:
        return ""
    if Counter(node.digest for node in region.before.nodes) != Counter(node.digest for node in region.after.nodes):
        return "The same operators with other attributes."
    if _weights(region.before, difference.before) != _weights(region.after, difference.after):
        return "The same operators with other weights."
    return "The same operators on other operands, or on the same in another order."


def _weights(piece: Piece, graph: Graph) -> Counter[bytes]:
    return Counter(graph.constants[v] for node in piece.nodes for v in node.reads if v in graph.constants)


def law_card(rule: RuleReport) -> LawCard:
    """A rule with its law as mathematics and its record; what cannot be read is left out."""
    mathematics, proof = tuple[str, ...](), tuple[tuple[str, str], ...]()
    try:
        law = parse_rule(rule.law) if rule.law else None
        if law is not None:
            mathematics, proof = (
                law_in_mathematics(law, backwards=rule.backwards),
                tuple(proof_lines(load_lock().record(law))),
            )
    except SuperoptError:
        pass
    return LawCard(
        name=clipped(named(rule), _NAME),
        status=rule.status,
        sites=rule.sites,
        gain="" if rule.gain is None else f"{rule.gain:.1%}",
        mathematics=mathematics if sum(map(len, mathematics)) <= _FORMULA else (),
        text=rule.law.rstrip()[:_LAW],
        proof=proof,
    )


def node_lines(piece: Piece, graph: Graph, most: int) -> list[str]:
    """A node a line, ``out = Operator(in, weights)``; how many more there are is said."""
    lines = [node_line(node, graph) for node in piece.nodes[:most]]
    more = len(piece.nodes) - most
    return lines + ([f"and {more} more nodes"] if more > 0 else [])


def node_line(node: Operation, graph: Graph) -> str:
    """``y = Conv(x, float32[8,3,3,3], strides=[2,2]) : float32[1,8,16,16]``; weights by their types."""
    operands = [_operand(value, graph) for value in node.inputs[:8]] + (["…"] if len(node.inputs) > 8 else [])
    stated = [f"{name}={clipped(text, _LABELS)}" for name, text in list(node.attributes.items())[:8]]
    made = ", ".join(clipped(value, _NAME) or "_" for value in node.outputs[:4])
    made += f" and {len(node.outputs) - 4} more" if len(node.outputs) > 4 else ""
    kind = graph.type_text(node.outputs[0]) if len(node.outputs) == 1 else ""
    label = clipped(node.operator, _LABELS)
    return f"{made} = {label}({', '.join([*operands, *stated])})" + (f" : {kind}" if kind else "")


def _operand(value: str, graph: Graph) -> str:
    if not value:
        return "_"
    return graph.constant_types.get(value) or clipped(value, _NAME)

"""One side of a changed region as boxes and lines; what is too large is drawn in part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from taso_py.difference.graph import Graph, Operation
from taso_py.difference.regions import Piece, Region
from taso_py.report.names import clipped
from taso_py.report.page.families import family
from taso_py.report.page.layout import placed

MOST_NODES = 40
"""Regions with more nodes on a side are drawn in part: such a picture is wider than a screen."""
_PART_NODES = 14
_MOST_AROUND = 6
_HEIGHT, _PITCH, _GAP, _MARGIN = 26.0, 50.0, 12.0, 8.0
_LETTER, _PADDING, _LONGEST_LABEL = 6.9, 18.0, 26
_NAME, _LINES = 70, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One node, or what stands for a graph's input, output, or for more that is not drawn; sizes in pixels."""

    kind: str
    """changed, near (unchanged neighbour) or end (no node)."""
    family: str
    label: str
    title: str
    x: float
    y: float
    width: float
    height: float = _HEIGHT

    @property
    def left(self) -> float:
        """Where it begins."""
        return self.x - self.width / 2

    @property
    def top(self) -> float:
        """Where it begins."""
        return self.y - self.height / 2


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph, laid out."""

    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    """Paths in SVG's notation."""
    width: float
    height: float
    shown: int
    """How many of the region's own nodes are drawn."""
    of: int


def drawings(region: Region, before: Graph, after: Graph) -> tuple[Drawing, Drawing]:
    """The region as it was and as it is; of a large one, what the first of its outputs need."""
    whole = max(len(region.before.nodes), len(region.after.nodes)) <= MOST_NODES
    chosen = None if whole else _first_outputs(region)
    one = None if chosen is None else [value for value, _ in chosen]
    two = None if chosen is None else [value for _, value in chosen]
    return _Sketch(region.before, before, one).drawing(), _Sketch(region.after, after, two).drawing()


def _first_outputs(region: Region) -> list[tuple[str, str]]:
    """As many outputs, at least one, as a picture has room for on both sides."""
    found: list[tuple[str, str]] = []
    pairs = region.ends or tuple(zip(region.before.outputs[:1], region.after.outputs[:1], strict=False))
    for pair in pairs:
        tried = [*found, pair]
        sizes = (
            len(_needed(piece, [p[side] for p in tried])) for side, piece in enumerate((region.before, region.after))
        )
        if found and max(sizes) > _PART_NODES:
            break
        found = tried
    return found


def _needed(piece: Piece, outputs: Iterable[str]) -> list[Operation]:
    """The nodes that outputs are computed by, the nearest `MOST_NODES` of them at most."""
    makers = {value: node for node in piece.nodes for value in node.outputs if value}
    front = [makers[value] for value in outputs if value in makers]
    found: dict[int, Operation] = {}
    for node in front:  # grows while it is walked
        if id(node) not in found and len(found) < MOST_NODES:
            found[id(node)] = node
            front.extend(makers[value] for value in node.reads if value in makers)
    return [node for node in piece.nodes if id(node) in found]


@dataclass(slots=True)
class _Sketch:
    piece: Piece
    graph: Graph
    outputs: Sequence[str] | None
    keys: dict[object, int] = field(default_factory=dict)
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Kind, family, label and title of each box."""
    edges: dict[tuple[int, int], None] = field(default_factory=dict)

    def drawing(self) -> Drawing:
        piece = self.piece
        nodes = list(piece.nodes) if self.outputs is None else _needed(piece, self.outputs)
        own = {id(node) for node in nodes}
        for node in nodes:
            self._node(node, "changed")
        makers = {value: node for node in piece.nodes for value in node.outputs if value}
        rest = 0
        for node in nodes:
            for value in dict.fromkeys(node.reads):
                maker = makers.get(value)
                if maker is not None and id(maker) in own:
                    self._edge(self._node(maker, "changed"), self._node(node, "changed"))
                elif maker is not None:
                    rest = self._more("more of this region")
                    self._edge(rest, self._node(node, "changed"))
        self._around(nodes)
        return self._laid_out(len(nodes))

    def _around(self, nodes: Sequence[Operation]) -> None:
        """One layer of what did not change."""
        readers: dict[str, list[int]] = {}
        for node in nodes:
            for value in dict.fromkeys(node.reads):
                readers.setdefault(value, []).append(self._node(node, "changed"))
        made = {v: self._node(node, "changed") for node in nodes for v in node.outputs if v}
        shown = [v for v in self.piece.outputs if v in made or not self.piece.nodes]
        targets = {value: self._below(value) for value in shown}
        read = [value for value in self.piece.inputs if value in readers or value in targets]
        sources = {value: self._above(value, k) for k, value in enumerate(read)}
        for value, source in sources.items():
            for target in (*readers.get(value, ()), *(targets.get(value, ()) if not self.piece.nodes else ())):
                self._edge(source, target)
        for value, below in targets.items():
            maker = made.get(value, sources.get(value))
            if maker is None:
                maker = self._box(("constant", value), "end", "weights", self._value_title(value))
            for target in below:
                self._edge(maker, target)

    def _above(self, value: str, count: int) -> int:
        if count >= _MOST_AROUND:
            return self._more("more inputs")
        maker = self.piece.makers.get(value)
        return (
            self._box(("input", value), "end", value, self._value_title(value)) if maker is None else self._node(maker)
        )

    def _below(self, value: str) -> list[int]:
        readers = self.piece.readers.get(value, ())
        found = [self._node(node) for node in readers[:_MOST_AROUND]]
        if len(readers) > _MOST_AROUND:
            found.append(self._box(("more", value), "end", f"{len(readers) - _MOST_AROUND} more", "not drawn"))
        if value in self.piece.results:
            found.append(self._box(("output", value), "end", value, self._value_title(value)))
        return found

    def _more(self, label: str) -> int:
        return self._box(("more", label), "end", label, "not drawn")

    def _node(self, node: Operation, kind: str = "near") -> int:
        if id(node) not in self.keys:
            label = clipped(node.operator, _LONGEST_LABEL)
            self.keys[id(node)] = len(self.rows)
            self.rows.append((kind, family(node.operator), label, node_title(node, self.graph)))
        return self.keys[id(node)]

    def _box(self, key: object, kind: str, label: str, title: str) -> int:
        if key not in self.keys:
            self.keys[key] = len(self.rows)
            self.rows.append((kind, "none", clipped(label, _LONGEST_LABEL), title))
        return self.keys[key]

    def _value_title(self, value: str) -> str:
        return f"{clipped(value, _NAME)}  {self.graph.type_text(value)}".rstrip()

    def _edge(self, source: int, target: int) -> None:
        if source != target:
            self.edges[source, target] = None

    def _laid_out(self, shown: int) -> Drawing:
        widths = [max(44.0, _LETTER * len(label) + _PADDING) for _, _, label, _ in self.rows]
        found = placed(widths, _without_circles(len(widths), list(self.edges)), gap=_GAP, pitch=_PITCH)
        boxes = tuple(
            Box(kind=kind, family=family_, label=label, title=title, x=x + _MARGIN, y=y, width=width)
            for (kind, family_, label, title), (x, y), width in zip(self.rows, found.centres, widths, strict=True)
        )
        lines = tuple(_path([(x + _MARGIN, y) for x, y in way]) for way in found.ways)
        width, height = found.width + 2 * _MARGIN, max(found.height, _PITCH)
        return Drawing(boxes, lines, round(width, 1), height, shown, len(self.piece.nodes))


def _without_circles(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Boxes that stand for several things can close a circle; edges that would are left out."""
    below: Mapping[int, list[int]] = {k: [] for k in range(count)}
    kept = []
    for source, target in edges:
        seen, front = {target}, [target]
        while front and source not in seen:
            reached = [n for n in below[front.pop()] if n not in seen]
            seen.update(reached)
            front.extend(reached)
        if source not in seen:
            below[source].append(target)
            kept.append((source, target))
    return kept


def _path(points: Sequence[tuple[float, float]]) -> str:
    """From the lower side of a box to the upper side of another, bending between layers."""
    (x, y), half = points[0], _HEIGHT / 2
    parts, at = [f"M{x:.1f} {y + half:.1f}"], y + half
    for k, (x, y) in enumerate(points[1:], start=1):
        end = y - half if k == len(points) - 1 else y
        previous = points[k - 1][0]
        middle = (at + end) / 2
        parts.append(f"C{previous:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {end:.1f}")
        at = end
    return "".join(parts)


def node_title(node: Operation, graph: Graph) -> str:
    """What a node is called, and the values that it reads and makes with their types."""
    head = f"{node.operator}  {clipped(node.name, _NAME)}".rstrip()
    attributes = [f"{name} = {clipped(text, _NAME)}" for name, text in node.attributes.items()]
    values = [("in", value) for value in node.reads if value] + [("out", value) for value in node.outputs if value]
    lines = [f"{way}: {clipped(value, _NAME)}  {graph.type_text(value)}".rstrip() for way, value in values]
    more = len(attributes) + len(lines) - _LINES
    shown = [*attributes, *lines][:_LINES]
    return "\n".join([head, *shown, *([f"and {more} more"] if more > 0 else [])])

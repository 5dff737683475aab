"""Layered drawing of a small graph that runs downwards (Sugiyama, Tagawa and Toda): layers, order, places.

A layer is the longest way from a source; an edge that crosses layers gets a place in each of them; the order within
layers comes from sweeps by the mean of the neighbours; places are as near to the neighbours as the widths allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 8
_BEND_WIDTH = 6.0
"""Room for an edge that passes through a layer."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Centres of the boxes, ways of the edges, and the size of it all, in the unit of the widths."""

    centres: tuple[tuple[float, float], ...]
    ways: tuple[tuple[tuple[float, float], ...], ...]
    """For each edge its points from centre to centre, downwards."""
    width: float
    height: float


def placed(widths: Sequence[float], edges: Sequence[tuple[int, int]], *, gap: float, pitch: float) -> Placed:
    """Boxes by index with these widths; ``edges`` lead from box to box and form no circle.

    ``gap`` lies between boxes of a layer, ``pitch`` between the centres of two layers.
    """
    layers = _layers(len(widths), edges)
    chains = _Chains(list(widths), layers)
    ways = [chains.way(*edge) for edge in edges]
    rows = _ordered(chains)
    places = _settled(chains, rows, gap)
    left = min((places[k] - chains.widths[k] / 2 for k in range(len(chains.widths))), default=0.0)
    right = max((places[k] + chains.widths[k] / 2 for k in range(len(chains.widths))), default=0.0)

    def point(k: int) -> tuple[float, float]:
        return places[k] - left, (chains.layers[k] + 0.5) * pitch

    return Placed(
        tuple(point(k) for k in range(len(widths))),
        tuple(tuple(point(k) for k in way) for way in ways),
        right - left,
        pitch * (1 + max(chains.layers, default=-1)),
    )


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest way from a source; a source stands right above the first that reads it."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    layers, left = [0] * count, [len(found) for found in above]
    waiting = [k for k in range(count) if not above[k]]
    for k in waiting:  # grows while it is walked
        for target in below[k]:
            layers[target] = max(layers[target], layers[k] + 1)
            left[target] -= 1
            if not left[target]:
                waiting.append(target)
    for k in range(count):
        if not above[k] and below[k]:
            layers[k] = min(layers[target] for target in below[k]) - 1
    return layers


class _Chains:
    """Boxes, and bends where edges pass through layers; neighbours are in adjacent layers."""

    def __init__(self, widths: list[float], layers: list[int]) -> None:
        self.widths, self.layers = widths, layers
        self.above: list[list[int]] = [[] for _ in widths]
        self.below: list[list[int]] = [[] for _ in widths]

    def way(self, source: int, target: int) -> list[int]:
        """The edge's ends and its bends, which are made here."""
        found = [source]
        for layer in range(self.layers[source] + 1, self.layers[target]):
            found.append(len(self.widths))
            self.widths.append(_BEND_WIDTH)
            self.layers.append(layer)
            self.above.append([])
            self.below.append([])
        found.append(target)
        for one, other in pairwise(found):
            self.below[one].append(other)
            self.above[other].append(one)
        return found


def _ordered(chains: _Chains) -> list[list[int]]:
    """The boxes and bends of each layer, from left to right, with few crossings."""
    rows: list[list[int]] = [[] for _ in range(1 + max(chains.layers, default=-1))]
    for k, layer in enumerate(chains.layers):
        rows[layer].append(k)
    best, fewest = [list(row) for row in rows], _crossings(chains, rows)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = chains.above if down else chains.below
        for layer in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            seats = {k: seat for seat, k in enumerate(rows[layer - 1 if down else layer + 1])}
            own = {k: float(seat) for seat, k in enumerate(rows[layer])}
            means = {k: _mean([float(seats[n]) for n in neighbours[k]], own[k]) for k in rows[layer]}
            rows[layer].sort(key=means.__getitem__)
        if (count := _crossings(chains, rows)) < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def _crossings(chains: _Chains, rows: Sequence[Sequence[int]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        seats = {k: seat for seat, k in enumerate(lower)}
        ends = [sorted(seats[n] for n in chains.below[k]) for k in upper]
        flat = [seat for seats_ in ends for seat in seats_]
        count += sum(one > other for i, one in enumerate(flat) for other in flat[i + 1 :])
    return count


def _settled(chains: _Chains, rows: Sequence[Sequence[int]], gap: float) -> dict[int, float]:
    places: dict[int, float] = {}
    for row in rows:
        places.update(_apart(row, dict.fromkeys(row, 0.0), chains.widths, gap))
    for sweep in range(2 * _SWEEPS):
        down = sweep % 2 == 0
        neighbours = chains.above if down else chains.below
        for row in rows if down else reversed(rows):
            wished = {k: _mean([places[n] for n in neighbours[k]], places[k]) for k in row}
            places.update(_apart(row, wished, chains.widths, gap))
    return places


def _apart(row: Sequence[int], wished: Mapping[int, float], widths: Sequence[float], gap: float) -> dict[int, float]:
    """Nearest to what is wished (least squares) with a gap between neighbours: pools of boxes that touch."""
    offsets, at = [], 0.0
    for seat, k in enumerate(row):
        at += 0.0 if seat == 0 else (widths[row[seat - 1]] + widths[k]) / 2 + gap
        offsets.append(at)
    pools: list[tuple[float, int]] = []  # mean and size
    for k, offset in zip(row, offsets, strict=True):
        mean, size = wished[k] - offset, 1
        while pools and pools[-1][0] > mean:
            other, more = pools.pop()
            mean, size = (mean * size + other * more) / (size + more), size + more
        pools.append((mean, size))
    starts = [mean for mean, size in pools for _ in range(size)]
    return {k: start + offset for k, start, offset in zip(row, starts, offsets, strict=True)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise

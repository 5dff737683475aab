"""Other sizes and values for inputs that a model does not run with, the likely ones first.

What does not fit is known from numbers: those that ONNX Runtime names, and the sizes of what the failing node reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice, pairwise, permutations
from typing import TypeAlias

Values: TypeAlias = tuple[float, ...]

MOST = 96
"""Proposals for one input, or one symbol."""
_ANYWHERE = (1, 2, 0, -1, 3, 4, 8)
_SIZES = (2, 4, 8, 16, 32, 64, 3, 5, 6, 7, 10, 12, 14, 20, 24, 28, 48, 56, 77, 96, 128, 224, 256, 512, 768, 1024, 1)
_LARGEST = 8192
"""Sizes above this take too long to be tried."""
LONGEST = 12
"""Longer inputs are proposed as a whole only."""


def other_sizes(now: int, hints: Sequence[int], others: Sequence[int]) -> list[int]:
    """For a symbol of size ``now``; ``others`` are the sizes of other symbols, which it may be the sum of.

    A size of 1 fits nearly everywhere and shows little, so it comes last.
    """
    sums = [a + b for a, b in combinations(others, 2)]
    found = [*hints, *_moved(now, hints), *others, *sums, *_SIZES, *(abs(a - b) for a, b in combinations(others, 2))]
    return _ordered(now, found)


def scaled(now: int, shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """What ``now`` becomes where one of two shapes that were said should have as many elements as the other."""
    counts = [math.prod(shape) for shape in shapes]
    return [now * b // a for a, b in permutations(counts, 2) if 0 < a != b > 0 and now * b % a == 0]


def common_sizes(now: int, count: int, hints: Sequence[int]) -> list[int]:
    """For several symbols of size ``now`` at once: a size, a part of a sum, or a side of an area."""
    found: list[float] = [*hints, *(h // count for h in hints if h % count == 0), *_moved(now, hints)]
    for a, b in permutations(hints[:8], 2):
        if a > 0 and b > 0:
            side = math.floor(now * math.sqrt(a / b))
            found += range(side, side + 9)
    return _ordered(now, [*found, *_SIZES, *range(2, 40)])


def other_shapes(hints: Sequence[int]) -> list[tuple[int, ...]]:
    """For an input whose rank nobody states."""
    known = [*(h for h in hints if h > 1), 8, 128]
    several = [*permutations(known[:5], 2), *((1, a, b) for a, b in permutations(known[:3], 2))]
    return list(dict.fromkeys([(), *((k,) for k in known), *((1, k) for k in known), *several, (1, 3, 224, 224)]))[
        :MOST
    ]


def _ordered(now: int, found: Iterable[float]) -> list[int]:
    whole = [n for n in dict.fromkeys(int(f) for f in found) if 0 < n <= _LARGEST and n != now][:MOST]
    return sorted(whole, key=lambda n: n == 1)


def other_values(kind: str, now: Values, data: tuple[int, ...] | None, hints: Sequence[int]) -> list[Values]:
    """For an input that a node takes for what ``kind`` says, with the shape of what is read beside it."""
    count = len(now)
    special = _SPECIAL.get(kind)
    found: list[Iterable[Values]] = []
    if special is not None and count <= LONGEST:
        found.append(islice(special(count, data, hints), MOST // 2))
    if count <= LONGEST:
        found.append(_one_changed(now, hints))
    numbers = dict.fromkeys((*hints, *_ANYWHERE))
    found.append((float(n),) * count for n in numbers)
    found.append([tuple(map(float, range(count))), tuple(map(float, reversed(range(count))))])
    proposals = dict.fromkeys(v for several in found for v in several)
    return [v for v in proposals if v != now][:MOST]


def _moved(now: float, hints: Sequence[int]) -> Iterator[float]:
    """What ``now`` becomes where one of two numbers should be the other: by a factor, or by a difference."""
    for a, b in permutations(hints[:6], 2):
        if b and (now * a) % b == 0:
            yield now * a / b
        if now + a - b >= 0:
            yield now + a - b


def _one_changed(now: Values, hints: Sequence[int]) -> Iterator[Values]:
    for place in reversed(range(len(now))):
        for number in dict.fromkeys((*_moved(now[place], hints), *hints[:8], *_ANYWHERE)):
            yield (*now[:place], float(number), *now[place + 1 :])


def _shapes(count: int, data: tuple[int, ...] | None, hints: Sequence[int]) -> Iterator[Values]:
    """Of as many elements as the operand: its axes joined, or a known size and the rest."""
    if data is not None:
        yield from _joined(data, count)
    for size in dict.fromkeys((*hints, *(data or ()))):
        for place, rest in permutations(range(count), 2):
            if size > 0:
                yield tuple(float({place: size, rest: -1}.get(k, 1)) for k in range(count))
    if count > 2:
        for a, b in permutations([h for h in hints if h > 0][:5], 2):
            for rest in range(count):
                places = [k for k in range(count) if k != rest][-2:]
                yield tuple(float({places[0]: a, places[1]: b, rest: -1}.get(k, 1)) for k in range(count))


def _joined(data: tuple[int, ...], count: int) -> Iterator[Values]:
    """Runs of axes as one axis each; with axes of size 1 before them where that gives too few."""
    groups = min(count, len(data))
    if not groups:
        yield (1.0,) * count
        return
    for cuts in combinations(range(1, len(data)), groups - 1):
        ends = (0, *cuts, len(data))
        sizes = [math.prod(data[a:b]) for a, b in pairwise(ends)]
        for before in range(count - groups + 1):
            yield tuple(map(float, [1] * before + sizes + [1] * (count - groups - before)))


def _all_of(count: int, data: tuple[int, ...] | None, hints: Sequence[int]) -> Iterator[Values]:
    """Sizes to broadcast to or to fill: any that are known, in any order."""
    if data is not None and len(data) <= count:
        yield tuple(map(float, (*[1] * (count - len(data)), *data)))
    known = [h for h in hints if h > 0][:5]
    for several in (*permutations(known, count), *((k,) * count for k in known)):
        yield tuple(map(float, several))


def _parts(count: int, data: tuple[int, ...] | None, hints: Sequence[int]) -> Iterator[Values]:
    """Parts that add up to a known size: one large, the others 1."""
    for size in dict.fromkeys((*hints, *(data or ()))):
        if size >= count:
            equal = [size // count] * (count - 1)
            yield tuple(map(float, [*equal, size - sum(equal)]))
            for place in range(count):
                yield tuple(float(size - count + 1 if k == place else 1) for k in range(count))
    for one, size in permutations([h for h in dict.fromkeys((*hints, *(data or ()))) if h > 0][:8], 2):
        for place, rest in permutations(range(count), 2):
            if size - one >= count - 1:
                yield tuple(float({place: one, rest: size - one - count + 2}.get(k, 1)) for k in range(count))


_SPECIAL: dict[str, Callable[[int, tuple[int, ...] | None, Sequence[int]], Iterator[Values]]] = {
    "reshape": _shapes,
    "expand": _all_of,
    "shape": _all_of,
    "same shape": _all_of,
    "sizes": _all_of,
    "split": _parts,
    "sequence split": _parts,
}

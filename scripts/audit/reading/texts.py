"""Mutations of bytes, of text made of tokens, and of JSON."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

_TOKEN = re.compile(r"\s+|\w+|[^\w\s]")
ODD_TEXTS = (
    *(
        "",
        "\0",
        "\n",
        "\t",
        "é",
        "\u202e",
        "\U0001f600",
        "\ud800",
        "\x1b[31m",
        "'",
        '"',
        "\\",
        "#",
        "%s",
        "{}",
        "..",
        "/",
    ),
    *("0", "-1", "1e999", "9" * 30, "9" * 5000, "1_0", "٣", "nan", "inf", "true", "null", "(" * 3000, "[" * 3000),
    *("x" * 3000, "rule", "=>", "let", "for", "where", "choose", "*s", "1/0", "a-", "//", "**", "0x10", "1.", ".5"),
)
ODD_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**63,
        -(2**63),
        10**30,
        10**400,
        0.5,
        -0.0,
        1e308,
        float("inf"),
        float("nan"),
    ),
    *("", "x", "\0", "a\nb", "\ud800", "9" * 5000, [], {}, [[]], {"": {}}, [None], ["x"] * 50),
)


def broken_bytes(data: bytes, random: Random) -> bytes:
    """One to four of: a byte or bit changed, a piece cut out, repeated or moved, an end cut off, bytes put in."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(found) + 1)
        end = min(len(found), at + random.choice((1, 1, 2, 4, 8, 30, 200)))
        match random.randrange(6):
            case 0 if at < len(found):
                found[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
            case 1 if at < len(found):
                found[at] ^= 1 << random.randrange(8)
            case 2:
                del found[at:end]
            case 3:
                found[at:at] = found[at:end] * random.choice((1, 1, 20))
            case 4:
                del found[at:]
            case _:
                found[at:at] = random.randbytes(random.choice((1, 2, 4, 9)))
    return bytes(found)


def broken_text(text: str, random: Random, others: Sequence[str] = ()) -> str:
    """One to four tokens replaced, removed, repeated or exchanged; pieces of ``others`` are put in."""
    tokens = _TOKEN.findall(text)
    for _ in range(random.choice((1, 1, 2, 4))):
        at, other = random.randrange(len(tokens) + 1), random.randrange(len(tokens) + 1)
        first, last = min(at, other), min(max(at, other), min(at, other) + 30)
        match random.randrange(7):
            case 0:
                tokens[at : at + 1] = [random.choice(ODD_TEXTS)]
            case 1 if tokens:
                tokens[at : at + 1] = [random.choice(tokens)]
            case 2:
                del tokens[at : at + random.choice((1, 1, 3))]
            case 3:
                tokens[at:at] = tokens[first:last] * random.choice((1, 1, 2, 40))
            case 4 if max(at, other) < len(tokens):
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 5 if others:
                found = _TOKEN.findall(random.choice(others))
                start = random.randrange(len(found) + 1)
                tokens[at:at] = found[start : start + random.choice((1, 2, 10, 50))]
            case _:
                tokens.insert(at, random.choice((str(random.randrange(20)), *ODD_TEXTS)))
    return "".join(tokens)


def mutated_text(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """Text of which tokens are changed; sometimes bytes."""
    if random.random() < 0.1:
        return broken_bytes(data, random)
    texts = [other.decode("utf-8", "replace") for other in others]
    return broken_text(data.decode("utf-8", "replace"), random, texts).encode("utf-8", "surrogatepass")


def mutated_json(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """JSON of which one to four values are changed, removed, repeated or moved; sometimes text or bytes."""
    if random.random() < 0.15:
        return mutated_text(data, random, others)
    try:
        root = [json.loads(data)]
    except (ValueError, RecursionError):
        return mutated_text(data, random, others)
    for _ in range(random.choice((1, 1, 2, 4))):
        _change(root, random)
    return written(root[0])


def written(value: Any) -> bytes:
    """JSON as Python writes it, with whole numbers of any length."""
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")


def _change(root: list[Any], random: Random) -> None:
    places = list(_places(root))
    holder, key = random.choice(places)
    match random.randrange(6):
        case 0 | 1:
            holder[key] = copy.deepcopy(random.choice(ODD_VALUES))
        case 2 if holder is not root:
            del holder[key]
        case 3 if isinstance(holder, dict):
            holder[random.choice((*ODD_TEXTS[:10], key * 2))] = holder[key]
        case 3 if isinstance(holder, list) and holder is not root:
            holder.insert(key, copy.deepcopy(holder[key]))
        case 4 if isinstance(holder[key], str):
            holder[key] = broken_text(holder[key], random)
        case _:
            source, name = random.choice(places)
            if name in source or (isinstance(source, list) and name < len(source)):
                holder[key] = copy.deepcopy(source[name])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])

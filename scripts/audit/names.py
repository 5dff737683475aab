"""Judge the rules under other names and other hash seeds: a verdict and what it claims must not depend on either.

    python -m scripts.audit.names                       every law of rules/, by the whole judgement; takes long
    python -m scripts.audit.names --sample 20 --seed 3
    python -m scripts.audit.names rules/refuted.rules --judge taso_py.prove.prover:prove

Each law is judged as it stands, and once in every style of names, each time by a process with a hash seed of its own.
The names are taken from the sources: whatever the prover compares a text with, someone may call a tensor.  Exits with
1 when a verdict or a claim differs.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import os
import random
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import click

from taso_py.ops import OPERATORS
from taso_py.prove.trials.runs import Replay
from taso_py.prove.verdict import Refuted, Unknown
from taso_py.prove.verify import Judgement, record
from taso_py.rules.alpha import Naming, names_of, normal_text, renamed, with_names
from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.rules.sources import TRUSTED

ROOT = Path(__file__).resolve().parents[2]
LOST = "lost"
JUDGE = "taso_py.prove.verify:judge"
Ask: TypeAlias = Callable[[Sequence[Rule], int], list[dict[str, Any]]]
"""The claims about laws under a hash seed."""
_KEYWORDS = frozenset({"let", "in", "for", "when", "choose", "rule", "rank", "inf"})
_NAME = re.compile(r"(?<![A-Za-z0-9_])[a-z][A-Za-z0-9_]*")
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[^A-Za-z_]+")
_CHUNK = 40
"""Laws that one process judges."""


# ---- names -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def literals() -> tuple[str, ...]:
    """Every text in the trusted sources that is no docstring; ``{`` stands where an f-string has a value."""
    found: dict[str, None] = {}
    for folder in TRUSTED:
        for path in sorted((ROOT / "taso_py" / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                    found[node.value] = None
                if isinstance(node, ast.JoinedStr):
                    parts = (v.value if isinstance(v, ast.Constant) else "{" for v in node.values)
                    found["".join(map(str, parts))] = None
    return tuple(found)


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(t for t in texts if _NAME.fullmatch(t) and t not in _KEYWORDS))


@lru_cache(maxsize=1)
def vocabularies() -> Mapping[str, tuple[str, ...]]:
    """Names by style: heads and functions, operators and attributes, words of messages, names that are made."""
    operators = [n for name in OPERATORS for n in (name.lower(), name[0].lower() + name[1:])]
    attributes = [f.name for operator in OPERATORS.values() for f in dataclasses.fields(operator)]
    made = [t.partition("{")[0] + str(k) for t in literals() if "{" in t for k in range(10)]
    normal = [f"{letter}{k}" for letter in "zyxslnjie" for k in (11, 10, 9, 2, 1, 0)]
    return {
        "heads": _names(literals()),
        "operators": _names([*operators, *attributes]),
        "messages": _names(word for text in literals() for word in _NAME.findall(text)),
        "made": _names([*normal, *made]),
    }


@dataclass(frozen=True, slots=True)
class Variant:
    """A law under other names; ``names`` are those that each of its names may have become."""

    rule: Rule
    style: str
    names: Mapping[str, frozenset[str]]


def variants(rule: Rule) -> Iterator[Variant]:
    """The law in every style, and once with one name for a tensor, a size and a block; the same ones every time."""
    random_ = random.Random(zlib.crc32(normal_text(rule).encode()))
    names = names_of(rule).all()
    for style, words in vocabularies().items():
        chosen = dict(zip(names, random_.sample(words, len(names)), strict=True))
        word = re.sub(r"[^a-z0-9]", "", random_.choice(words).lower())
        new = renamed(rule, chosen, f"{word}-reversed" if style != "made" else "law")
        yield Variant(new, style, {old: frozenset({chosen[old]}) for old in names})
    yield shared(rule, random_)


def shared(rule: Rule, random_: random.Random) -> Variant:
    """The law with the same names for its tensors, its sizes and its blocks, and in both sides' local names."""
    names = names_of(rule)
    local = max(len(names.left), len(names.right))
    most = max(len(names.tensors) + local, len(names.sizes), len(names.blocks))
    words = random_.sample(vocabularies()["heads"], most)
    sorts = [names.tensors, names.left, names.right, names.sizes, names.blocks]
    starts = [0, len(names.tensors), len(names.tensors), 0, 0]
    maps = [dict(zip(sort, words[k:], strict=False)) for sort, k in zip(sorts, starts, strict=True)]
    became: dict[str, frozenset[str]] = {}
    for given in maps:
        for old, new in given.items():
            became[old] = became.get(old, frozenset()) | {new}
    return Variant(with_names(rule, Naming(*maps), "reversed"), "shared", became)


# ---- claims ----------------------------------------------------------------------------------------------------------


def claim(found: object) -> dict[str, Any]:
    """What a judgement claims, as JSON has it; of what is not proved, that it is not."""
    if isinstance(found, Judgement):
        found = record(found)
        told = found.claim if found.verdict == "proved" else {"verdict": found.verdict, "vacuous": found.vacuous}
    elif isinstance(found, Unknown | Refuted) or not dataclasses.is_dataclass(found):
        told = {"verdict": type(found).__name__}
    else:
        told = {"verdict": type(found).__name__, **dataclasses.asdict(found)}
    return json.loads(json.dumps(told, default=_plain))


def _plain(value: object) -> Any:
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def alike(one: Any, other: Any, names: Mapping[str, frozenset[str]]) -> bool:
    """Whether two claims are the same but for names; the order of lists may come from names."""
    if isinstance(one, str) and isinstance(other, str):
        here, there = _TOKEN.findall(one), _TOKEN.findall(other)
        same = (a == b or b in names.get(a, ()) for a, b in zip(here, there, strict=False))
        return len(here) == len(there) and all(same)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return alike([[k, v] for k, v in one.items()], [[k, v] for k, v in other.items()], names)
    if isinstance(one, list) and isinstance(other, list):
        rest = list(other)
        for item in one:
            place = next((k for k, r in enumerate(rest) if alike(item, r, names)), None)
            if place is None:
                return False
            del rest[place]
        return not rest
    return type(one) is type(other) and one == other


def differing(one: Mapping[str, Any], other: Mapping[str, Any], names: Mapping[str, frozenset[str]]) -> list[str]:
    """The parts of two claims that are not alike; the verdict alone where that is."""
    if one["verdict"] != other["verdict"]:
        return ["verdict"]
    keys = dict.fromkeys([*one, *other])
    return [key for key in keys if key not in one or key not in other or not alike(one[key], other[key], names)]


# ---- judging ---------------------------------------------------------------------------------------------------------


def work(judge: str) -> None:
    """What a process does: rules come in as lines of JSON, their claims go out."""
    module, _, name = judge.partition(":")
    function: Callable[..., object] = getattr(importlib.import_module(module), name)
    with ExitStack() as stack:
        shared_worker = "replay" in inspect.signature(function).parameters
        more = {"replay": stack.enter_context(Replay())} if shared_worker else {}
        for line in sys.stdin:
            task = json.loads(line)
            rule = dataclasses.replace(parse_rule(task["text"]), file=task["file"], line=task["line"])
            print(json.dumps(_claimed(function, rule, more)), flush=True)


def _claimed(function: Callable[..., object], rule: Rule, more: Mapping[str, object]) -> dict[str, Any]:
    try:
        return claim(function(rule, **more))
    except Exception as error:  # noqa: BLE001  a judge that fails under some names only is what is looked for
        return {"verdict": f"raised {type(error).__name__}"}


def claims(judge: str, rules: Sequence[Rule], hash_seed: int) -> list[dict[str, Any]]:
    """The claims of one process about these rules; what it did not get to has the verdict `LOST`."""
    tasks = [json.dumps({"text": r.text(), "file": r.file, "line": r.line}) for r in rules]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "scripts.audit.names", "--worker", "--judge", judge],
        input="\n".join(tasks), stdout=subprocess.PIPE, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(hash_seed)},
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [*found, *({"verdict": LOST} for _ in range(len(rules) - len(found)))]


@dataclass(frozen=True, slots=True)
class Finding:
    """A law whose claim differs in ``parts``; ``by_names``: the law as it stands claims otherwise under that seed."""

    law: Rule
    variant: Variant
    hash_seed: int
    parts: tuple[str, ...]
    claims: tuple[Mapping[str, Any], Mapping[str, Any]]
    by_names: bool

    def text(self) -> str:
        """Several lines: what differs, on both sides, and the law as it was renamed."""
        cause = "names" if self.by_names else "hash seed"
        place = f"{Path(self.law.file).name}:{self.law.line} {self.law.name}"
        lines = [f"{place}: {', '.join(self.parts)} ({cause}; style {self.variant.style}, hash seed {self.hash_seed})"]
        lines += [f"  {json.dumps({p: c.get(p) for p in self.parts})}" for c in self.claims]
        return "\n".join([*lines, self.variant.rule.text()])


def audit(laws: Sequence[Rule], ask: Ask, jobs: int) -> list[Finding]:
    """The laws whose claims depend on names or on the hash seed."""
    columns = [list(column) for column in zip(*(variants(law) for law in laws), strict=True)]
    here, *others = answers([list(laws), *([v.rule for v in column] for column in columns)], ask, jobs)
    found: list[Finding] = []
    for seed, (column, there) in enumerate(zip(columns, others, strict=True), start=1):
        compared = [differing(a, b, v.names) for a, b, v in zip(here, there, column, strict=True)]
        places = [k for k, parts in enumerate(compared) if parts or here[k]["verdict"] == LOST]
        again = ask([laws[k] for k in places], seed) if places else []
        for k, repeated in zip(places, again, strict=True):
            by_names = not differing(here[k], repeated, {})
            parts = tuple(compared[k]) or (LOST,)
            found.append(Finding(laws[k], column[k], seed, parts, (here[k], there[k]), by_names))
    return found


def answers(columns: Sequence[Sequence[Rule]], ask: Ask, jobs: int) -> list[list[dict[str, Any]]]:
    """The claims about columns of laws, the first under hash seed 0, the second under 1, and so on."""
    with ThreadPoolExecutor(jobs) as pool:
        asked = [
            [pool.submit(ask, rules[k : k + _CHUNK], seed) for k in range(0, len(rules), _CHUNK)]
            for seed, rules in enumerate(columns)
        ]
        return [[answer for part in parts for answer in part.result()] for parts in asked]


@click.command(help=__doc__)
@click.argument("files", type=click.Path(path_type=Path, exists=True), nargs=-1)
@click.option("--only", multiple=True, help="Only this law; may be given more than once.")
@click.option("--sample", type=int, help="So many of the laws, drawn at random.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the sample.")
@click.option("--judge", default=JUDGE, show_default=True, help="The judgement as module:function.")
@click.option("--jobs", type=int, default=2, show_default=True, help="Processes at a time.")
@click.option("--worker", is_flag=True, hidden=True)
def main(
    *,
    files: tuple[Path, ...],
    only: tuple[str, ...],
    sample: int | None,
    seed: int,
    judge: str,
    jobs: int,
    worker: bool,
) -> None:
    """The command line."""
    if worker:
        work(judge)
        return
    paths = files or sorted(rules_directory().glob("*.rules"))
    laws = [law for path in paths for law in load_file(path) if not only or law.name in only]
    if sample is not None and sample < len(laws):
        laws = random.Random(seed).sample(laws, sample)
    if not laws:
        raise click.UsageError("no law has such a name")
    found = audit(laws, partial(claims, judge), jobs)
    for finding in found:
        click.echo(finding.text())
    click.echo(f"{len(laws)} laws, {len(vocabularies()) + 1} renamings each: {len(found)} differ")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

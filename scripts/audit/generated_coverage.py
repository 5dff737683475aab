"""How many random graphs the rules of `superopt generate` turn into the representative of their class.

    python -m scripts.audit.generated_coverage generated.rules --set taso --max-operators 3 --graphs 10000

Graphs are drawn uniformly from all sequences of applications that are used in the end, nothing deduplicated. A graph's
representative is the cheapest graph of the same value that the enumeration met.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np

from taso_py.generate.kept.derive import Rewriting, Rules, met
from taso_py.generate.kept.explain import Nodes
from taso_py.generate.laws.pairs import CONSTANT, VARIABLE, Terms, Tree, leaves, replaced
from taso_py.generate.tasks import Space, Start, grown
from taso_py.generate.terms.atoms import Source
from taso_py.generate.terms.enumeration import Key, accepted
from taso_py.generate.terms.field import fingerprints
from taso_py.generate.terms.last_level import last_parts
from taso_py.generate.terms.representatives import Representative
from taso_py.graph.types import TensorType
from taso_py.rules.library import load_file


@dataclass(slots=True)
class Graphs:
    """Random graphs over a template set."""

    terms: Terms
    random: random.Random
    most: int
    kinds: dict[tuple[int, tuple[Key, ...]], Key | None] = field(default_factory=dict)
    widest: list[int] = field(default_factory=list)

    def draw(self) -> Tree:
        """One graph, all equally likely: a step with few options is taken back more often."""
        values = self.terms.table.values
        chosen = [k for k, v in enumerate(values) if v.template < 0 and self._source(v).kind != "parameter"]
        sources = [(self.terms.tree(k), values[k].weight) for k in chosen]
        while True:
            values, used, count = list(sources), set[Tree](), self.random.randint(1, self.most)
            for step in range(count):
                options = self._options(values)
                total = sum(options.values())
                if self.random.random() * self._most(step, total) >= total:
                    break
                tree, weight = self._application(options, values)
                used.update(tree[1:])
                values.append((tree, weight))
            else:
                made = [tree for tree, _ in values[len(sources) :]]
                if len(set(made)) == count and all(tree in used for tree in made[:-1]):
                    return made[-1]

    def _most(self, step: int, total: int) -> int:
        """The most options that this step has had; it settles within the first graphs."""
        while len(self.widest) <= step:
            self.widest.append(0)
        self.widest[step] = max(self.widest[step], total)
        return self.widest[step]

    def _options(self, values: Sequence[tuple[Tree, bool]]) -> Counter[tuple[int, tuple[Key, ...]]]:
        """How many applications there are, by template and kinds of operands."""
        counts = Counter((self.terms.type(tree), weight) for tree, weight in values)
        found: Counter[tuple[int, tuple[Key, ...]]] = Counter()
        for t, template in enumerate(self.terms.chosen.templates):
            for a in counts:
                if template.arity == 1:
                    if self.result(t, (a,)) is not None:
                        found[t, (a,)] = counts[a]
                    continue
                for b in counts:
                    if self.result(t, (a, b)) is not None:
                        found[t, (a, b)] = counts[a] * counts[b]
        return found

    def result(self, template: int, keys: tuple[Key, ...]) -> Key | None:
        """The kind of a template's result; None where it does not apply."""
        if (template, keys) not in self.kinds:
            kernels = accepted(self.terms.chosen, self.terms.chosen.templates[template], keys)
            self.kinds[template, keys] = (kernels[-1].result, all(w for _, w in keys)) if kernels else None
        return self.kinds[template, keys]

    def _application(
        self, options: Counter[tuple[int, tuple[Key, ...]]], values: Sequence[tuple[Tree, bool]]
    ) -> tuple[Tree, bool]:
        ((template, keys),) = self.random.choices(list(options), list(options.values()))
        of = {key: [tree for tree, weight in values if (self.terms.type(tree), weight) == key] for key in keys}
        result = self.result(template, keys)
        assert result is not None
        given = [self.terms.tree(k) for k in self.terms.chosen.given(self.terms.chosen.templates[template])]
        return (template, *(self.random.choice(of[key]) for key in keys), *given), result[1]

    def _source(self, value: Representative) -> Source:
        return self.terms.chosen.sources[value.arguments[0]]


@dataclass(slots=True)
class Classes:
    """The representative of each value."""

    space: Space
    terms: Terms = field(init=False)
    last: dict[tuple[TensorType, int], Tree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.terms = Terms(grown(Start(self.space)))
        for shard in last_parts(self.terms.table, self.space.most):
            _, prints, _ = self.terms.table.evaluate(shard)
            type_ = self.terms.table.kernels(shard)[-1].result
            for row, found in enumerate(prints):
                arguments = tuple(int(o[row]) for o in shard.operands)
                self.last.setdefault((type_, int(found)), self.terms.application(shard.template, arguments))

    def renamed(self, tree: Tree) -> Tree:
        """The graph over the first inputs of each family, as the enumeration's last level has them."""
        used = sorted({leaf for leaf in leaves(tree) if leaf[0] == VARIABLE}, key=lambda leaf: int(leaf[2]))
        for family in self.terms.table.families:
            mine = [leaf for leaf in used if leaf[2] in family]
            for leaf, number in zip(mine, family, strict=False):
                tree = replaced(tree, leaf, (VARIABLE, leaf[1], number))
        return self.folded(tree)

    def folded(self, tree: Tree) -> Tree:
        """The graph with what is computed from constants alone as its representative: it is folded, not rewritten."""
        if tree[0] in (VARIABLE, CONSTANT):
            return tree
        if all(leaf[0] == CONSTANT for leaf in leaves(tree)):
            return self.representative(tree) or tree
        return (tree[0], *map(self.folded, tree[1:]))

    def representative(self, tree: Tree) -> Tree | None:
        """The representative; None where only a renaming of the graph was enumerated."""
        table = self.terms.table
        values, exact = self.terms.evaluated(tree)
        found = int(fingerprints(values[None].astype(np.int64), exact=exact)[0])
        type_ = self.terms.type(tree)
        known = table.index.get((type_, found))
        return self.last.get((type_, found)) if known is None else self.terms.tree(known)


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--set", "set_name", default="taso", show_default=True)
@click.option("--max-operators", default=3, show_default=True)
@click.option("--graphs", default=10_000, show_default=True)
@click.option("--states", default=400, show_default=True, help="Terms looked at for one graph.")
@click.option("--seed", default=0, show_default=True)
@click.option("--show", default=20, show_default=True, help="Graphs without a derivation that are shown.")
def main(*, file: Path, set_name: str, max_operators: int, graphs: int, states: int, seed: int, show: int) -> None:
    """Prints the share of graphs that reach their representative."""
    start = time.monotonic()
    classes = Classes(Space(set_name, (), max_operators))
    rules = Rules.of(load_file(file))
    drawn = Graphs(classes.terms, random.Random(seed), max_operators)
    for _ in range(200):
        drawn.draw()  # until the number of options is known
    fates: Counter[str] = Counter()
    known: dict[tuple[Tree, Tree], bool] = {}
    for _ in range(graphs):
        tree = classes.renamed(drawn.draw())
        other = classes.representative(tree)
        other = None if other is None else classes.folded(other)
        if other is None:
            fates["not enumerated"] += 1
            continue
        if (tree, other) not in known:
            nodes = Nodes(classes.terms)
            one, two = nodes.add(tree), nodes.add(other)
            known[tree, other] = met(Rewriting(nodes.values, nodes.nodes, rules), one, two, states)
            if not known[tree, other] and show:
                show -= 1
                click.echo(f"open: {_text(classes.terms, tree)}  =  {_text(classes.terms, other)}")
        fates["itself" if tree == other else "derived" if known[tree, other] else "open"] += 1
    reached = fates["itself"] + fates["derived"]
    click.echo(f"{graphs} graphs in {time.monotonic() - start:.0f} s: {dict(fates)}: {100 * reached / graphs:.2f} %")


def _text(terms: Terms, tree: Tree) -> str:
    if tree[0] == VARIABLE:
        return str(terms.chosen.sources[tree[2]].name)
    if tree[0] == CONSTANT:
        return str(terms.chosen.sources[tree[1]].name)
    return f"{terms.chosen.templates[tree[0]].name}({', '.join(_text(terms, t) for t in tree[1:])})"


if __name__ == "__main__":
    main()

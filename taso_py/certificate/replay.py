"""Replaying a certificate: from the original's table, by rules that stand in the certificate itself.

Every step is found again by the matcher at the place that the certificate names, with every condition decided there,
applied by the rewriter, and described; the description must be the certificate's, word for word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from taso_py.certificate import describe
from taso_py.certificate.describe import Labels
from taso_py.certificate.document import CertifiedStep, Look, MatchPlace
from taso_py.errors import CertificateError, TypingError
from taso_py.graph.table import Table
from taso_py.onnx_io.load import Loaded
from taso_py.result import plain
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application
from taso_py.search.canonical import bare, expansion, nothing
from taso_py.search.matcher import Match, Matcher, matcher
from taso_py.search.rewriter import rewrite_all
from taso_py.search.rounding import rounding_bodies
from taso_py.search.view import Expansion, View

_TRIES = 1000
"""Matches at one place that are compared with the certificate's."""

T = TypeVar("T")
E = TypeVar("E", Look, MatchPlace)


@dataclass(frozen=True, slots=True)
class Made:
    """A step that was made: what it was found in, and the table after it."""

    view: View
    looks: list[tuple[int, Expansion]]
    matches: Sequence[Match]
    table: Table


@dataclass(slots=True)
class Replayed:
    """The table after the steps so far."""

    loaded: Loaded
    laws: Mapping[str, Rule]
    labels: Labels = field(init=False)
    view: View = field(init=False)

    def __post_init__(self) -> None:
        self.labels = Labels.of(self.loaded.values)
        self.view = View.of(
            self.loaded.table, nothing, self.loaded.folder.value, rounding=rounding_bodies(self.loaded.proto)
        )

    def run(self, steps: Sequence[CertifiedStep]) -> Table:
        """The table after the last step; `CertificateError` names the first that does not hold."""
        for number, step in enumerate(steps, 1):
            try:
                self.make(step)
            except CertificateError as error:
                raise CertificateError(f"step {number} of {len(steps)} ({step.rule}): {error}") from None
        return self.view.table

    def make(self, step: CertifiedStep) -> Made:
        """Makes a step; `CertificateError` where it does not hold.

        Then the table is as it was, but labels may have been given away.
        """
        made = self._made(step, None)
        if describe.looked_through(made.view, made.matches) != made.looks:
            raise CertificateError("what it looks through is not what its places need, each once and in their order")
        _require_same(step.gives, describe.changes(self.labels, self.view.table, made.table))
        self.view = self.view.after(made.table)
        return made

    def make_part(self, step: CertifiedStep) -> tuple[Made | None, list[str]]:
        """Makes a step at those of its places where it holds, and why not at the others.

        The labels that the whole step would give away are given away in any case: later steps mean what they meant.
        """
        lost: list[str] = []
        made = None
        labels = self.labels.copy()
        try:
            made = self._made(step, lost)
        except CertificateError as error:
            self.labels = labels
            lost = lost or [str(error)]
        self.labels.count_on(step.labels())
        if made is not None:
            self.labels.name_as(step.gives, describe.changed(self.view.table, made.table))
            self.view = self.view.after(made.table)
        return made, lost

    def _made(self, step: CertifiedStep, lost: list[str] | None) -> Made:
        """A step found again; with a list for what is ``lost``, whatever part of it is found."""
        named = [output for place in step.places for output in place.outputs]
        if len(set(named)) < len(named):
            twice = next(one for k, one in enumerate(named) if one in set(named[:k]))
            raise CertificateError(f"{twice} is replaced twice")
        try:
            looks = self._each(step.looks, lambda entry: (self._id(entry.value), self._expansion(entry)), lost)
            view = self._looking(step, looks)
            compiled = self._matcher(step)
            matches = self._each(step.places, lambda place: self._match(compiled, view, place), lost)
            if not matches:
                raise CertificateError("it changes nothing: it names no place")
            outputs = [output for match in matches for output in match.outputs]
            if len(set(outputs)) < len(outputs):
                raise CertificateError(f"{self.labels[_first_again(outputs)]} is replaced twice")
            self._require_apart(view, matches)
            made = rewrite_all(view, matches)
        except TypingError as error:
            raise CertificateError(f"it cannot be made: {error}") from None
        if made is None:
            raise CertificateError(
                "it changes nothing, or closes a cycle: places that rely on each other take two steps"
            )
        return Made(view, looks, matches, made.table)

    def _require_apart(self, view: View, matches: Sequence[Match]) -> None:
        """No place is found in what an earlier one of the same step replaces: a search does not choose such."""
        replaced: set[int] = set()
        for match in matches:
            owners = (view.owners[output][0][0] for output in match.outputs if output in view.owners)
            outputs = {*match.outputs, *owners}
            both = (outputs | match.used) & replaced
            if both:
                label = self.labels[min(both)]
                raise CertificateError(f"{label} is replaced at one place, and another relies on it: take two steps")
            replaced |= outputs

    def _each(self, entries: Sequence[E], find: Callable[[E], T], lost: list[str] | None) -> list[T]:
        found = []
        for entry in entries:
            try:
                found.append(find(entry))
            except (CertificateError, TypingError) as error:
                if lost is None:
                    raise
                lost.append(str(error))
                self.labels.count_on(entry.labels())
        return found

    def _matcher(self, use: CertifiedStep | Look) -> Matcher:
        law = self.laws.get(use.id)
        if law is None or law.name != use.rule:
            raise CertificateError(f"the file states no rule {use.rule} with id {use.id}")
        if use.backwards and law.arrow != "==":
            raise CertificateError(f"rule {use.rule} holds in one direction only")
        rule = law.reversed() if use.backwards else law
        if rule.unbound():
            raise CertificateError(f"rule {use.rule} leaves {', '.join(sorted(rule.unbound()))} open in this direction")
        try:
            return matcher(rule)
        except TypingError as error:
            raise CertificateError(str(error)) from None

    def _looking(self, step: CertifiedStep, looks: Sequence[tuple[int, Expansion]]) -> View:
        """The table with the composites looked through that the step says."""
        given: dict[int, tuple[Expansion, ...]] = {}
        for value, found in looks:
            given[value] = (*given.get(value, ()), found)
        view = self.view.looking_through(given) if given else self.view
        ids = self.labels.ids
        for output, owner in ((o, w) for place in step.places for o, w in place.inside.items()):
            inner, chosen = ids.get(output, -1), ids.get(owner, -1)
            if inner in view.owners:
                view.owners[inner] = tuple(sorted(view.owners[inner], key=lambda entry: entry[0] != chosen))
        return view

    def _expansion(self, entry: Look) -> Expansion:
        value = self._id(entry.value)
        if value not in self.view.table.nodes or value in self.loaded.values.constant:
            raise CertificateError(f"{entry.value} is computed by nothing that could be looked through")
        compiled = self._matcher(entry)
        if not isinstance(compiled.rule.right.resolve(compiled.rule.right.outputs[0]), Application):
            raise CertificateError(f"rule {entry.rule} gives {entry.value} no definition")
        found = (expansion(self.view, m) for m in compiled.matches_on(bare(self.view), (value,)))
        otherwise = f"rule {entry.rule} does not say what {entry.value} is made of"
        return self._chosen(entry, found, describe.look, otherwise)

    def _match(self, compiled: Matcher, view: View, place: MatchPlace) -> Match:
        outputs = [self._id(o) for o in place.outputs]
        found = compiled.matches_on(view, outputs)
        otherwise = f"it does not match at {', '.join(place.outputs)}"
        return self._chosen(place, found, lambda labels, match: describe.place(labels, view, match), otherwise)

    def _chosen(
        self,
        wanted: Look | MatchPlace,
        found: Iterable[T],
        say: Callable[[Labels, T], Look | MatchPlace],
        otherwise: str,
    ) -> T:
        """What the certificate means among what the matcher found."""
        nearest: str | None = None
        for candidate in islice(found, _TRIES):
            # Describing names what is new: only the names of the right one are kept.
            labels = self.labels.copy()
            unlike = describe.difference(plain(wanted), plain(say(labels, candidate)))
            if unlike is None:
                self.labels = labels
                return candidate
            nearest = nearest or unlike
        raise CertificateError(nearest or otherwise)

    def _id(self, label: str) -> int:
        value = self.labels.ids.get(label)
        if value is None:
            raise CertificateError(_missing(label))
        return value


def require_whole(loaded: Loaded, table: Table) -> None:
    """Whatever the table reads is computed in it, or is a source of the original; else `CertificateError`."""
    for value in table.reachable():
        if value not in table.nodes and (value in loaded.table.nodes or value not in loaded.values.names):
            raise CertificateError("the steps leave a value that nothing computes")


def _missing(label: str) -> str:
    if label.startswith("#") and not label.startswith("##"):
        return f"there is no value {label} at this point, which an earlier step would have made"
    return f"there is no value {label} at this point"


def _first_again(values: Sequence[int]) -> int:
    return next(v for k, v in enumerate(values) if v in values[:k])


def _require_same(wanted: Mapping[str, str], given: Mapping[str, str]) -> None:
    unlike = describe.difference(wanted, given)
    if unlike is not None:
        raise CertificateError(unlike)

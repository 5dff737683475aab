"""False laws must not be proved: mutants of the library's laws and random equations, judged by an oracle of their own.

A small, fixed sample of what `scripts/audit/mutants.py` and `scripts/audit/fuzz.py` run in full; and what makes and
drives the mutants, tested by itself.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.audit import fuzz as prover_fuzz
from scripts.audit import mutants as prover_mutants
from scripts.audit.mutation.comparison import Before, compared, lost, read, reason
from scripts.audit.mutation.crosstab import alarms, report
from scripts.audit.mutation.driver import Setting, cross, equations, prove
from scripts.audit.mutation.jobs import PROVER, QUICK
from scripts.audit.mutation.judgement import Judgement
from scripts.audit.mutation.mutants import MOST, Mutant, has_instance, mutants_of, reread, well_typed
from scripts.audit.mutation.oracle import Case, judged
from scripts.audit.mutation.store import Entry, Store
from scripts.audit.mutation.workers import Task, run
from taso_py.prove.verdict import Proved, Unknown
from taso_py.rules.printer import law_text
from taso_py.rules.rule import Rule
from tests.helpers.audited import LAWS, law

HERE = __name__  # how worker processes import this file
EQUATIONS = 60
PROOF_SECONDS = 4.0


# ---- provers that are none, for worker processes -------------------------------------------------------------------


def credulous(rule: Rule) -> Proved:
    """Proves everything, wherever the sides differ too."""
    against = judged([Case(rule)])[0].differences
    return Proved(method="faith", patterns=tuple(against))


def informed(rule: Rule) -> Proved | Unknown:
    """Proves what the oracle calls equal."""
    return Proved() if judged([Case(rule)], 7)[0].truth == "equal" else Unknown("the oracle says no")


def broken(_rule: Rule) -> Proved:
    """Raises."""
    raise ZeroDivisionError("a prover's mistake")


def slow(seconds: float) -> str:
    """Sleeps."""
    time.sleep(seconds)
    return "done"


def suicide() -> None:
    """Ends the process."""
    os._exit(3)


# ---- mutants -------------------------------------------------------------------------------------------------------


def mutants(text: str) -> dict[str, set[str]]:
    """Mutants of a law by kind, each on one line."""
    found: dict[str, set[str]] = {}
    for m in mutants_of(law(text)):
        found.setdefault(m.kind, set()).add(" ".join(law_text(m.rule).split()))
    return found


CONV = """
  Conv(x, Add(w, v), strides=[1, 2], pads=[1, 2, 3, 4], dilations=d, group=g)
  => Conv(x, w, strides=[1, 2], pads=[1, 2, 3, 4], dilations=d, group=g)
  for w[(g o), c, k, l]"""
SLICE = "Slice(x, axes=[a], starts=[s], ends=[e], steps=[1]) => Slice(x, axes=[a], starts=[s], ends=[e], steps=[1])"
CONDITIONS = """
  Mul(Clip(x, min=l), a) => Clip(Mul(x, a), min=l)
  for x[*s, n], a[n]
  when positive(a), l >= 0.0, l == l"""

POOL = "AveragePool(x, kernel_shape=k, pads=p) => AveragePool(x, kernel_shape=k, pads=p)"
ORDER = "Transpose(x, perm=p) => Transpose(x, perm=p)"
BLOCK = "Neg(Softmax(x, axis=a)) => Softmax(x, axis=a) for x[*s, n]"
SUM = "ReduceSum(x, axes=a, keepdims=k) => ReduceSum(x, axes=a, keepdims=k)"

MADE = {
    "a changed operator": ("Add(x, y) => Add(y, x)", "operator", "Sub(y, x)"),
    "a pool": (POOL, "operator", "=> MaxPool(x, kernel_shape=k, pads=p)"),
    "operands": ("Sub(x, y) => Sub(x, y)", "operands", "=> Sub(y, x)"),
    "a bias left out": ("Conv(x, w, b) => Conv(x, w, b)", "dropped-operand", "=> Conv(x, w)"),
    "an operator left out": ("Neg(Relu(x)) => Neg(Relu(x))", "dropped-operator", "=> Neg(x)"),
    "an axis": ("Concat(x, y, axis=1) => Concat(x, y, axis=1)", "axis", "=> Concat(x, y, axis=2)"),
    "outputs": ("Relu(x), Neg(x) => Relu(x), Neg(x)", "outputs", "=> Neg(x), Relu(x)"),
    "a cut": (SLICE, "cut", "starts=[s + 1], ends=[e], steps=[1]) =>"),
    "a swapped cut": (SLICE, "cut", "=> Slice(x, axes=[a], starts=[e], ends=[s], steps=[1])"),
    "a step": (SLICE, "stride", "=> Slice(x, axes=[a], starts=[s], ends=[e], steps=[2])"),
    "strides": (CONV, "stride", "=> Conv(x, w, strides=[2, 1]"),
    "a pad": (CONV, "pad", "=> Conv(x, w, strides=[1, 2], pads=[1, 2, 3, 5]"),
    "begin and end": (CONV, "pad", "=> Conv(x, w, strides=[1, 2], pads=[3, 2, 1, 4]"),
    "a dilation": (CONV, "dilation", "dilations=plus(d, d), group=g) for"),
    "a group": (CONV, "group", "dilations=d, group=g + 1) for"),
    "factors": (CONV, "packing", "for w[(o g), c, k, l]"),
    "a shape": ("Reshape(x, shape=[m, n]) => Reshape(x, shape=[m, n])", "packing", "=> Reshape(x, shape=[n, m])"),
    "a number": ("Max(x, 0) => Relu(x)", "constant", "Max(x, 1.0) =>"),
    "kept axes": (SUM, "keepdims", "=> ReduceSum(x, axes=a, keepdims=1 - k)"),
    "counted padding": (POOL, "count_include_pad", "pads=p, count_include_pad=1)"),
    "a condition dropped": (CONDITIONS, "condition-dropped", "when positive(a), l == l"),
    "a comparison weakened": (CONDITIONS, "condition-weakened", "l >= 0.0, l >= l"),
    "a predicate weakened": (CONDITIONS, "condition-weakened", "when nonnegative(a), l >="),
    "a declaration dropped": (CONDITIONS, "declaration-dropped", "for x[*s, n] when"),
    "a shared size freed": (CONDITIONS, "declaration-weakened", "for x[*s, n], a[f] when"),
    "a shared attribute freed": (CONV, "attribute-freed", "Conv(x, Add(w, v), strides=f, pads"),
    "a block added": (BLOCK, "block", "for x[*z0, *s, n]"),
    "a block fixed": (BLOCK, "block", "for x[z0_0, z0_1, z0_2, z0_3, n]"),
    "a block dropped": (BLOCK, "block", "for x[n]"),
    "an axis off the menu": (BLOCK, "axis-off-menu", "=> Softmax(x, axis=5) for"),
    "an order off the menu": (ORDER, "axis-off-menu", "=> Transpose(x, perm=[1, 2, 3, 4, 0])"),
    "a rank as a number": (BLOCK, "axis-as-number", "value=1.0 + rank(s) * (rank(s) - 1) * (rank(s) - 2)"),
    "an axis as a number": (BLOCK, "axis-as-number", "value=1.0 + a * (a - 1) * (a - 2)"),
    "a shared variable freed": ("Add(x, x) => Mul(x, 2)", "variable-freed", "Add(x, f) =>"),
}


@pytest.mark.parametrize(("text", "kind", "part"), MADE.values(), ids=MADE)
def test_a_mutant_is_made(text: str, kind: str, part: str) -> None:
    made = mutants(text).get(kind, set())
    assert any(part in m for m in made), "\n".join(sorted(made))


@pytest.mark.parametrize("name", ["conv-sum-enlarged", "merge-groups", "matmul-shared-input", "softmax-shift"])
def test_mutants_are_distinct_and_can_be_written_down(name: str) -> None:
    found = mutants_of(LAWS[name])
    ids = [m.id for m in found]
    assert 20 <= len(found) <= MOST
    assert len(set(ids)) == len(ids)
    assert LAWS[name].id not in ids
    assert [m.id for m in mutants_of(LAWS[name])] == ids
    for m in found[::5]:
        m.rule.check()
        assert reread(m).id == m.id


def test_there_are_enough_mutants() -> None:
    some = sorted(LAWS)[::6]
    found = {m.id: m for name in some for m in mutants_of(LAWS[name])}
    clauses = [m for m in found.values() if m.kind.startswith(("condition", "declaration"))]
    assert len(found) >= 30 * len(some)
    assert len(clauses) >= 3 * len(some)


def test_well_typed_mutants_are_of_many_kinds_and_always_the_same() -> None:
    found = well_typed(LAWS["conv-sum-enlarged"], 10, seed=3)
    assert len(found) == 10
    assert len({m.kind for m in found}) >= 5
    assert all(has_instance(m.rule) for m in found)
    assert [m.id for m in well_typed(LAWS["conv-sum-enlarged"], 10, seed=3)] == [m.id for m in found]
    assert not has_instance(law("ReduceMean(x, axes=[1]) => ReduceMean(x, axes=[1], keepdims=0) for x[m, n]"))


# ---- processes and files -------------------------------------------------------------------------------------------


def test_tasks_have_limits_and_do_not_cost_each_other() -> None:
    tasks = [
        Task("long", f"{HERE}:slow", (60.0,), 1.0),
        Task("dead", f"{HERE}:suicide", (), 20.0),
        Task("wrong", f"{HERE}:broken", (None,), 20.0),
        *(Task(f"short{k}", f"{HERE}:slow", (0.0,), 20.0) for k in range(3)),
    ]
    found = {o.key: (o.value, o.failure) for o in run(tasks)}
    assert found["long"] == (None, "timeout")
    assert found["dead"] == (None, "crash")
    assert found["wrong"] == (None, "ZeroDivisionError: a prover's mistake")
    assert [found[f"short{k}"] for k in range(3)] == [("done", "")] * 3


def test_findings_are_kept_and_those_of_another_prover_are_not(tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"
    store = Store(path, "one")
    entry = store.entry("1", "law", "axis", "rule ...")
    store.put(entry, "oracle", {"truth": "equal"})
    store.put(entry, "proof", {"verdict": "proved"})
    with path.open("a") as file:
        file.write('{"id": "2", "la')
    assert Store(path, "one").entries == {"1": entry}
    other = Store(path, "two").entries["1"]
    assert (other.row, other.column) == ("equal", "")


# ---- drivers -------------------------------------------------------------------------------------------------------


def entries_of(store: Store, chosen: list[Mutant]) -> list[Entry]:
    """Entries of mutants."""
    return [store.entry(m.id, m.law, m.kind, m.text()) for m in chosen]


def test_a_prover_that_believes_everything_raises_alarms(tmp_path: Path) -> None:
    path = tmp_path / "mutants.jsonl"
    arguments = ["--law", "matmul-associative", "--count", "4", "--json", str(path), "--prover", f"{HERE}:credulous"]
    result = CliRunner().invoke(prover_mutants.main, arguments)
    assert result.exit_code == 1, result.output
    assert "false laws were proved" in result.output
    assert "but at" in result.output
    lines = path.read_text()
    again = CliRunner().invoke(prover_mutants.main, arguments)
    assert (again.exit_code, again.stdout) == (1, result.stdout)
    assert path.read_text() == lines, "what is known was asked again"


def test_a_prover_that_knows_the_truth_raises_none() -> None:
    setting = Setting(f"{HERE}:informed", 60.0)
    store = Store(None, setting.prover)
    entries = entries_of(store, list(mutants_of(LAWS["concat-of-matmuls"])[:12]))
    cross(store, entries, setting, mutants=True)
    assert not alarms(entries)
    assert {e.column for e in entries if e.row == "equal"} == {"proved"}
    assert "equal: 0 of" in report(entries)
    assert all(e.oracle["seeds"] > 1 for e in entries if e.row == "equal")


def test_a_prover_that_raises_has_proved_nothing() -> None:
    setting = Setting(f"{HERE}:broken", 60.0)
    store = Store(None, setting.prover)
    entries = entries_of(store, list(mutants_of(LAWS["twice"])[:4]))
    prove(store, entries, setting)
    assert {e.column for e in entries} == {"error"}
    assert "a prover's mistake" in entries[0].proof["why"]


def test_equations_are_driven_like_mutants(tmp_path: Path) -> None:
    path = tmp_path / "equations.jsonl"
    arguments = ["--sample", "2", "--seed", "2", "--json", str(path), "--prover", f"{HERE}:credulous"]
    result = CliRunner().invoke(prover_fuzz.main, arguments)
    assert result.exit_code == 1, result.output
    known = Store(path, f"{HERE}:credulous").entries.values()
    assert sum(e.kind == "true" for e in known) >= 2
    assert sum(e.kind.startswith("false: ") and e.row == "different" for e in known) >= 2
    assert all(e.column == "proved" for e in known)


def test_verdicts_of_another_prover_are_read_from_a_drivers_own_file_too(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    store = Store(path, "old")
    store.put(store.entry("1", "law", "axis", "rule one"), "oracle", {"truth": "equal"})
    store.put(store.entry("1", "law", "axis", "rule one"), "proof", {"verdict": "unknown", "why": "too hard"})
    store.put(store.entry("2", "law", "axis", "rule two"), "oracle", {"truth": "equal"})
    with path.open("a") as file:
        file.write('{"id": "3", "verdict": "proved", "false": "at n = 1"}\n')
    assert read(path) == {"1": Before("unknown", "too hard"), "3": Before("proved", "", "at n = 1")}


def test_two_provers_are_compared() -> None:
    true = Judgement(typed=3).plain()
    entries = [
        Entry("1", "law", "axis", "rule one", true, {"verdict": "unknown", "why": "2 * n is not known"}),
        Entry("2", "law", "axis", "rule two", true, {"verdict": "proved", "patterns": ()}),
        Entry("3", "law", "pad", "rule three", {}, {"verdict": "unknown", "why": "3 * m is not known"}),
    ]
    before = {"1": Before("proved"), "2": Before("unknown"), "3": Before("unknown")}
    assert [e.id for e in lost(entries, before)] == ["1"]
    assert reason("2 * n is not known") == reason("3 * m is not known")
    text = compared(entries, before)
    assert "| axis | 2 | 1 | 0 | 1 | 1 | 0 | 1 |" in text
    assert "| all | 3 | 1 | 0 | 2 | 1 | 0 | 2 |" in text
    assert "rule one" in text
    assert "rule three" not in text


# ---- the prover ----------------------------------------------------------------------------------------------------


def proved_among(store: Store, entries: list[Entry]) -> list[Entry]:
    """False laws among these that the prover proves."""
    setting = Setting(PROVER, PROOF_SECONDS)
    false = [e for e in entries if e.row == "different"]
    assert len(false) >= len(entries) / 4
    prove(store, false, setting)
    return alarms(false)


def test_no_false_mutant_is_proved(tmp_path: Path) -> None:
    """What `make audit` runs in full, with one mutant of each of a few laws."""
    path = tmp_path / "mutants.jsonl"
    result = CliRunner().invoke(prover_mutants.main, ["--sample", "--seed", "11", "--json", str(path)])
    assert result.exit_code == 0, result.output
    assert "0 false laws were proved" in result.output
    found = Store(path, QUICK).entries.values()
    assert len(found) == prover_mutants.SAMPLE
    assert {e.column for e in found} == {"proved", "unknown"}
    assert all(e.row != "not judged" for e in found if e.proved)


def test_no_false_equation_is_proved() -> None:
    store = Store(None, PROVER)
    entries = equations(store, 5, EQUATIONS // 2, Setting(PROVER, PROOF_SECONDS))
    assert not prover_fuzz.broken(entries)
    assert proved_among(store, entries) == []

"""Verdicts on rules: refutations, witnesses, classes, the lock that keeps them, and `superopt verify`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, cli_environment

import taso_py
from taso_py.cli import main
from taso_py.errors import RuleError, UsageError
from taso_py.prove import crew
from taso_py.prove.refute import refute, replayed
from taso_py.prove.replay import Gap, Replay, gap
from taso_py.prove.verdict import Counterexample, Proved, Refuted, Unknown
from taso_py.prove.verify import VACUOUS, Judgement, judge, proved, record
from taso_py.prove.witness import free_sizes, survey, witness
from taso_py.rules import lock as locks
from taso_py.rules.library import load, load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.lock import Finding, Lock, Record, admitted, expected, key_of, load_lock, sources_digest, usable
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule, RuleSet

REFUTED = load_file(rules_directory() / "refuted.rules")
DOUBLE = "rule double: Add(x, x) => Mul(x, 2)\n"
FALSE = "rule wrong: Relu(Neg(x)) => Neg(Relu(x))\n"


def always(rule: Rule) -> Proved | Unknown:
    """A prover that believes everything."""
    return Proved(method="belief", cases=2, facts=("faith",))


def never(rule: Rule) -> Proved | Unknown:
    """A prover that knows nothing."""
    return Unknown("not even tried")


def strict(rule: Rule) -> Proved | Unknown:
    """Proves only rules about positive constants."""
    return always(rule) if "positive" in rule.text() else never(rule)


def moody(rule: Rule) -> Proved | Unknown:
    """Dies at one rule and hangs at another."""
    if rule.name == "double":
        os._exit(3)
    if rule.name == "wrong":
        time.sleep(600)
    return always(rule)


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    with Replay() as found:
        yield found


@pytest.fixture
def lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "proofs.lock"
    monkeypatch.setattr(locks, "lock_path", lambda: path)
    return path


@pytest.fixture
def own_rules(tmp_path: Path) -> Path:
    path = tmp_path / "own.rules"
    path.write_text(DOUBLE)
    return path


# ---- refutations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "refuted-relu-times-constant",
        "refuted-matmul-commutes",
        "refuted-shuffle-factors",
        "refuted-exp-of-log",
        "refuted-root-of-product",
        "refuted-transpose-order",
        "refuted-slice-of-concat",
        "refuted-average-of-shifted",
        "refuted-group-packing",
    ],
)
def test_a_false_law_has_a_small_counterexample(name: str, replay: Replay) -> None:
    law = REFUTED.named(name)
    found = refute(law, seed=1, replay=replay)
    assert found is not None
    assert gap(found.left, found.right) >= Gap.UNDEFINED
    assert replayed(law, found, replay)
    assert sum(a.size for a in found.inputs.values()) < 250
    assert {f"{name}[" in str(found) for name in found.inputs} == {True}


def test_values_of_a_counterexample_are_simple(replay: Replay) -> None:
    found = refute(parse_rule(FALSE), seed=1, replay=replay)
    assert found is not None
    assert all(set(np.unique(a)) <= {-1.0, 0.0, 1.0} for a in found.inputs.values())
    assert not replayed(parse_rule("rule right: Relu(Neg(x)) => Max(Neg(x), 0)"), found, replay)


def test_the_same_seed_gives_the_same_counterexample(replay: Replay) -> None:
    law = parse_rule(FALSE)
    first, second = refute(law, seed=3, replay=replay), refute(law, seed=3, replay=replay)
    assert first is not None
    assert second is not None
    assert str(first) == str(second)
    assert all(np.array_equal(first.inputs[k], second.inputs[k]) for k in first.inputs)


def test_different_types_count_as_a_difference(replay: Replay) -> None:
    found = refute(parse_rule("rule shape: Unsqueeze(x, axes=[0]) => x"), replay=replay)
    assert found is not None
    assert found.left.shape != found.right.shape


def test_a_law_is_refuted_in_either_direction(replay: Replay) -> None:
    law = parse_rule("rule roots: Mul(Sqrt(x), Sqrt(y)) == Sqrt(Mul(x, y)) for x[*s], y[*s]")
    assert refute(law, replay=replay, weakest=Gap.LOST) is not None
    assert refute(replace(law, arrow="=>"), replay=replay, weakest=Gap.LOST, attempts=90) is None


def test_a_true_law_is_not_refuted(replay: Replay) -> None:
    assert refute(parse_rule(DOUBLE), replay=replay, attempts=40) is None


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ([1.0, 2.0], [1.0, 2.0], Gap.NONE),
        ([1000.0], [1000.01], Gap.NONE),
        ([1.0], [1.0005], Gap.ROUNDING),
        ([np.nan], [1.0], Gap.UNDEFINED),
        ([np.nan], [np.inf], Gap.NONE),
        ([1.0], [np.nan], Gap.LOST),
        ([1.0, 1.0], [np.nan, 2.0], Gap.VALUES),
        ([1.0], [1.0, 1.0], Gap.TYPES),
    ],
)
def test_differences_are_ranked(left: list[float], right: list[float], wanted: Gap) -> None:
    assert gap(np.array(left, np.float32), np.array(right, np.float32)) is wanted


# ---- witnesses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["matmul-shared-weight", "conv-shared-input", "slice-of-slice"])
def test_a_witness_has_different_sizes_above_one(name: str, replay: Replay) -> None:
    found = witness(load().all().named(name), replay=replay)
    assert found is not None
    assert found.agrees
    declared, *others = free_sizes(found.instance)
    for group in [declared, *others] if not declared else [declared]:
        assert len(set(group.values())) == len(group)
        assert min(group.values(), default=2) >= 2


def test_a_witness_respects_what_the_conditions_force(replay: Replay) -> None:
    rule = parse_rule("rule square: Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x for x[m, n] when m == n")
    found = witness(rule, replay=replay)
    assert found is not None
    assert found.instance.binding.names["m"] == found.instance.binding.names["n"] >= 2


def test_a_law_without_instances_is_vacuous(replay: Replay) -> None:
    law = parse_rule("rule nothing: Neg(Neg(x)) => x for x[n] when n < 0")
    assert survey(law, replay, draws=4).vacuous
    assert judge(law, prover=always, replay=replay).verdict == Unknown(VACUOUS)


# ---- judgements --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "bitwise", "specials"),
    [
        ("Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x for x[m, n]", "move", True, "kept"),
        ("Pad(Pad(x, pads=[1, 0], value=0.5), pads=[1, 0], value=0.5) => Pad(x, pads=[2, 0], value=0.5) for x[n]",
         "move", True, "kept"),
        ("Add(Add(x, y), z) => Add(x, Add(y, z)) for x[*s], y[*s], z[*s]", "ring", False, "open"),
        ("Add(x, y) => Add(y, x) for x[*s], y[*s]", "ring", True, "kept"),
        ("Add(x, 0) => x for x[n, m]", "ring", False, "open"),
        ("Div(Mul(x, y), y) => x for x[*s], y[*s]", "real", False, "changed"),
        ("Relu(Transpose(x, perm=[1, 0])) => Transpose(Relu(x), perm=[1, 0]) for x[m, n]", "real", True, "kept"),
        ("Mul(x, 0.5) => Div(x, 2) for x[m, n]", "real", False, "open"),
        ("MatMul(Transpose(x, perm=[1, 0]), y) => Gemm(x, y, transA=1) for x[k, m], y[k, n]", "ring", True, "kept"),
    ],
)  # fmt: skip
def test_the_class_of_a_rule(text: str, kind: str, bitwise: bool, specials: str, replay: Replay) -> None:
    found = judge(parse_rule(f"rule r: {text}"), prover=always, replay=replay)
    assert (found.kind, found.bitwise) == (kind, bitwise)
    assert found.specials in ({specials} if specials != "open" else {"open", "changed"})


def test_a_counterexample_beats_a_proof(replay: Replay) -> None:
    found = judge(parse_rule(FALSE), prover=always, replay=replay)
    assert isinstance(found.verdict, Refuted)
    assert found.kind is None


def test_an_open_law_is_unknown_for_the_provers_reason(replay: Replay) -> None:
    assert judge(parse_rule(DOUBLE), prover=never, replay=replay).verdict == never(parse_rule(DOUBLE))


def test_each_condition_has_a_role(replay: Replay) -> None:
    text = "rule roles: Relu(Mul(x, a)) => Mul(Relu(x), a) for x[n] when positive(a), constant(a), n >= 1"
    found = judge(parse_rule(text), prover=strict, replay=replay)
    assert found.conditions == (
        ("positive(a)", "necessary"),
        ("constant(a)", "droppable"),
        ("n >= 1", "droppable"),
    )


# ---- many rules --------------------------------------------------------------------------------------------------


def test_a_crew_judges_in_other_processes() -> None:
    rules = [parse_rule(DOUBLE), parse_rule(FALSE)]
    found = dict(crew.judged(rules, jobs=2, prover=always))
    assert isinstance(found[rules[0]].verdict, Proved)
    assert isinstance(found[rules[1]].verdict, Refuted)


def test_a_lost_process_costs_its_rule() -> None:
    rules = [parse_rule(DOUBLE), parse_rule(FALSE), parse_rule("rule same: Identity(x) => x")]
    found = dict(crew.judged(rules, jobs=1, limit_s=5, prover=moody))
    assert "died" in str(found[rules[0]].verdict)
    assert "within 5 s" in str(found[rules[1]].verdict)
    assert isinstance(found[rules[2]].verdict, Proved)


# ---- the lock ----------------------------------------------------------------------------------------------------


def full_record() -> Record:
    verdict = Proved(None, 6, "multiplicities", 3, ("exp",))
    return record(Judgement(verdict, "x[2, 3]; n=2", "ring", "open", False, (("n >= 1", "necessary"),), 1.5))


def refuted_record() -> Record:
    left, right = np.array([1.0, np.nan], np.float32), np.array([0.1, np.inf], np.float32)
    return record(Judgement(Refuted(Counterexample({"n": 2}, {"x": left}, left, right))))


def test_a_lock_reads_back_what_it_wrote(tmp_path: Path) -> None:
    rule, law = parse_rule(DOUBLE), parse_rule(FALSE)
    lock = Lock().updated([(rule, full_record()), (law, refuted_record())], [rule, law], "5.4")
    path = tmp_path / "a.lock"
    lock.write(path)
    again = load_lock(path)
    assert again.record(rule) == full_record()
    assert again.record(law) == refuted_record()
    assert again.text() == lock.text() == path.read_text()
    assert len(path.read_text().splitlines()) == 3
    assert json.loads(path.read_text().splitlines()[2])["counterexample"]["right"] == [0.1, "inf"]


def test_lines_have_an_order_of_their_own_and_go_with_their_rules() -> None:
    rule, law = parse_rule(DOUBLE), parse_rule(FALSE)
    both = [(rule, full_record()), (law, full_record())]
    lock = Lock().updated(both, [rule, law], "5.4")
    assert lock.text() == Lock().updated(both[::-1], [law, rule], "5.4").text()
    assert lock.updated([], [law], "5.4").record(rule) is None
    assert lock.updated([], [law], "5.4").record(law) == full_record()


def test_a_record_holds_for_one_law_one_z3_and_one_set_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = parse_rule(DOUBLE)
    lock = Lock().updated([(rule, full_record())], [rule], "5.4")
    assert lock.record(parse_rule(DOUBLE.replace("double", "twice"))) == full_record()
    assert lock.record(parse_rule(DOUBLE.replace("2", "3"))) is None
    assert key_of(rule, "5.4") != key_of(rule, "5.5")
    monkeypatch.setattr(locks, "sources_digest", lambda: "other sources")
    key_of.cache_clear()
    assert lock.record(rule) is None
    key_of.cache_clear()


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("ops/elementwise.py", True),
        ("prove/verdict.py", True),
        ("graph/sizes.py", True),
        ("rules/unify.py", True),
        ("prove/verify.py", False),
        ("search/matcher.py", False),
        ("rules/printer.py", False),
    ],
)
def test_changed_sources_make_proofs_stale(file: str, counts: bool, tmp_path: Path) -> None:
    package = tmp_path / "taso_py"
    shutil.copytree(ROOT / "taso_py", package, ignore=shutil.ignore_patterns("__pycache__"))
    before = sources_digest(package)
    (package / file).write_text((package / file).read_text() + "\n# changed\n")
    sources_digest.cache_clear()
    assert (sources_digest(package) != before) == counts


def test_a_lock_that_cannot_be_read_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    rule = parse_rule(DOUBLE)
    path.write_text(Lock().updated([(rule, full_record())], [rule], "5.4").text() + "<<<<<<< HEAD\n")
    with pytest.raises(RuleError, match=r"a\.lock:3:1: is no proof record"):
        load_lock(path)
    assert load_lock(tmp_path / "none.lock") == Lock()


def test_rules_have_the_status_on_record() -> None:
    rules = RuleSet.of(load_file(rules_directory() / "cleanup.rules"))
    first, second, *others = rules
    bounded = record(Judgement(Proved(limit=4)))
    lock = Lock().updated([(first, full_record()), (second, bounded)], rules, "5.4")
    stamped = lock.stamped(rules)
    assert [r.status for r in stamped] == ["proved", "proved<=4", *("tested" for _ in others)]
    assert list(usable(stamped, False)) == [stamped.rules[0]]
    assert list(usable(stamped, True)) == list(stamped.rules[:2])


@pytest.mark.parametrize("status", ["tested", "refuted", "unknown", ""])
def test_nothing_else_is_admitted(status: str) -> None:
    assert not admitted(status, allow_bounded=True)


def test_what_a_file_promises() -> None:
    def stands_in(file: str, name: str = "a") -> str:
        return expected(replace(parse_rule(DOUBLE), file=f"/somewhere/{file}", name=name))

    assert stands_in("refuted.rules") == "refuted"
    assert stands_in("refuted.rules", "vacuous-a") == "vacuous"
    assert stands_in("taso_axioms.rules") == "proved"
    assert stands_in("taso_axioms.rules", "a-false") == "refuted"
    assert stands_in("layout.rules", "a-false") == "proved"
    assert stands_in("open.rules") == "unknown"


def test_every_law_that_is_shipped_is_on_record() -> None:
    lock = load_lock()
    laws = [law for path in sorted(rules_directory().glob("*.rules")) for law in load_file(path)]
    missing = [law.name for law in laws if lock.record(law) is None]
    assert not missing, "run `superopt verify --update`"
    assert not [law.name for law in laws if not Finding(law, lock.record(law)).as_expected]
    used = [lock.record(law) for law in load().all()]
    assert sum(found.limit is None for found in used) >= 0.95 * len(used)
    assert all(found.verdict == "proved" for found in used)


# ---- rules of the user's own ---------------------------------------------------------------------------------------


def test_own_rules_are_proved_on_load(own_rules: Path) -> None:
    stamped = proved(load_file(own_rules), allow_bounded=False, prover=always)
    assert [(r.status, r.patterns) for r in stamped] == [("proved", always(stamped.rules[0]).patterns)]
    with pytest.raises(UsageError, match=r"own\.rules:1:1: rule double is not proved: not even tried"):
        proved(load_file(own_rules), allow_bounded=False, prover=never)


def test_own_rules_that_are_bounded_need_the_option(own_rules: Path) -> None:
    def bounded(rule: Rule) -> Proved | Unknown:
        return Proved(limit=3)

    with pytest.raises(UsageError, match="proved up to size 3 only"):
        proved(load_file(own_rules), allow_bounded=False, prover=bounded)
    assert [r.status for r in proved(load_file(own_rules), allow_bounded=True, prover=bounded)] == ["proved<=3"]


def test_a_false_rule_of_the_user_is_refused(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    rules = tmp_path / "bad.rules"
    rules.write_text(FALSE)
    assert main(["optimize", str(tiny_model), "--rules", str(rules), "--no-race", "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert "bad.rules:1:1: rule wrong is refuted: the sides differ at x[" in error
    assert error.count("\n") == 1


def test_only_proved_rules_rewrite(tiny_model: Path, lock_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = taso_py.optimize(tiny_model, race=False, cost="roofline")
    assert result.rules == ()
    known = [*load().all()]
    Lock().updated([(rule, full_record()) for rule in known], known, "5.4").write(lock_file)
    monkeypatch.setattr("taso_py.search.matcher.covered", lambda rule, found: True)
    result = taso_py.optimize(tiny_model, race=False, cost="roofline")
    assert {r.status for r in result.rules} == {"proved"}


# ---- superopt verify -------------------------------------------------------------------------------------------------


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Replaces the crew by one that answers at once: by rule name, else with a proof."""

    def install(**by_name: Judgement) -> list[str]:
        asked: list[str] = []

        def judged(rules: Sequence[Rule], **_: Any) -> Iterator[tuple[Rule, Judgement]]:
            for rule in rules:
                asked.append(rule.name)
                yield rule, by_name.get(rule.name.replace("-", "_"), Judgement(Proved(method="belief"), "x[2]"))

        monkeypatch.setattr(crew, "judged", judged)
        return asked

    return install


def test_verify_says_what_is_not_as_expected(
    verdicts: Callable[..., list[str]], own_rules: Path, lock_file: Path, capsys: Any
) -> None:
    own_rules.write_text(DOUBLE + FALSE)
    verdicts(wrong=Judgement(Unknown("not proved equal: a and b"), seconds=2.0))
    assert main(["verify", str(own_rules)]) == 1
    out, error = capsys.readouterr()
    assert "own.rules:2 wrong should be proved, is unknown: not proved equal: a and b" in out
    assert "2 rules, 1 not as expected" in out
    assert error.splitlines()[-1] == "superopt: error: 1 of 2 rules are not as expected: wrong"
    assert not lock_file.exists()


def test_refuted_laws_must_be_refuted(
    verdicts: Callable[..., list[str]], tmp_path: Path, lock_file: Path, capsys: Any
) -> None:
    path = tmp_path / "refuted.rules"
    path.write_text(DOUBLE + FALSE)
    left = np.zeros(2, np.float32)
    against = Judgement(Refuted(Counterexample({}, {"x": left}, left, left + 1)))
    verdicts(double=against, wrong=against)
    assert main(["verify", str(path)]) == 0
    verdicts(double=against)
    assert main(["verify", str(path)]) == 1
    assert "wrong should be refuted, is proved for all sizes" in capsys.readouterr().out


def test_verify_as_json(verdicts: Callable[..., list[str]], own_rules: Path, lock_file: Path, capsys: Any) -> None:
    own_rules.write_text(DOUBLE + FALSE)
    verdicts(wrong=Judgement(Proved(limit=4)))
    assert main(["verify", str(own_rules), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "superopt.verify/1"
    assert report["as_expected"] is True
    assert report["counts"] == {"all_sizes": 1, "bounded": 1, "refuted": 0, "unknown": 0}
    assert [(r["name"], r["verdict"], r["status"]) for r in report["rules"]] == [
        ("double", "proved", "proved"),
        ("wrong", "proved", "proved<=4"),
    ]
    assert {"id", "file", "line", "expected", "as_expected", "seconds", "recorded"} <= report["rules"][0].keys()


def test_what_is_on_record_is_not_proved_again(
    verdicts: Callable[..., list[str]], lock_file: Path, capsys: Any
) -> None:
    path = str(rules_directory() / "cleanup.rules")
    names = [r.name for r in load_file(Path(path))]
    asked = verdicts()
    assert main(["verify", path, "--update"]) == 0
    assert asked == names
    assert main(["verify", path]) == 0
    assert asked == names
    assert f"{len(names)} rules, all as expected" in capsys.readouterr().out
    assert main(["verify", path, "--fresh", "--only", names[0]]) == 0
    assert asked == [*names, names[0]]
    assert load().all().named(names[0]).status == "proved"


def test_an_interrupt_keeps_what_is_done(lock_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(rules: Sequence[Rule], **_: Any) -> Iterator[tuple[Rule, Judgement]]:
        yield rules[0], Judgement(Proved(method="belief"))
        raise KeyboardInterrupt

    monkeypatch.setattr(crew, "judged", interrupted)
    path = rules_directory() / "cleanup.rules"
    assert main(["verify", str(path), "--update"]) == 130
    assert [e.name for e in load_lock(lock_file).entries] == [next(iter(load_file(path))).name]


def test_a_name_that_no_rule_has_is_a_usage_error(own_rules: Path, capsys: Any) -> None:
    assert main(["verify", str(own_rules), "--only", "doubel"]) == 2
    assert "did you mean 'double'?" in capsys.readouterr().err


def test_a_full_lock_is_read_at_once(tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from taso_py.rules import lock
from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
path = Path({str(tmp_path / "a.lock")!r})
rules = [r for p in sorted(rules_directory().glob("*.rules")) for r in load_file(p)]
why = {{v: lock.Record(v) for v in ("unknown", "refuted")}}
why["vacuous"] = lock.Record("unknown", "vacuous: nothing")
made = [(r, why.get(lock.expected(r), lock.Record("proved", method="belief"))) for r in rules]
lock.Lock().updated(made, rules, lock.installed_z3()).write(path)
lock.lock_path = lambda: path
load_file.__globals__["_parsed"].cache_clear()
from taso_py.cli import main
start = time.process_time()
code = main(["verify"])
print(code, time.process_time() - start, "z3" in sys.modules, "onnx" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], env=cli_environment(), capture_output=True, text=True)
    code, seconds, z3, onnx = done.stdout.splitlines()[-1].split()
    assert (code, z3, onnx) == ("0", "False", "False"), done.stderr
    assert float(seconds) < 2.0


# ---- superopt rules --------------------------------------------------------------------------------------------------


def test_a_proof_is_shown(lock_file: Path, capsys: Any) -> None:
    path = rules_directory() / "cleanup.rules"
    rule, *_ = known = [*load_file(path)]
    Lock().updated([(rule, full_record())], known, "5.4").write(lock_file)
    assert main(["rules", "show", rule.name]) == 0
    out = capsys.readouterr().out
    for text in ("proved for all sizes and up to 6 axes: multiplicities, 3 cases, facts: exp", "ring", "necessary"):
        assert text in out
    assert main(["rules", "list", "--rules", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["proof"]["cases"] == 3


def test_a_counterexample_is_shown(lock_file: Path, capsys: Any) -> None:
    law, *_ = known = [*REFUTED]
    Lock().updated([(law, refuted_record())], known, "5.4").write(lock_file)
    assert main(["rules", "show", law.name]) == 0
    out = capsys.readouterr().out
    assert "refuted at x[2]; n=2" in out.replace("  ", " ")
    assert '[1.0, "nan"]' in out
    assert '[0.1, "inf"]' in out


def test_a_finding_compares_with_what_is_expected() -> None:
    law = next(iter(REFUTED))
    assert Finding(law, refuted_record()).as_expected
    assert not Finding(law, full_record()).as_expected
    vacuous = replace(law, name="vacuous-a")
    assert Finding(vacuous, record(Judgement(Unknown(VACUOUS)))).as_expected
    assert not Finding(vacuous, record(Judgement(Unknown("not proved equal")))).as_expected

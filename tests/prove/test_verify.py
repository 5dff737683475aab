"""`superopt verify` and `superopt rules show`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taso_py.cli import main
from taso_py.prove import batch as crew
from taso_py.prove.verdict import Counterexample, Disagreement, Proved, Reason, Refuted, Unknown
from taso_py.prove.verify import VACUOUS, Judgement, record
from taso_py.rules import lock as locks
from taso_py.rules.library import load, load_file, stated
from taso_py.rules.location import rules_directory
from taso_py.rules.lock import Finding, Lock, load_lock
from taso_py.rules.rule import Rule
from tests.conftest import cli_environment
from tests.helpers.judging import DOUBLE, FALSE, REFUTED, full_record, refuted_record
from tests.helpers.schemas import require_valid

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
    path.write_text(f"# promise: refuted\n\n{DOUBLE}{FALSE}")
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


def test_another_z3_proves_nothing_again(
    verdicts: Callable[..., list[str]], lock_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(rules_directory() / "cleanup.rules")
    asked = verdicts()
    assert main(["verify", path, "--update"]) == 0
    before, count = lock_file.read_text(), len(asked)
    monkeypatch.setattr(locks, "installed_z3", lambda: "99.0")
    assert main(["verify", path, "--update"]) == 0
    assert len(asked) == count
    assert lock_file.read_text() == before


def test_a_damaged_lock_is_an_error_until_it_is_made_again(
    verdicts: Callable[..., list[str]], lock_file: Path, capsys: Any
) -> None:
    path = str(rules_directory() / "cleanup.rules")
    asked = verdicts()
    assert main(["verify", path, "--update"]) == 0
    good = lock_file.read_text()
    lines = good.splitlines()
    own = json.dumps({**json.loads(lines[1]), "name": "own", "key": "0"})
    lock_file.write_text("\n".join([*lines, own]) + "\n")
    asked.clear()
    for arguments in (["verify", path], ["verify", path, "--anew"], ["rules", "list"]):
        capsys.readouterr()
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert "proofs.lock:1:1: a line was added, changed or lost" in error
        assert "superopt verify --update" in error
        assert error.count("\n") == 1
    assert asked == []
    assert main(["verify", path, "--update"]) == 0
    assert len(asked) == len(lines) - 1
    assert lock_file.read_text() == good


@pytest.fixture
def small_library(tmp_path: Path, lock_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of one file of two laws, on record as proved for all sizes."""
    home = tmp_path / "library"
    home.mkdir()
    (home / "small.rules").write_text(DOUBLE + "rule idle: Neg(Neg(x)) => x\n")
    monkeypatch.setattr("taso_py.rules.location.rules_directory", lambda: home)
    return home / "small.rules"


def test_anew_agrees_with_the_record(
    verdicts: Callable[..., list[str]], small_library: Path, lock_file: Path, capsys: Any
) -> None:
    asked = verdicts()
    assert main(["verify", "--update"]) == 0
    before = lock_file.read_text()
    assert main(["verify", "--anew"]) == 0
    assert asked == ["double", "idle"] * 2
    assert "2 rules, all as expected" in (out := capsys.readouterr().out)
    assert out.rstrip().endswith("(0 not as on record)")
    assert main(["verify", "--anew", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []
    assert lock_file.read_text() == before


@pytest.mark.parametrize(
    ("made", "parts"),
    [
        (Proved(limit=4, method="belief"), ["limit"]),
        (Proved(ranks=3, method="belief", patterns=(">",)), ["ranks", "patterns"]),
        (Proved(method="belief", facts=("faith",)), ["facts"]),
    ],
)
def test_anew_finds_what_the_record_claims_otherwise(
    made: Proved,
    parts: list[str],
    verdicts: Callable[..., list[str]],
    small_library: Path,
    lock_file: Path,
    capsys: Any,
) -> None:
    verdicts()
    assert main(["verify", "--update"]) == 0
    before = lock_file.read_text()
    verdicts(idle=Judgement(made, "x[2]"))
    capsys.readouterr()
    assert main(["verify", "--anew", "--json"]) == 1
    out, error = capsys.readouterr()
    (found,) = json.loads(out)["differences"]
    assert (found["file"], found["name"], found["parts"]) == ("small.rules", "idle", parts)
    assert error.splitlines()[-1] == "superopt: error: not as on record (1): idle"
    assert main(["verify", "--anew"]) == 1
    assert f"on record, but ({', '.join(parts)}) proved for" in capsys.readouterr().out
    assert lock_file.read_text() == before


def test_anew_finds_laws_without_a_record_and_records_without_a_law(
    verdicts: Callable[..., list[str]], small_library: Path, capsys: Any
) -> None:
    verdicts()
    assert main(["verify", "--update"]) == 0
    small_library.write_text(DOUBLE + "rule negative: Neg(x) => Mul(x, 3)\n")
    capsys.readouterr()
    assert main(["verify", "--anew"]) == 1
    out = capsys.readouterr().out
    assert "small.rules negative: nothing is on record, but proved for all sizes" in out
    assert "small.rules idle: proved for all sizes: belief, 0 cases is on record, but the rule is not there" in out
    assert main(["verify", "--anew", "--only", "double"]) == 0


def test_anew_and_update_exclude_each_other(small_library: Path, capsys: Any) -> None:
    assert main(["verify", "--anew", "--update"]) == 2
    assert "give one of them" in capsys.readouterr().err


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


def test_a_full_lock_is_read_without_prover_and_onnx(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from taso_py.rules import lock
from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
path = Path({str(tmp_path / "a.lock")!r})
rules = [r for p in sorted(rules_directory().glob("*.rules")) for r in load_file(p)]
why = {{v: lock.Record(v) for v in ("unknown", "refuted")}}
why["vacuous"] = lock.Record("unknown", "vacuous: nothing", reason="contradictory")
made = [(r, why.get(r.promise, lock.Record("proved", method="belief"))) for r in rules]
lock.Lock().updated(made, rules, lock.installed_z3()).write(path)
lock.lock_path = lambda: path
load_file.__globals__["_parsed"].cache_clear()
from taso_py.cli import main
print(main(["verify"]), "z3" in sys.modules, "onnx" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], env=cli_environment(), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].split() == ["0", "False", "False"], done.stderr


def test_a_disagreement_is_saved_and_the_rest_is_judged(
    verdicts: Callable[..., list[str]], own_rules: Path, lock_file: Path, capsys: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    own_rules.write_text(FALSE + DOUBLE)
    left = np.array([0.5], np.float32)
    against = Disagreement(Proved(method="belief"), Counterexample({"n": 1}, {"x": left}, left, left + 1), "values")
    asked = verdicts(wrong=Judgement(against))
    assert main(["verify", str(own_rules)]) == 70
    out, error = capsys.readouterr()
    assert asked == ["wrong", "double"]
    assert "wrong should be proved" in out
    (saved,) = tmp_path.glob("superopt-disagreement-*.json")
    assert saved.name in error
    told = json.loads(saved.read_text())
    require_valid(told)
    assert (told["left"]["values"], told["right"]["values"]) == ([0.5], [1.5])
    assert told["inputs"]["x"] == {"type": "float32", "shape": [1], "values": [0.5]}
    assert told["proof"]["method"] == "belief"


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
    assert json.loads(capsys.readouterr().out)["rules"][0]["proof"]["cases"] == 3


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
    vacuous = replace(law, promise="vacuous")
    assert Finding(vacuous, record(Judgement(Unknown(VACUOUS, Reason.CONTRADICTORY)))).as_expected
    assert not Finding(vacuous, record(Judgement(Unknown("not proved equal")))).as_expected


def test_what_is_not_proved_is_told_in_the_rules_own_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = "Log(Fill(value=2 - slope, shape=[n]) + 0 * mine)"
    law = f"LeakyRelu(mine, alpha=slope) => LeakyRelu(mine, alpha=slope) * Exp(0 * {log})"
    (tmp_path / "own.rules").write_text(f"rule law: {law} for mine[n] when slope <= 1\n")
    assert main(["verify", str(tmp_path / "own.rules")]) == 1
    told = capsys.readouterr()
    assert (
        "is unknown: the right side may not be defined: the argument of log(-1·slope[] + 2) must be positive"
        in told.out
    )
    assert "unknown: the right side may not be defined: the argument of log(-1·slope[] + 2)" in told.err


def test_the_element_that_differs_is_shown_and_not_one_that_is_no_number_on_both_sides() -> None:
    left, right = np.full(100, np.nan), np.full(100, np.nan)
    left[7] = 1.0
    told = record(Judgement(Refuted(Counterexample({}, {}, left, right)))).counterexample
    assert told["left"] == "1.0 at [7]"
    assert told["right"] == "nan at [7]"


def test_a_law_as_deep_as_is_read_is_judged() -> None:
    (rule,) = stated(f"rule deep: {'Relu(' * 190}x{')' * 190} => Relu(x) for x[*s]", "deep")
    *_, (_, judgement) = crew.judged([rule], jobs=1)
    assert isinstance(judgement.verdict, Proved)

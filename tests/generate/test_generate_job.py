"""The generator as a batch job: what it finds, workers, checkpoints, faults, and the command."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taso_py.cli import main
from taso_py.cli.generate import generate
from taso_py.errors import UsageError
from taso_py.generate.checkpoint import Checkpoint
from taso_py.generate.job import Generation, Settings, text_of
from taso_py.generate.kept.derive import Rules, derivable
from taso_py.generate.tasks import STEPS, Space
from taso_py.options import GenerateOptions
from taso_py.processes.crew import Crew, Lost, Work
from taso_py.progress import SilentProgress
from taso_py.rules.library import load_file
from taso_py.rules.parser import parse_rule

PRODUCTS = ("matmul", "concat2d1", "split10", "split11", "ewadd")


def run(
    *names: str, most: int = 2, workers: int = 1, checkpoint: Checkpoint | None = None, memory: float | None = None
) -> tuple[Generation, str]:
    settings = Settings(Space("taso", names, most))
    job = Generation(settings, workers, checkpoint or Checkpoint(), memory_limit=memory)
    found = job.run()
    return job, text_of(settings, job.figures, found)


# ---- the job -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def products() -> tuple[Generation, str]:
    return run(*PRODUCTS, most=3, workers=2)


def test_classical_laws_are_rediscovered(products: tuple[Generation, str], tmp_path: Path) -> None:
    job, text = products
    path = tmp_path / "generated.rules"
    path.write_text(text)
    found = Rules.of(load_file(path))
    for law in (
        "MatMul(x, MatMul(y, z)) == MatMul(MatMul(x, y), z) for x[*s, m, n], y[n, k], z[k, l]",
        "MatMul(x, Add(y, z)) == Add(MatMul(x, y), MatMul(x, z)) for x[*s, m, n], y[n, k], z[n, k]",
        "MatMul(Add(x, w), y) == Add(MatMul(x, y), MatMul(w, y)) for x[*s, m, n], w[*s, m, n], y[n, k]",
        "MatMul(x, Concat(y, z, axis=1)) == Concat(MatMul(x, y), MatMul(x, z), axis=1) for x[m, n], y[n, k], z[n, l]",
        "Add(Concat(x, y, axis=1), Concat(u, v, axis=1)) == Concat(Add(x, u), Add(y, v), axis=1) "
        "for x[m, n], u[m, n], y[m, k], v[m, k]",
    ):
        assert derivable(parse_rule(f"rule classical: {law}"), found), law
    assert any(len(r.left.outputs) == 2 for r in load_file(path))
    assert job.figures.proved - job.figures.minimised == len(load_file(path))


def test_the_file_is_the_same_for_any_number_of_workers(products: tuple[Generation, str]) -> None:
    assert run(*PRODUCTS, most=3)[1] == products[1]


def test_a_run_that_is_resumed_ends_with_the_same_file(tmp_path: Path) -> None:
    names = ("ewadd", "transpose", "relu")
    whole = run(*names)[1]
    checkpoint = Checkpoint(tmp_path / "steps")
    checkpoint.begin({}, resume=False)
    assert run(*names, checkpoint=checkpoint)[1] == whole
    steps = sorted((tmp_path / "steps").iterdir())
    for lost in steps[::2]:
        lost.unlink()
    assert run(*names, checkpoint=checkpoint)[1] == whole


def test_pairs_that_lower_rules_explain_are_left_out_and_nothing_is_lost(
    products: tuple[Generation, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a last level of millions of pairs most are left out; here the same is asked of a small one."""
    monkeypatch.setattr("taso_py.generate.job._MANY", 0)
    checkpoint = Checkpoint(tmp_path / "steps")
    checkpoint.begin({}, resume=False)
    job, text = run(*PRODUCTS, most=3, workers=2, checkpoint=checkpoint)
    assert job.figures.laws < products[0].figures.laws / 2
    assert job.figures.pairs == products[0].figures.pairs
    for name, content in (("few", text), ("all", products[1])):
        (tmp_path / f"{name}.rules").write_text(content)
    few = Rules.of(load_file(tmp_path / "few.rules"))
    single = [rule for rule in load_file(tmp_path / "all.rules") if len(rule.left.outputs) == 1]
    assert [rule.text() for rule in single if not derivable(rule, few)] == []
    for lost in sorted((tmp_path / "steps").glob("*1-*"))[::2]:  # of the second stage
        lost.unlink()
    assert run(*PRODUCTS, most=3, checkpoint=checkpoint)[1] == text


def test_a_large_run_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taso_py.generate.job.LARGE", 10)
    with pytest.raises(UsageError, match=r"operators are about \d+ applications: .*force=True"):
        run("ewadd", "relu")


def test_a_run_beyond_the_memory_limit_is_refused() -> None:
    with pytest.raises(UsageError, match="more than memory_limit_gb="):
        Generation(Settings(Space("taso", (), 3)), memory_limit=1e-4).run()


def test_a_run_with_a_memory_limit_finds_the_same(products: tuple[Generation, str]) -> None:
    assert Generation(Settings(Space("taso", PRODUCTS, 2)), memory_limit=1.0)._grown().stacks.on_disk
    assert run(*PRODUCTS, most=3, workers=2, memory=1.0)[1] == products[1]


def state(code: int) -> Work:
    def work(task: int) -> Iterator[int]:
        if task == code:
            os.kill(os.getpid(), signal.SIGKILL)
        if task < 0:
            raise ValueError("a task that cannot be done")
        yield task
        yield task * task

    return work


def test_a_killed_worker_costs_its_task() -> None:
    with Crew(state, 2, 2, limit_s=30, attempts=2) as crew:
        found = dict(crew.answers([0, 1, 2, 3, -1]))
    assert [found[k] for k in (0, 1, 3)] == [0, 1, 9]
    assert found[2].why == "the process died"
    assert isinstance(found[4], Lost)
    assert found[4].why == "internal error: ValueError: a task that cannot be done"


def test_a_task_may_wait_for_an_answer() -> None:
    squares: list[int] = []

    def tasks() -> Iterator[int | None]:
        yield from (2, 3)
        while len(squares) < 2:
            yield None
        yield sum(squares)

    with Crew(state, -1, 4, limit_s=30) as crew:
        for _, answer in crew.answers(tasks()):
            squares.append(answer)
    assert squares[2:] == [13 * 13]


def waiting(seconds: float) -> Work:
    """Tasks that compute without end (0), wait (1), or wait without end (2)."""

    def work(task: int) -> Iterator[int]:
        while task == 0:
            pass
        time.sleep(300 if task == 2 else seconds)
        yield task

    return work


def test_the_limit_is_one_of_processor_time() -> None:
    """A task that waits for a processor is not lost for it; one that waits for ever is."""
    with Crew(waiting, 2.0, 3, limit_s=1) as crew:
        found = dict(crew.answers([0, 1, 2]))
    assert found[1] == 1
    for lost in (found[0], found[2]):
        assert isinstance(lost, Lost)
        assert lost.why == "no answer within 1 s"


def sleeping(path: str) -> Work:
    def work(_: int) -> Iterator[None]:
        Path(path).write_text(str(os.getpid()))
        time.sleep(300)
        yield

    return work


ORPHAN = """
import sys
from taso_py.options import GenerateOptions
from taso_py.processes.crew import Crew
from tests.generate.test_generate_job import sleeping
with Crew(sleeping, sys.argv[1], 1, limit_s=300) as crew:
    list(crew.answers([0]))
"""


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(said)], env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    )
    while parent.poll() is None and not (said.exists() and said.read_text()):
        time.sleep(0.05)
    worker = Path("/proc") / said.read_text()
    parent.kill()
    parent.wait()
    end = time.monotonic() + 60
    while worker.exists() and "Z" not in (worker / "stat").read_text() and time.monotonic() < end:
        time.sleep(0.05)
    assert not worker.exists() or "Z" in (worker / "stat").read_text()


# ---- the command -------------------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "taso_py", "generate", "--set", "taso", *arguments]


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    options = ("--ops", "ewadd,ewmul,relu,transpose", "--max-operators", "2", "--workers", "2")
    kept = ("--checkpoint", str(tmp_path / "steps"))
    process = subprocess.Popen(command(*options, *kept, "-o", str(tmp_path / "a.rules")), stderr=subprocess.DEVNULL)
    proved = tmp_path / "steps" / "general-00000.step"
    while process.poll() is None and not proved.exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert main(["generate", "--set", "taso", *options, *kept, "--resume", "-o", str(tmp_path / "a.rules")]) == 0
    assert main(["generate", "--set", "taso", *options, "-o", str(tmp_path / "b.rules")]) == 0
    assert (tmp_path / "a.rules").read_text() == (tmp_path / "b.rules").read_text()


def test_what_is_proved_is_kept_before_its_batch_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taso_py.generate.proving.KEEP_S", 0.0)

    class Interrupted(SilentProgress):
        def update(self, *, done: int | None = None, candidates: int | None = None, **more: object) -> None:
            if candidates == 0 and done == 3:  # of the first batch of proofs
                raise KeyboardInterrupt

    checkpoint = Checkpoint(tmp_path)
    settings = Settings(Space("taso", ("ewadd", "ewmul", "relu", "transpose"), 2))
    with pytest.raises(KeyboardInterrupt):
        Generation(settings, 2, checkpoint, progress=Interrupted()).run()
    known = checkpoint.get("proved-00000")
    assert len(known) == 3
    first = min(known)
    checkpoint.put("proved-00000", {**known, first: {"lost": "as it was kept"}})
    job = Generation(settings, 2, checkpoint)
    job.run()
    assert [why for _, why in job.unknown if why == "as it was kept"] == ["as it was kept"]
    assert set(checkpoint.get("proved-00000")) > set(known)


def test_a_full_disk_is_one_line_and_the_run_goes_on(tmp_path: Path) -> None:
    options = ("--ops", "ewadd,transpose", "--max-operators", "2", "-o", str(tmp_path / "a.rules"))
    kept = ("--checkpoint", str(tmp_path / "steps"))

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

    found = subprocess.run(
        command(*options, *kept), capture_output=True, text=True, check=False, preexec_fn=small_files
    )
    assert found.returncode == 4
    assert re.search(r"^superopt: error: cannot write .*: file too large .*$", found.stderr, re.MULTILINE)
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "a.rules").exists()
    assert main(["generate", "--set", "taso", *options, *kept, "--resume"]) == 0
    assert load_file(tmp_path / "a.rules")


def test_figures_are_one_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", "--set", "taso", "--ops", "relu", "--max-operators", "2", "--json"]
    assert main([*arguments, "-o", str(tmp_path / "a.rules")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["proved"] == 1
    assert found["applications"] > 0
    (rule,) = load_file(tmp_path / "a.rules")
    assert rule.id == parse_rule("rule same: Relu(Relu(x)) == Relu(x) for x[*s]").id


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ops", "NoSuchThing"], "--ops NoSuchThing: neither a template nor an operator"),
        (["--set", "no"], "--set no: there are default, taso"),
        (["--resume"], "--resume needs --checkpoint DIR"),
        (["-o", "missing/dir/a.rules"], "create its directory first"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["generate", *arguments]) in (2, 4)
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_and_other_settings_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "steps"
    files = ["-o", str(tmp_path / "a.rules"), "--checkpoint", str(folder)]
    arguments = ["generate", "--set", "taso", "--ops", "relu", *files]
    assert main([*arguments, "--max-operators", "1"]) == 0
    assert main([*arguments, "--max-operators", "1", "--force"]) == 2
    assert "add --resume" in capsys.readouterr().err
    assert main([*arguments, "--max-operators", "2", "--resume"]) == 2
    assert "other settings (space)" in capsys.readouterr().err
    damaged = folder / "prints-00000.step"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert main([*arguments, "--max-operators", "1", "--resume"]) == 2
    assert f"{damaged} is damaged" in capsys.readouterr().err


def test_the_command_proves_as_long_as_the_job_by_itself() -> None:
    (steps,) = (option for option in generate.params if option.name == "steps")
    assert steps.default == STEPS == GenerateOptions().steps == Settings(Space("taso", (), 1)).steps


@pytest.mark.parametrize("content", [b"[1]", b"{", b"[" * 5000, b"9" * 5000, b"\xff" * 9], ids=lambda b: repr(b[:4]))
def test_a_step_that_holds_something_else_is_damaged(content: bytes, tmp_path: Path) -> None:
    step = tmp_path / "settings.step"
    step.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    with pytest.raises(UsageError, match="is damaged: name another directory"):
        Checkpoint(tmp_path).begin({}, resume=True)
    other = tmp_path / "other.step"
    step.rename(other)
    with pytest.raises(UsageError, match="holds steps of a run, and not which"):
        Checkpoint(tmp_path).begin({}, resume=True)
    if content != b"[1]":  # which some other step may well be
        with pytest.raises(UsageError, match="is damaged: delete it"):
            Checkpoint(tmp_path).get("other")


def test_one_run_at_a_time_has_a_checkpoint_and_leaves_nothing_before_its_first_step(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path)
    first.begin({"steps": 1}, resume=False)
    with pytest.raises(UsageError, match="is in use by another run"):
        Checkpoint(tmp_path).begin({"steps": 1}, resume=True)
    del first
    second = Checkpoint(tmp_path)
    second.begin({"steps": 2}, resume=False)
    second.put("laws", [])
    del second
    with pytest.raises(UsageError, match="holds a run already"):
        Checkpoint(tmp_path).begin({"steps": 2}, resume=False)
    assert Checkpoint(tmp_path).get("settings") == {"steps": 2}


def test_a_mistyped_option_leaves_no_run_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", "--ops", "relu", "--max-operators", "1", "--checkpoint", str(tmp_path / "kept")]
    output = ["-o", str(tmp_path / "g.rules")]
    assert main([*arguments, *output, "--set", "tasso"]) == 2
    assert main([*arguments, *output, "--set", "taso"]) == 0
    mine = tmp_path / "notes.txt"
    mine.write_text("my notes")
    assert main([*arguments, "-o", str(mine), "--set", "taso", "--resume"]) == 4
    assert mine.read_text() == "my notes"
    assert main([*arguments, *output, "--set", "taso", "--resume"]) == 0


def test_fingerprints_that_are_cut_short_are_damaged(tmp_path: Path) -> None:
    content = bytes(9)
    (tmp_path / "prints.step").write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    with pytest.raises(UsageError, match="is damaged: delete it"):
        Checkpoint(tmp_path).get_array("prints")


def test_a_pipe_in_the_place_of_a_step_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.step")
    rescue = threading.Timer(60, lambda: (tmp_path / "settings.step").write_bytes(b""))  # else a failure would hang
    rescue.start()
    with pytest.raises(UsageError, match=r"settings\.step is not a regular file"):
        Checkpoint(tmp_path).begin({}, resume=True)
    rescue.cancel()

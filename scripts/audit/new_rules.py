"""Which rules of a file other optimisers have too, asked of the optimisers themselves.

    python -m scripts.audit.new_rules rules/generated.rules --taso taso_shipped_rules.json add-conv-mul-52206277 ...

TASO, and TENSAT, which takes TASO's rules, have a rule as far as its instances can be derived from TASO's shipped
substitutions: some special cases, or all.
onnxsim, onnxslim and ONNX Runtime have it if they turn an instance of its left side, weights as initializers, into
something that runs the operators of the right side, or fewer.  A name ending in -reversed means the other direction.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

from scripts.bench.tools import run_onnxsim, run_onnxslim
from taso_py.errors import TypingError
from taso_py.generate.kept.derive import Rules, share_derived
from taso_py.graph.table import Values
from taso_py.onnx_io.fragment import fragment
from taso_py.ops.convolution import Conv
from taso_py.ops.linear import MatMul
from taso_py.rules.instances import Instance, draw
from taso_py.rules.library import load_file
from taso_py.rules.rule import Rule
from taso_py.rules.taso.reader import DeclaredSizes, law, read
from taso_py.rules.term import Block, Predicate, Variable

OPSETS = (17, 20)
"""The first at which a rule can be written is taken: tools know the older ones best, and Gelu came with 20."""
_ATTEMPTS = 3000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule's left side becomes elsewhere: whether TASO derives it, and the operators that each tool leaves."""

    rule: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    taso: float | None
    """Share of random instances that TASO's rules derive; None: not asked, of a rule of several outputs."""
    tools: dict[str, tuple[str, ...]]

    def has(self, tool: str) -> bool:
        """Whether a tool reaches the right side, or something smaller."""
        left = self.tools[tool]
        return left == self.right or len(left) <= len(self.right) < len(self.left)

    @property
    def new(self) -> bool:
        """Whether none has it."""
        return self.taso == 0 and not any(map(self.has, self.tools))


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--taso", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True,
    help="TASO's graph_subst.pb decoded to JSON.",
)  # fmt: skip
def main(file: Path, names: Sequence[str], taso: Path) -> None:
    """Prints a table; exit code 1 when some rule is not known to be new."""
    known = {d.name: d for rule in load_file(file) for d in (rule, rule.reversed())}
    missing = [name for name in names if name not in known]
    if missing:
        raise click.UsageError(f"{file} has no rule {', '.join(missing)}")
    shipped = [law(s, DeclaredSizes.EXPLICIT) for s in read(taso.read_text(encoding="utf-8"))]
    rules = Rules.of(rule for rule in shipped if rule.left != rule.right)
    verdicts = [judged(known[name], rules) for name in names]
    table = Table("rule", "left", "right", "TASO", *verdicts[0].tools)
    for v in verdicts:
        found = ("has it" if v.has(tool) else "no" for tool in v.tools)
        derived = "not asked" if v.taso is None else "no" if v.taso == 0 else f"has {100 * v.taso:.0f} %"
        table.add_row(v.rule, " ".join(v.left), " ".join(v.right), derived, *found)
    Console(width=160).print(table)
    sys.exit(0 if all(v.new for v in verdicts) else 1)


def judged(rule: Rule, taso: Rules) -> Verdict:
    """The rule put to TASO's rules and to the tools."""
    instance = draw(_with_weights(rule), np.random.default_rng(0), Values(), _ATTEMPTS)
    if instance is None:
        raise click.ClickException(f"{rule.name}: no instance found")
    left, right = _models(instance)
    with TemporaryDirectory() as folder:
        source = Path(folder) / "left.onnx"
        onnx.save(left, source)
        runs = [
            run_onnxsim(source, source.with_name("onnxsim.onnx")),
            run_onnxslim(source, source.with_name("onnxslim.onnx")),
        ]
        for run in runs:
            if run.output is None:  # what did not run has not said that it lacks the rule
                raise click.ClickException(f"{rule.name}: {run.tool}: {run.failure}")
        found = {run.tool: _operators(onnx.load(run.output)) for run in runs if run.output}
        found["ONNX Runtime"] = _operators(onnx.load(_optimised(source)))
    derived = share_derived(rule, taso) if len(rule.left.outputs) == 1 else None
    return Verdict(rule.name, _operators(left), _operators(right), derived, found)


def _with_weights(rule: Rule) -> Rule:
    """The rule with what multiplies images and vectors fixed: kernels, right factors, one number for each channel."""
    sides = [a for a in rule.left.applications() if a.operator in (Conv, MatMul)]
    names = {x.name for a in sides for x in a.arguments[1:] if isinstance(x, Variable)}
    plain = [d for d in rule.declarations if not any(isinstance(axis, Block) for axis in d.axes)]
    names |= {d.variable for d in plain if len(d.axes) in (1, 3) and d.variable in rule.left.variables()}
    fixed = tuple(Predicate("constant", (name,)) for name in sorted(names))
    return replace(rule, conditions=(*rule.conditions, *fixed))


def _models(instance: Instance) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    first, last = OPSETS
    try:
        return _model(instance, instance.left, first), _model(instance, instance.right, first)
    except TypingError:
        return _model(instance, instance.left, last), _model(instance, instance.right, last)


def _model(instance: Instance, outputs: Sequence[int], opset: int) -> onnx.ModelProto:
    table = instance.model(outputs, opset)
    used = {i for node in table.nodes.values() for i in node.inputs}
    feeds = [v for v in instance.feeds if v in used]
    nodes = sorted(table.nodes.items())
    wanted = [o for o in dict.fromkeys(outputs) if o in table.nodes]
    if not wanted:  # inputs alone: nothing runs
        return onnx.ModelProto()
    return fragment(nodes, feeds, wanted, instance.values, opset, weights=instance.weights, fold=True)


def _optimised(source: Path) -> Path:
    """What ONNX Runtime makes of a model, short of layouts of one CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(source.with_name("runtime.onnx"))
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return Path(options.optimized_model_filepath)


def _operators(model: onnx.ModelProto) -> tuple[str, ...]:
    """The operators that run, in order; a fused one counts as what it begins with."""
    names = (n.op_type.removeprefix("Fused") for n in model.graph.node)
    return tuple(name for name in names if name not in ("Constant", "Identity"))


if __name__ == "__main__":
    main()

"""Which instances the claim of a proof includes."""

from __future__ import annotations

from collections.abc import Callable

from taso_py.prove.verdict import Proved
from taso_py.rules.coverage import Typing, covered
from taso_py.rules.instances import Instance


def claimed(proof: Proved) -> Callable[[Instance], bool]:
    """Whether a match by the proof would rewrite an instance: its typing is covered, and both sides have equal types.

    What the right side requires is decided at the match: an instance on which it cannot be built is not included.
    """

    def includes(instance: Instance) -> bool:
        types = instance.values.types
        if not instance.right or any(types[a] != types[b] for a, b in zip(instance.left, instance.right, strict=True)):
            return False
        outputs = tuple(zip(instance.left, instance.right, strict=True))
        tensors = instance.binding.tensors
        typing = Typing(
            instance.rule, instance.placed, instance.placed_right, tensors, outputs, types.__getitem__,
            blocks=instance.binding.block_ranks(),
        )  # fmt: skip
        if not _within(instance, typing, proof) or not typing.of_types(proof.types):
            return False
        return any(covered(proof.patterns, typing.signature(whole=whole)) for whole in (False, True))

    return includes


def _within(instance: Instance, typing: Typing, proof: Proved) -> bool:
    """Whether no size, no attribute and no number of axes is beyond a bounded proof."""
    if proof.limit is None:
        return True
    shapes = [instance.values.types[v].dims for v in (*instance.nodes, *instance.feeds, *instance.weights)]
    return typing.within(proof.limit) and (proof.ranks is None or max(map(len, shapes), default=0) <= proof.ranks)

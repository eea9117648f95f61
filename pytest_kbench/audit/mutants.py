"""Mutants of a reference's graph: every place in it, with everything that can be wrong there."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from ..oracle.compare import compare
from ..oracle.truth import HALF
from ..task import Task
from .changes import applied, variants
from .decompose import fused
from .equal import equal
from .graph import CannotTrace, Graph, Level, Ran, Site, Structure, line, run, trace
from .kernel import Answer, Asked, Breaks, NotHere, Run, Wrong, stateless
from .variant import Variant

STRUCTURES = 4  # of one reference, whose mutants are made: more are those of a loop over a dimension
FIRST, LAST = 3, 1  # occurrences of an operator that are mutated, where it stands in a graph again and again
LEVELS: tuple[Level, ...] = ("whole", "parts")


class Mutants:
    """The mutants of one task. New structures show while calls are made: `found_in` tells of those that a call adds.

    They are those of the forward, or on calls with a backward those of what comes after the forward.
    `untraced` says why the reference has no graph, where it has none: then it has no mutants of this kind.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._structures: dict[Level, list[Structure]] = {level: [] for level in LEVELS}
        self._plain: tuple[Asked, dict[Level, Ran | None]] | None = None
        self.untraced: str | None = None

    def found_in(self, asked: Asked) -> Iterator[Wrong]:
        """The mutants of the structures that this call is the first to have."""
        if not any(each.numel() for each in asked.right):
            return  # another structure, maybe, but one that computes nothing
        for level in LEVELS:
            known = self._structures[level]
            plain = self._run_plain(asked, level)
            if plain is None or plain.structure in known or len(known) >= STRUCTURES:
                continue
            known.append(plain.structure)
            try:
                graph = trace(self._task, asked.question, level)
            except CannotTrace as error:
                self.untraced = str(error)
                continue
            if graph.structure != plain.structure:
                self.untraced = "traced, it does something else than when it runs"
                continue
            first = 0 if asked.question.backward is None else plain.forward
            yield from self._of(graph, first, f" (graph {len(known)})" if len(known) > 1 else "")

    def reasons(self) -> Mapping[str, str]:
        """Why a degenerate kernel may be right after all, by its name: what the whole graph is says so."""
        if set(self._structures["whole"]) - {("mean",), ("sum",)} or not self._structures["whole"]:
            return {}
        return {f"{each.name} averaged": "the mean of a mean is that mean" for each in self._task.tensors}

    def _run_plain(self, asked: Asked, level: Level) -> Ran | None:
        """Outputs of the unchanged graph, and its structure; `None` where it is wrong, and mutants tell nothing."""
        if self._plain is None or self._plain[0] is not asked:
            self._plain = (asked, {})
        known = self._plain[1]
        if level not in known:
            try:
                ran = run(self._task, asked.question, level)
            except Exception:  # taken apart, it does not run: its backward wants what the whole operator saves
                known[level] = None
            else:
                known[level] = ran if fits(asked, ran.outputs) and passes(asked, ran.outputs) else None
        return known[level]

    def _of(self, graph: Graph, first: int, suffix: str) -> Iterator[Wrong]:
        counts = graph.counts()
        prefix = "backward " if first else ""
        for site, node in zip(graph.sites, graph.nodes, strict=True):
            if site.position < first or node not in graph.live:
                continue
            repeated = FIRST <= site.occurrence < counts[site.op] - LAST
            if repeated or (site.level == "whole" and site.op not in fused()):
                continue
            for variant in variants(node, nan=self._task.nan == "propagate"):
                yield Wrong(
                    "mutant",
                    f"{prefix}{site} {variant.name}{suffix}",
                    f"- {line(node)}\n+ {node.name} = {variant.after}",
                    stateless(self._mutated(site, variant)),
                    variant.fix,
                    equal(self._task, node, variant.name),
                )

    def _mutated(self, site: Site, variant: Variant) -> Run:
        change = functools.partial(applied, variant)

        def mutated(asked: Asked) -> Answer:
            plain = self._run_plain(asked, site.level)
            if plain is None or plain.structure != site.structure:
                raise NotHere
            if variant.coarse and asked.call.dtype in HALF:
                raise NotHere
            try:
                outputs = run(self._task, asked.question, site.level, site.position, change).outputs
            except NotHere:
                raise
            except Exception as error:  # an operator that does not take what it is given here
                raise Breaks(f"it raises {type(error).__name__}") from error
            if not fits(asked, outputs):
                raise Breaks("its outputs have other shapes or dtypes")
            return None if same(outputs, plain.outputs) else outputs

        return mutated


def fits(asked: Asked, outputs: Sequence[Tensor]) -> bool:
    """Whether outputs have the number, shapes and dtypes that are due."""
    return [(each.shape, each.dtype) for each in outputs] == [(each.shape, each.dtype) for each in asked.right]


def same(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    """Whether all numbers are the same, NaN in the same places."""
    return all(bool(((x == y) | ((x != x) & (y != y))).all()) for x, y in zip(a, b, strict=True))


def passes(asked: Asked, outputs: Sequence[Tensor]) -> bool:
    """Whether outputs are as right as a candidate's must be."""
    judged = zip(outputs, asked.truth.golden, asked.truth.bounds, strict=True)
    return all(compare(each, golden, bound, output=index).ok for index, (each, golden, bound) in enumerate(judged))
